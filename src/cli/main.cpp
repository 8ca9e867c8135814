// lapidary: the command line. Answers go to stdout, everything else to stderr.
#include <algorithm>
#include <cstdio>
#include <exception>
#include <ios>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "checkpoint/error.hpp"
#include "cli/commands.hpp"
#include "cli/mistakes.hpp"
#include "cli/process.hpp"
#include "cli/settings.hpp"
#include "cli/version.hpp"

namespace {

// Only the one that is asked for, where that is plain: the flags of all take a millisecond.
void add_commands(CLI::App& app, int& status, std::string_view wanted) {
  const auto all = lapidary::cli::commands();
  const bool plain = !wanted.empty() && std::ranges::find(all, wanted, &lapidary::cli::Command::name) != all.end();
  for (const lapidary::cli::Command& command : all)
    if (!plain || command.name == wanted) command.add(app, status);
}

int run(int argc, char** argv) {
  CLI::App app("Runs Gemma 4 checkpoints, one stream as fast as the machine allows.", "lapidary");
  app.require_subcommand(1);
  app.option_defaults()->take_last();
  app.set_version_flag("--version", lapidary::cli::version_text, "what this program is and what it was built for");
  int status = 0;
  add_commands(app, status, argc > 1 ? argv[1] : "");
  lapidary::cli::apply_settings(app);
  try {
    std::vector<std::string> words = lapidary::cli::words_of_line(argc, argv);
    std::ranges::reverse(words);  // as the parser takes them
    app.parse(std::move(words));
  } catch (const CLI::Success& wish) {  // help, version
    app.exit(wish);
  } catch (const CLI::ParseError& error) {
    lapidary::cli::blame_word(app);
    app.exit(error);
    status = lapidary::cli::kUsage;
  }
  lapidary::cli::flush_output();
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    lapidary::cli::set_up_process();
    return run(argc, argv);
  } catch (const lapidary::Error& error) {
    std::fprintf(stderr, "%s\n", error.message().c_str());
    return error.kind == lapidary::ErrorKind::usage ? lapidary::cli::kUsage : lapidary::cli::kFailure;
  } catch (const std::ios_base::failure&) {  // std::cout alone throws it
    std::fprintf(stderr, "%s\n", lapidary::cli::output_error().message().c_str());
    return lapidary::cli::kFailure;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "[lapidary] %s\n", error.what());
    return lapidary::cli::kFailure;
  }
}
