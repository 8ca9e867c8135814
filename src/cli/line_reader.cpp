#include "cli/line_reader.hpp"

#include <histedit.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <string_view>

#include "checkpoint/environment.hpp"
#include "cli/terminal.hpp"

namespace lapidary::cli {
namespace {

constexpr int kHistoryLines = 1000;

LineReader* reader_of(EditLine* editor) {
  LineReader* reader = nullptr;
  el_get(editor, EL_CLIENTDATA, &reader);
  return reader;
}

char* prompt_text(EditLine* editor) { return const_cast<char*>(reader_of(editor)->prompt()); }

// The line is left as Enter leaves it: below its last row, however many it has.
unsigned char on_ctrl_c(EditLine* editor, int) {
  reader_of(editor)->give_up_line();
  el_push(editor, "\n");
  return CC_REFRESH;
}

unsigned char on_ctrl_z(EditLine* editor, int) {
  reader_of(editor)->stop();
  return CC_NORM;
}

// What a terminal pastes comes between marks, so that the ends of its lines do not send it in pieces.
constexpr const char *kMarkPastes = "\x1b[?2004h", *kPasteAsTyped = "\x1b[?2004l";
constexpr const char* kPasteBegins = "\x1b[200~";
constexpr std::wstring_view kPasteEnds = L"\x1b[201~";

unsigned char on_paste(EditLine* editor, int) {
  std::wstring text;
  wchar_t letter = 0;
  while (!text.ends_with(kPasteEnds)) {
    if (el_wgetc(editor, &letter) != 1) return CC_EOF;
    text += letter == L'\r' ? L'\n' : letter;
  }
  text.resize(text.size() - kPasteEnds.size());
  return el_winsertstr(editor, text.c_str()) == 0 ? CC_REFRESH : CC_ERROR;
}

void tell_terminal(const char* text) {
  std::fputs(text, stdout);
  std::fflush(stdout);
}

// Where programs keep what is nice to have next time; its folder is made. Empty where there is no such place.
std::string find_history_file() {
  std::filesystem::path folder = user_folder("XDG_STATE_HOME", ".local/state");
  if (folder.empty()) return "";
  folder /= "lapidary";
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  return error ? "" : (folder / "history").string();
}

EditLine* editor_of(void* editor) { return static_cast<EditLine*>(editor); }
History* history_of(void* history) { return static_cast<History*>(history); }

}  // namespace

LineReader::LineReader(InputLimit limit) : limit_(std::move(limit)), interactive_(isatty(STDIN_FILENO) && isatty(STDOUT_FILENO)) {
  if (!interactive_) return;
  HistEvent event;
  editor_ = el_init("lapidary", stdin, stdout, stderr);
  history_ = history_init();
  history(history_of(history_), &event, H_SETSIZE, kHistoryLines);
  history_file_ = find_history_file();
  if (!history_file_.empty()) history(history_of(history_), &event, H_LOAD, history_file_.c_str());
  el_set(editor_of(editor_), EL_CLIENTDATA, this);
  el_set(editor_of(editor_), EL_PROMPT, &prompt_text);
  el_set(editor_of(editor_), EL_EDITOR, "emacs");
  el_set(editor_of(editor_), EL_HIST, history, history_of(history_));
  // While a line is edited, Ctrl-C and Ctrl-Z are keys like any other.
  el_set(editor_of(editor_), EL_SETTY, "-d", "-isig", nullptr);
  el_set(editor_of(editor_), EL_ADDFN, "give-up-line", "Give up the line", &on_ctrl_c);
  el_set(editor_of(editor_), EL_BIND, "^C", "give-up-line", nullptr);
  el_set(editor_of(editor_), EL_ADDFN, "stop", "Stop the program", &on_ctrl_z);
  el_set(editor_of(editor_), EL_BIND, "^Z", "stop", nullptr);
  marks_pastes_ = takes_escapes(STDOUT_FILENO);
  el_set(editor_of(editor_), EL_ADDFN, "paste", "Insert what is pasted", &on_paste);
  el_set(editor_of(editor_), EL_BIND, kPasteBegins, "paste", nullptr);
}

LineReader::~LineReader() {
  if (!interactive_) return;
  HistEvent event;
  if (!history_file_.empty()) history(history_of(history_), &event, H_SAVE, history_file_.c_str());
  history_end(history_of(history_));
  el_end(editor_of(editor_));
}

void LineReader::stop() {
  if (marks_pastes_) tell_terminal(kPasteAsTyped);
  el_set(editor_of(editor_), EL_PREP_TERM, 0);
  kill(0, SIGTSTP);  // all that the shell started with it, as the terminal would
  el_set(editor_of(editor_), EL_PREP_TERM, 1);
  if (marks_pastes_) tell_terminal(kMarkPastes);
  el_set(editor_of(editor_), EL_REFRESH);
}

std::optional<std::string> LineReader::read(const char* prompt) {
  if (!interactive_) {
    return read_line(limit_);
  }
  prompt_ = prompt;
  for (;;) {
    given_up_ = false;
    int length = 0;
    if (marks_pastes_) tell_terminal(kMarkPastes);
    const char* text = el_gets(editor_of(editor_), &length);
    if (marks_pastes_) tell_terminal(kPasteAsTyped);
    if (given_up_) continue;
    if (!text || length <= 0) {
      std::puts("");  // what comes next begins on a line of its own
      return std::nullopt;
    }
    std::string line(text, static_cast<std::size_t>(length));
    if (line.ends_with('\n')) line.pop_back();
    HistEvent event;
    if (!line.empty()) history(history_of(history_), &event, H_ENTER, line.c_str());
    return line;
  }
}

}  // namespace lapidary::cli
