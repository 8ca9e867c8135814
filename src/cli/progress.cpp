#include "cli/progress.hpp"

#include <unistd.h>

#include <cstdio>

#include "cli/terminal.hpp"

namespace lapidary::cli {

Progress::Progress(bool quiet) : shows_(!quiet && takes_escapes(STDERR_FILENO)) {}

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
