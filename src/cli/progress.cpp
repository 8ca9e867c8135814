#include "cli/progress.hpp"

#include <unistd.h>

#include <cstdio>

#include "cli/terminal.hpp"

namespace lapidary::cli {

StatusLine::StatusLine(bool quiet) : shows_(!quiet && takes_escapes(STDERR_FILENO)) {}

void StatusLine::show(const std::string& text) {
  if (!shows_) return;
  const int columns = columns_of(STDERR_FILENO);
  const std::size_t room = columns ? static_cast<std::size_t>(columns) - 1 : text.size();  // a line that wraps could not be taken back
  std::fprintf(stderr, "\r%s\033[K", text.substr(0, room).c_str());
  std::fflush(stderr);
  open_ = true;
}

void StatusLine::clear() {
  if (!open_) return;
  std::fputs("\r\033[K", stderr);
  std::fflush(stderr);
  open_ = false;
}

void show_prompt(StatusLine& line, const engine::Answer& answer) {
  if (!answer.in_prompt()) return line.clear();
  const engine::Answer::Result& so_far = answer.result();
  const double tok_s = (answer.read_tokens() - so_far.reused_tokens) / so_far.first_token_seconds;
  char text[128];
  std::snprintf(text, sizeof text, "prompt: %d of %d tokens, %.0f tok/s, %.0f s left", answer.read_tokens(), so_far.prompt_tokens, tok_s,
                (so_far.prompt_tokens - answer.read_tokens()) / tok_s);
  line.show(text);
}

}  // namespace lapidary::cli
