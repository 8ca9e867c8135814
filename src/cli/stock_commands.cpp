// The commands of a program that takes any model.
#include "cli/commands.hpp"

namespace lapidary::cli {

void add_commands(CLI::App& app, int& status) {
  add_generate(app, status);
  add_chat(app, status);
  add_list(app);
  add_inspect(app);
  add_cut(app);
  add_logits(app);
  add_bench(app);
  add_check_exact(app);
  add_backend_commands(app);
  add_describe(app);
  add_tokenize(app);
}

}  // namespace lapidary::cli
