// lapidary chat: a conversation. Only what is new is computed; the rest is in the session.
#include <fstream>
#include <iostream>

#include "checkpoint/checkpoint.hpp"
#include "cli/answer.hpp"
#include "cli/commands.hpp"
#include "cli/line_reader.hpp"
#include "cli/printer.hpp"
#include "cli/progress.hpp"
#include "text/utf8.hpp"

namespace lapidary::cli {
namespace {

using text::Value;

struct ChatFlags {
  EngineFlags engine;
  AnswerFlags answer;
  std::string system;
  bool stats = false;
};

constexpr const char* kHelp =
    "/reset         forget the conversation\n"
    "/system TEXT   set the system message and start again\n"
    "/think         switch thinking on or off\n"
    "/save FILE     write the conversation as JSON\n"
    "/load FILE     go on with a saved one\n"
    "/stats         switch statistics on or off\n"
    "/quit          or Ctrl-D\n";

class Chat {
 public:
  explicit Chat(ChatFlags flags)
      : flags_(std::move(flags)), options_(flags_.answer.options()), model_(flags_.engine.options()), conversation_(model_) {
    reset();
  }

  void run() {
    LineReader lines;
    if (lines.interactive()) std::cerr << "/help lists the commands, Ctrl-C stops an answer, Ctrl-D ends.\n";
    while (const auto line = lines.read("> ")) {
      try {
        if (*line == "/quit") return;
        if (line->starts_with('/')) command(*line);
        else if (line->find_first_not_of(" \t") != std::string::npos) turn(*line);
      } catch (const Error& error) {
        std::cerr << error.message() << std::endl;  // the conversation goes on
      }
    }
  }

 private:
  void reset() {
    messages_.clear();
    if (!flags_.system.empty()) messages_.push_back(Value::Object{{"role", "system"}, {"content", flags_.system}});
  }

  void command(const std::string& line) {
    const std::size_t space = line.find(' ');
    const std::string name = line.substr(0, space);
    const std::string argument = space == std::string::npos ? "" : line.substr(space + 1);
    if (name == "/reset") {
      reset();
    } else if (name == "/system") {
      flags_.system = argument;
      reset();
    } else if (name == "/think") {
      flags_.answer.think = !flags_.answer.think;
      std::cerr << "thinking is " << (flags_.answer.think ? "on" : "off") << std::endl;
    } else if (name == "/stats") {
      flags_.stats = !flags_.stats;
    } else if (name == "/save") {
      save(argument);
    } else if (name == "/load") {
      load(argument);
    } else if (name == "/help") {
      std::cerr << kHelp;
    } else {
      fail(ErrorKind::usage, name, "command, expected one that /help lists");
    }
  }

  void save(const std::string& path) const {
    std::ofstream file(path);
    if (!(file << text::to_json(messages_) << "\n").flush()) fail(ErrorKind::io, path, "cannot write");
  }

  void load(const std::string& path) {
    const Value loaded = text::parse_json(read_text_file(path), path);
    if (!loaded.array()) fail(ErrorKind::wrong_type, path, "expected a JSON list of messages");
    engine::Prompt::of_messages(model_, loaded, {}, false);  // refuses what is not a conversation
    messages_ = *loaded.array();
  }

  void turn(const std::string& prompt) {
    if (!text::is_utf8(prompt)) fail(ErrorKind::bad_utf8, "message", "expected UTF-8, got other bytes");
    Value::Array messages = messages_;
    messages.push_back(Value::Object{{"role", "user"}, {"content", prompt}});
    engine::Answer answer(conversation_, engine::Prompt::of_messages(model_, messages, {}, flags_.answer.think), options_);

    const InterruptGuard guard(answer);
    Printer printer;
    Progress progress(flags_.answer.quiet);
    while (const auto event = answer.turn()) {
      progress.show(answer);
      printer.print(*event);
    }
    printer.finish();
    if (flags_.stats) print_stats(conversation_, answer.result());
    messages.push_back(Value::Object{{"role", "assistant"}, {"content", answer.result().content}});
    messages_ = std::move(messages);
  }

  ChatFlags flags_;
  const engine::AnswerOptions options_;
  engine::Model model_;
  engine::Conversation conversation_;
  Value::Array messages_;
};

}  // namespace

void add_chat(CLI::App& app) {
  CLI::App* command = app.add_subcommand("chat", "Talk with the model");
  const auto flags = std::make_shared<ChatFlags>();
  flags->engine.add_to(*command);
  flags->answer.add_to(*command);
  command->add_option("--system", flags->system, "system message");
  command->add_flag("--stats", flags->stats, "statistics after each answer");
  command->callback([flags] { Chat(*flags).run(); });
}

}  // namespace lapidary::cli
