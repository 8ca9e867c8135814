// lapidary chat: a conversation, with a model or with a server.
#include <filesystem>
#include <iostream>

#include "checkpoint/environment.hpp"
#include "checkpoint/whole_file.hpp"
#include "cli/answer.hpp"
#include "cli/answerer.hpp"
#include "cli/commands.hpp"
#include "cli/flags.hpp"
#include "cli/input.hpp"
#include "cli/line_reader.hpp"
#include "cli/media.hpp"
#include "cli/printer.hpp"
#include "cli/settings.hpp"
#include "text/chat.hpp"
#include "text/utf8.hpp"

namespace lapidary::cli {
namespace {

using text::Value;

struct ChatFlags {
  EngineFlags engine;
  AnswerFlags answer;
  std::string system;
  std::string connect;  // to a server; empty = a model is loaded here
  Connect connector = nullptr;
  bool stats = false;
};

constexpr const char* kHelp =
    "/reset          forget the conversation\n"
    "/system TEXT    set the system message and start again\n"
    "/undo           forget the last question and its answer\n"
    "/retry          answer the last question again\n"
    "/image FILE     show a picture with the next message; /audio FILE a sound, /video FILE a video\n"
    "/tools FILE     tools the model may call, as JSON; /tools off\n"
    "/schema FILE    JSON schema that answers must fit, or the schema itself; /schema off\n"
    "/think [on|off] switch thinking on or off\n"
    "/thoughts fold  show of a thought how long it was; /thoughts show\n"
    "/save FILE      write the conversation as JSON\n"
    "/load FILE      go on with a saved one\n"
    "/stats [on|off] switch statistics on or off\n"
    "/quit, /bye     or Ctrl-D\n"
    "A line that ends with a backslash goes on in the next one.\n";

constexpr const char* kSpace = " \t\r\n";

std::string trimmed(const std::string& text) {
  const std::size_t begin = text.find_first_not_of(kSpace);
  return begin == text.npos ? "" : text.substr(begin, text.find_last_not_of(kSpace) + 1 - begin);
}

// The argument of a command that names a file; "~/" is the user's own folder.
std::string path_of(const std::string& command, const std::string& argument) {
  if (argument.empty()) fail(ErrorKind::usage, command, "expected a file, got none");
  const std::string home = variable("HOME");
  return !home.empty() && argument.starts_with("~/") ? home + argument.substr(1) : argument;
}

// Switches by name, or to the other side without one.
void flip(bool& is_on, const std::string& command, const std::string& argument) {
  if (!argument.empty() && argument != "on" && argument != "off")
    fail(ErrorKind::usage, command, "expected on, off or nothing, got '" + argument + "'");
  is_on = argument.empty() ? !is_on : argument == "on";
}

const char* name_of(bool is_on) { return is_on ? "on" : "off"; }

// The words of a message.
std::string text_of(const Value& content) {
  if (content.string()) return *content.string();
  std::string all;
  for (const Value& part : content.array() ? *content.array() : Value::Array())
    if (const Value* text = part.find("text"); text && text->string()) all += *text->string();
  return all;
}

class Chat {
 public:
  explicit Chat(ChatFlags flags)
      : flags_(std::move(flags)), options_(flags_.answer.options()),
        answerer_(flags_.connect.empty() ? local_answerer(flags_.engine) : flags_.connector(flags_.connect, flags_.engine.quiet)) {
    reset();
  }

  // Returns the exit status: in a pipe nobody else minds what failed.
  int run() {
    LineReader lines(text_limit(answerer_->context_tokens()));
    bool failed = false;
    if (lines.interactive()) std::cerr << "/help lists the commands, Ctrl-C stops an answer, Ctrl-D ends.\n";
    while (const auto line = read_message(lines)) {
      const std::string text = trimmed(*line);
      try {
        if (text == "/quit" || text == "/bye") break;
        if (text.starts_with('/')) command(text);
        else if (!text.empty()) say(text);
      } catch (const Error& error) {
        std::cerr << error.message() << std::endl;  // the conversation goes on
        failed = true;
      }
    }
    return failed && !lines.interactive() ? kFailure : 0;
  }

 private:
  // A backslash at the end of a line joins the next one to it.
  static std::optional<std::string> read_message(LineReader& lines) {
    auto message = lines.read("> ");
    while (message && message->ends_with('\\')) {
      message->back() = '\n';
      const auto more = lines.read(". ");
      if (!more) break;
      *message += *more;
    }
    return message;
  }

  void reset() {
    messages_.clear();
    attached_.clear();
    if (!flags_.system.empty()) messages_.push_back(Value::Object{{"role", "system"}, {"content", flags_.system}});
  }

  void command(const std::string& line) {
    const std::size_t space = line.find_first_of(kSpace);
    const std::string name = line.substr(0, space);
    const std::string argument = space == std::string::npos ? "" : trimmed(line.substr(space));
    if (name == "/reset") {
      reset();
      std::cerr << "the conversation starts again" << std::endl;
    } else if (name == "/system") {
      flags_.system = argument;
      reset();
      std::cerr << (argument.empty() ? "no system message" : "system message set") << "; the conversation starts again" << std::endl;
    } else if (name == "/think") {
      flip(flags_.answer.think, name, argument);
      std::cerr << "thinking is " << name_of(flags_.answer.think) << std::endl;
    } else if (name == "/thoughts") {
      if (argument != "show" && argument != "fold") fail(ErrorKind::usage, name, "expected show or fold, got '" + argument + "'");
      flags_.answer.folds_thoughts = argument == "fold";
      std::cerr << "thoughts are " << (flags_.answer.folds_thoughts ? "folded" : "shown") << std::endl;
    } else if (name == "/stats") {
      flip(flags_.stats, name, argument);
      std::cerr << "statistics are " << name_of(flags_.stats) << std::endl;
    } else if (name == "/undo") {
      const Value question = take_back();
      std::cerr << "forgot: " << text_of(question) << std::endl;
    } else if (name == "/retry") {
      const Value::Array before = messages_;
      try {
        turn(take_back());
      } catch (...) {
        messages_ = before;
        throw;
      }
    } else if (name == "/image" || name == "/audio" || name == "/video") {
      attach(name == "/image" ? MediaKind::image : name == "/audio" ? MediaKind::audio : MediaKind::video, path_of(name, argument));
    } else if (name == "/tools") {
      tools_ = argument == "off" ? Value() : read_json_input(path_of(name, argument), json_limit(answerer_->context_tokens()));
      std::cerr << "tools are " << name_of(tools_.truthy()) << std::endl;
    } else if (name == "/schema") {
      if (argument == "off") options_.schema.reset();
      else options_.schema = read_schema_input(path_of(name, argument), name);
      std::cerr << "the schema is " << name_of(options_.schema.has_value()) << std::endl;
    } else if (name == "/save") {
      save(path_of(name, argument));
    } else if (name == "/load") {
      load(path_of(name, argument));
    } else if (name == "/help") {
      std::cerr << kHelp;
    } else {
      fail(ErrorKind::usage, name, "command, expected one that /help lists");
    }
  }

  // Forgets the last question and all after it, and returns it.
  Value take_back() {
    for (std::size_t i = messages_.size(); i-- > 0;) {
      const Value* role = messages_[i].find("role");
      const Value* content = messages_[i].find("content");
      if (!role || *role != Value("user") || !content) continue;
      const Value question = *content;
      messages_.resize(i);
      return question;
    }
    fail(ErrorKind::usage, "conversation", "expected a question to take back, got none");
  }

  void save(const std::string& path) const {
    write_whole_file(path, [&](std::ostream& file) { file << text::to_json(messages_) << "\n"; });
    std::cerr << "saved " << messages_.size() << " messages to " << path << std::endl;
  }

  void load(const std::string& path) {
    const Value loaded = with_absolute_paths(read_json_input(path), std::filesystem::path(path).parent_path().string());
    const MediaMessages asked = read_media(loaded, {}, reader_);
    text::render(text::checked_messages(asked.messages), {}, {}, {});  // refuses what is not a conversation
    for (const auto& file : asked.media) answerer_->look_at(file);
    messages_ = *loaded.array();
    attached_.clear();
    std::cerr << "loaded " << messages_.size() << " messages from " << path << std::endl;
  }

  // With the next message. A file that is none is told of now.
  void attach(MediaKind kind, const std::string& path) {
    const std::string absolute = std::filesystem::absolute(path).string();
    answerer_->look_at(reader_.read(kind, absolute, path));
    attached_.push_back(media_part(kind, absolute));
    std::cerr << path << " goes with the next message" << std::endl;
  }

  void say(const std::string& text) {
    if (!text::is_utf8(text)) fail(ErrorKind::bad_utf8, "message", "expected UTF-8, got other bytes");
    if (attached_.empty()) return turn(text);
    Value::Array parts = attached_;
    parts.push_back(Value::Object{{"type", "text"}, {"text", text}});
    turn(std::move(parts));
    attached_.clear();
  }

  void turn(Value content) {
    Value::Array messages = messages_;
    messages.push_back(Value::Object{{"role", "user"}, {"content", std::move(content)}});
    const MediaMessages asked = read_media(messages, {}, reader_);
    Printer printer(flags_.answer.folds_thoughts, flags_.engine.quiet);
    Answerer::Reply reply;
    try {
      reply = answerer_->answer({asked, tools_, flags_.answer.think, flags_.stats, options_}, printer);
    } catch (...) {
      printer.finish();
      throw;
    }
    Value::Object said{{"role", "assistant"}, {"content", reply.content}};
    Value::Array calls;
    for (const text::ToolCall& call : reply.calls) calls.push_back(Value::Object{{"type", "function"}, {"function", json_of(call)}});
    if (!calls.empty()) said.emplace_back("tool_calls", std::move(calls));
    messages.push_back(std::move(said));
    messages_ = std::move(messages);
  }

  ChatFlags flags_;
  engine::AnswerOptions options_;
  const std::unique_ptr<Answerer> answerer_;
  MediaReader reader_;
  Value::Array messages_;  // pictures, sounds and videos by their paths
  Value::Array attached_;  // parts of the next one
  Value tools_;
};

// What says how a model is loaded here is not for a server's.
void check_remote(const std::vector<CLI::Option*>& local) {
  for (const CLI::Option* option : local) {
    const std::string name = option->get_name();
    if (name == "--help" || name == "--quiet" || !is_on_line(*option)) continue;
    fail(ErrorKind::usage, name, "expected none with --connect, as it is the server's to say, got one");
  }
}

}  // namespace

void add_chat(CLI::App& app, int& status, Connect connect) {
  CLI::App* command = app.add_subcommand("chat", "Talk with the model");
  const auto flags = std::make_shared<ChatFlags>();
  flags->engine.add_to(*command);
  add_image_tokens(*command, flags->engine.model.image_tokens);
  const std::vector<CLI::Option*> local = command->get_options();
  flags->connector = connect;
  if (connect)
    add_path(*command, "--connect", flags->connect, "URL",
             "talk to a server, http://HOST:PORT or unix:PATH, instead of loading a model; LAPIDARY_API_KEY is the key");
  flags->answer.add_to(*command);
  command->add_option("--system", flags->system, "system message");
  command->add_flag("--stats", flags->stats, "statistics after each answer");
  command->callback([flags, local, &status] {
    if (!flags->connect.empty()) check_remote(local);
    status = Chat(*flags).run();
  });
}

}  // namespace lapidary::cli
