// The commands of a program that takes any model.
#include "cli/answerer.hpp"
#include "cli/commands.hpp"

namespace lapidary::cli {

std::span<const Command> commands() {
  static constexpr Command kCommands[] = {
      {"generate", add_generate},
      {"chat", [](CLI::App& app, int& status) { add_chat(app, status, remote_answerer); }},
      {"serve", [](CLI::App& app, int&) { add_serve(app); }},
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
