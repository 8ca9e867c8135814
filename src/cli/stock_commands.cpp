// The commands of a program that takes any model.
#include "cli/answerer.hpp"
#include "cli/commands.hpp"
#include "serve/fetch.hpp"

namespace lapidary::cli {
namespace {

std::unique_ptr<serve::Fetcher> fetcher_of(const std::vector<std::string>& hosts) { return serve::make_fetcher({.hosts = hosts}); }

}  // namespace

std::span<const Command> commands() {
  static constexpr Command kCommands[] = {
      {"generate", add_generate},
      {"chat", [](CLI::App& app, int& status) { add_chat(app, status, remote_answerer); }},
      {"serve", [](CLI::App& app, int&) { add_serve(app, fetcher_of); }},
      {"list", [](CLI::App& app, int&) { add_list(app); }},
      {"inspect", [](CLI::App& app, int&) { add_inspect(app); }},
      {"cut", [](CLI::App& app, int&) { add_cut(app); }},
      {"logits", [](CLI::App& app, int&) { add_logits(app); }},
      {"rounds", [](CLI::App& app, int&) { add_rounds(app); }},
      {"bench", [](CLI::App& app, int&) { add_bench(app); }},
      {"check-exact", [](CLI::App& app, int&) { add_check_exact(app); }},
      {"", [](CLI::App& app, int&) { add_backend_commands(app); }},
      {"", [](CLI::App& app, int&) { add_describe(app); }},
      {"tokenize", [](CLI::App& app, int&) { add_tokenize(app); }},
  };
  return kCommands;
}

}  // namespace lapidary::cli
