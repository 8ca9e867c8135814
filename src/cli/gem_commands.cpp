// The commands of a program that was cut for one model.
#include "cli/commands.hpp"

namespace lapidary::cli {

std::span<const Command> commands() {
  static constexpr Command kCommands[] = {
      {"generate", add_generate},
      {"chat", [](CLI::App& app, int& status) { add_chat(app, status, nullptr); }},
      {"serve", [](CLI::App& app, int&) { add_serve(app, nullptr); }},
      {"inspect", [](CLI::App& app, int&) { add_inspect(app); }},
      {"logits", [](CLI::App& app, int&) { add_logits(app); }},
      {"bench", [](CLI::App& app, int&) { add_bench(app); }},
      {"check-exact", [](CLI::App& app, int&) { add_check_exact(app); }},
      {"", [](CLI::App& app, int&) { add_describe(app); }},
      {"tokenize", [](CLI::App& app, int&) { add_tokenize(app); }},
  };
  return kCommands;
}

}  // namespace lapidary::cli
