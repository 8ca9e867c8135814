#include "cli/line_reader.hpp"

#include <histedit.h>
#include <unistd.h>

#include <cstdio>
#include <iostream>

namespace lapidary::cli {
namespace {

constexpr int kHistoryLines = 1000;

LineReader* reader_of(EditLine* editor) {
  LineReader* reader = nullptr;
  el_get(editor, EL_CLIENTDATA, &reader);
  return reader;
}

char* prompt_text(EditLine* editor) { return const_cast<char*>(reader_of(editor)->prompt()); }

unsigned char on_ctrl_c(EditLine* editor, int) {
  reader_of(editor)->give_up_line();
  return CC_NEWLINE;
}

EditLine* editor_of(void* editor) { return static_cast<EditLine*>(editor); }
History* history_of(void* history) { return static_cast<History*>(history); }

}  // namespace

LineReader::LineReader() : interactive_(isatty(STDIN_FILENO) && isatty(STDOUT_FILENO)) {
  if (!interactive_) return;
  HistEvent event;
  editor_ = el_init("lapidary", stdin, stdout, stderr);
  history_ = history_init();
  history(history_of(history_), &event, H_SETSIZE, kHistoryLines);
  el_set(editor_of(editor_), EL_CLIENTDATA, this);
  el_set(editor_of(editor_), EL_PROMPT, &prompt_text);
  el_set(editor_of(editor_), EL_EDITOR, "emacs");
  el_set(editor_of(editor_), EL_HIST, history, history_of(history_));
  // While a line is edited, Ctrl-C is a key like any other.
  el_set(editor_of(editor_), EL_SETTY, "-d", "-isig", nullptr);
  el_set(editor_of(editor_), EL_ADDFN, "give-up-line", "Give up the line", &on_ctrl_c);
  el_set(editor_of(editor_), EL_BIND, "^C", "give-up-line", nullptr);
}

LineReader::~LineReader() {
  if (!interactive_) return;
  history_end(history_of(history_));
  el_end(editor_of(editor_));
}

std::optional<std::string> LineReader::read(const char* prompt) {
  if (!interactive_) {
    std::string line;
    if (!std::getline(std::cin, line)) return std::nullopt;
    return line;
  }
  prompt_ = prompt;
  for (;;) {
    given_up_ = false;
    int length = 0;
    const char* text = el_gets(editor_of(editor_), &length);
    if (given_up_) {
      std::puts("");
      continue;
    }
    if (!text || length <= 0) return std::nullopt;
    std::string line(text, static_cast<std::size_t>(length));
    if (line.ends_with('\n')) line.pop_back();
    HistEvent event;
    if (!line.empty()) history(history_of(history_), &event, H_ENTER, line.c_str());
    return line;
  }
}

}  // namespace lapidary::cli
