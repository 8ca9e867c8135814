#include "cli/progress.hpp"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace lapidary::cli {

namespace {

// A dumb terminal cannot take a line back.
bool is_terminal() {
  const char* kind = std::getenv("TERM");
  return isatty(STDERR_FILENO) && kind && std::strcmp(kind, "dumb") != 0;
}

}  // namespace

Progress::Progress(bool quiet) : shows_(!quiet && is_terminal()) {}

void Progress::show(const engine::Answer& answer) {
  if (!shows_) return;
  if (!answer.in_prompt()) return clear();
  const engine::Answer::Result& so_far = answer.result();
  const double tok_s = (answer.read_tokens() - so_far.reused_tokens) / so_far.first_token_seconds;
  std::fprintf(stderr, "\rprompt: %d of %d tokens, %.0f tok/s, %.0f s left\033[K", answer.read_tokens(), so_far.prompt_tokens, tok_s,
               (so_far.prompt_tokens - answer.read_tokens()) / tok_s);
  std::fflush(stderr);
  open_ = true;
}

void Progress::clear() {
  if (!open_) return;
  std::fputs("\r\033[K", stderr);
  std::fflush(stderr);
  open_ = false;
}

}  // namespace lapidary::cli
