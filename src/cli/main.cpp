// lapidary: the command line. Answers go to stdout, everything else to stderr.
#include <cstdio>
#include <exception>

#include <CLI/CLI.hpp>

#include "checkpoint/error.hpp"
#include "cli/commands.hpp"

int main(int argc, char** argv) {
  CLI::App app("Runs Gemma 4 checkpoints, one stream as fast as the machine allows.", "lapidary");
  app.require_subcommand(1);
  int status = 0;
  lapidary::cli::add_generate(app, status);
  lapidary::cli::add_chat(app);
  lapidary::cli::add_inspect(app);
  lapidary::cli::add_logits(app);
  lapidary::cli::add_bench(app);
  lapidary::cli::add_check_exact(app);
  lapidary::cli::add_backend_commands(app);
  lapidary::cli::add_describe(app);
  lapidary::cli::add_tokenize(app);
  try {
    app.parse(argc, argv);
    return status;
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : lapidary::cli::kUsage;
  } catch (const lapidary::Error& error) {
    std::fprintf(stderr, "%s\n", error.message().c_str());
    return error.kind == lapidary::ErrorKind::usage ? lapidary::cli::kUsage : lapidary::cli::kFailure;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "[lapidary] %s\n", error.what());
    return lapidary::cli::kFailure;
  }
}
