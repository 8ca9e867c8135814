// The subcommands. Each adds its flags to the app and runs from CLI11's callback.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>

namespace lapidary::serve {
class Fetcher;
}

namespace lapidary::cli {

// Exit codes.
inline constexpr int kFailure = 1;  // a file, a checkpoint, the machine
inline constexpr int kUsage = 2;    // the command line
inline constexpr int kUnfinished = 3;  // a limit came before the end of a call, or of what a schema asks for
inline constexpr int kCancelled = 130;  // Ctrl-C; what was generated has been printed

// All that this program has.
struct Command {
  std::string_view name;                          // empty: there are several, and they describe or check the others
  void (*add)(CLI::App& app, int& status);        // `status` becomes the exit code
};
std::span<const Command> commands();

void add_inspect(CLI::App& app);
void add_cut(CLI::App& app);
void add_list(CLI::App& app);
void add_logits(CLI::App& app);
void add_rounds(CLI::App& app);
void add_bench(CLI::App& app);
void add_tokenize(CLI::App& app);
void add_generate(CLI::App& app, int& status);
// connect: makes the other end of `chat --connect URL`; null: the program is there for its own model.
class Answerer;
using Connect = std::unique_ptr<Answerer> (*)(const std::string& url, bool quiet);
void add_chat(CLI::App& app, int& status, Connect connect);
// make_fetcher: makes what gets pictures from the hosts of `--allow-media-from`; null: the program does without.
using MakeFetcher = std::unique_ptr<serve::Fetcher> (*)(const std::vector<std::string>& hosts);
void add_serve(CLI::App& app, MakeFetcher make_fetcher);
void add_check_exact(CLI::App& app);
void add_describe(CLI::App& app);
void add_backend_commands(CLI::App& app);  // those that only some backends have

}  // namespace lapidary::cli
