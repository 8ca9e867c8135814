// lapidary generate: one prompt in, one answer out.
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <iostream>

#include "cli/answer.hpp"
#include "cli/commands.hpp"
#include "cli/flags.hpp"
#include "cli/input.hpp"
#include "cli/media.hpp"
#include "cli/printer.hpp"
#include "cli/progress.hpp"
#include "engine/stats.hpp"
#include "text/utf8.hpp"

namespace lapidary::cli {
namespace {

using text::Value;

struct GenerateFlags {
  EngineFlags engine;
  AnswerFlags answer;
  MediaFlags media;
  std::string prompt, file, messages_file, system, tools_file;
  bool strict_tools = false, raw = false, json = false, json_lines = false, stats = false;

  std::int32_t context_tokens() const { return engine.model.options.context_tokens ? engine.model.options.context_tokens : link::kDefaultContext; }
};

// Refuses text that is not UTF-8: a checkpoint's tokenizer would take it as bytes that no one meant.
const std::string& checked_utf8(const std::string& text, const std::string& where) {
  if (!text::is_utf8(text)) fail(ErrorKind::bad_utf8, where, "expected UTF-8, got other bytes");
  return text;
}

std::string read_prompt(const GenerateFlags& flags) {
  std::string prompt = flags.prompt;
  if (!flags.file.empty()) {
    prompt = read_input(flags.file, text_limit(flags.context_tokens()));
  } else if (prompt.empty() || prompt == "-") {
    if (isatty(STDIN_FILENO)) fail(ErrorKind::usage, "PROMPT", "expected a prompt as argument, --file or standard input, got none");
    prompt = read_input("-", text_limit(flags.context_tokens()));
  }
  if (prompt.empty()) fail(ErrorKind::usage, "PROMPT", "expected some text, got none");
  return checked_utf8(prompt, flags.file.empty() ? "PROMPT" : flags.file);
}

Value read_messages(const GenerateFlags& flags) {
  if (!flags.messages_file.empty())
    return with_absolute_paths(read_json_input(flags.messages_file), std::filesystem::path(flags.messages_file).parent_path().string());
  const std::string prompt = read_prompt(flags);
  Value::Array messages;
  if (!flags.system.empty())
    messages.push_back(Value::Object{{"role", "system"}, {"content", checked_utf8(flags.system, "--system")}});
  messages.push_back(Value::Object{{"role", "user"}, {"content", prompt}});
  return messages;
}

Value value_of(const engine::Event& event) {
  Value::Object object;
  if (!event.reasoning.empty()) object.emplace_back("reasoning", event.reasoning);
  if (!event.content.empty()) object.emplace_back("text", event.content);
  if (!event.calls.empty()) {
    Value::Array calls;
    for (const text::ToolCall& call : event.calls) calls.push_back(json_of(call));
    object.emplace_back("tool_calls", std::move(calls));
  }
  return object;
}

Value value_of(const text::Tokenizer& tokenizer, const decode::TokenLogprob& token) {
  text::Detokenizer detokenizer(tokenizer, true);
  const std::string piece = detokenizer.push(token.id) + detokenizer.finish();
  return Value::Object{{"id", token.id}, {"token", piece}, {"logprob", token.logprob}};
}

Value result_of(const engine::Conversation& conversation, const engine::Answer::Result& answer) {
  const text::Tokenizer& tokenizer = conversation.model.tokenizer;
  Value::Object object{{"text", answer.content}};
  if (!answer.reasoning.empty()) object.emplace_back("reasoning", answer.reasoning);
  Value::Array ids, calls, logprobs;
  for (const std::int32_t id : answer.ids) ids.emplace_back(id);
  for (const text::ToolCall& call : answer.calls) calls.push_back(json_of(call));
  for (const decode::Logprobs& token : answer.logprobs) {
    Value::Array top;
    for (const decode::TokenLogprob& other : token.top) top.push_back(value_of(tokenizer, other));
    logprobs.push_back(Value::Object{{"chosen", value_of(tokenizer, token.chosen)}, {"top", std::move(top)}});
  }
  object.emplace_back("ids", std::move(ids));
  if (!calls.empty()) object.emplace_back("tool_calls", std::move(calls));
  if (!logprobs.empty()) object.emplace_back("logprobs", std::move(logprobs));
  object.emplace_back("stop_reason", name_of(answer.ending));
  object.emplace_back("stats", stats_of(conversation, answer));
  return object;
}

void print_line(const Value& value) {
  std::cout << text::to_json(value) << std::endl;
}

int run(const GenerateFlags& flags) {
  // Everything the user wrote is read before the model is.
  const std::string raw = flags.raw ? read_prompt(flags) : "";
  MediaReader reader;
  const MediaMessages asked = flags.raw ? MediaMessages{} : read_media(read_messages(flags), flags.media, reader);
  const Value tools = flags.tools_file.empty() ? Value() : read_json_input(flags.tools_file, json_limit(flags.context_tokens()));
  engine::AnswerOptions options = flags.answer.options();
  if (flags.strict_tools) options.strict_tools = tools;
  const auto loaded = flags.engine.load();
  engine::Model& model = *loaded;
  engine::Conversation conversation(model);
  InterruptGuard guard;
  options.cancel = &guard.cancelled();
  engine::Answer answer(conversation,
                        flags.raw ? engine::Prompt::of_text(model, raw)
                                  : engine::Prompt::of_messages(model, asked.messages, tools, {.think = flags.answer.think}, media_of(asked.media, model)),
                        options);

  Printer printer(flags.answer.folds_thoughts, flags.engine.quiet);
  StatusLine line(flags.engine.quiet);
  while (const auto event = answer.turn()) {
    show_prompt(line, answer);
    if (flags.json) continue;
    if (!flags.json_lines) {
      printer.print(*event, answer.result().ids.size());
      continue;
    }
    const Value piece = value_of(*event);
    if (piece.truthy()) print_line(piece);
  }
  if (flags.json || flags.json_lines) print_line(result_of(conversation, answer.result()));
  else printer.finish();
  const engine::Answer::Result& result = answer.result();
  tell_cut_short({.ending = result.ending, .tokens = result.ids.size(), .context_tokens = conversation.session.capacity(),
                  .unfinished = result.unfinished});
  if (flags.stats) {
    print_stats(conversation, answer.result());
    print_drafters(model);
  }
  flags.engine.model.backend_flags.check_captured();
  if (answer.result().ending == engine::Ending::cancelled) return kCancelled;
  return answer.result().unfinished ? kUnfinished : 0;
}

}  // namespace

void add_generate(CLI::App& app, int& status) {
  CLI::App* command = app.add_subcommand("generate", "Answer one prompt");
  const auto flags = std::make_shared<GenerateFlags>();
  auto* prompt = command->add_option("PROMPT,-p,--prompt", flags->prompt, "what to answer; '-' or nothing: standard input");
  auto* file = add_path(*command, "-f,--file", flags->file, "FILE", "read the prompt from a file")->excludes(prompt);
  flags->engine.add_to(*command);
  flags->engine.model.backend_flags.add_to(*command);
  flags->answer.add_to(*command);
  flags->media.add_to(*command, kMediaKinds);
  add_image_tokens(*command, flags->engine.model.image_tokens);
  add_number(*command, "--logprobs", flags->answer.logprobs, 0, 1000, "with --json: the log probabilities of so many tokens at each step",
             "none");
  auto* system = command->add_option("--system", flags->system, "system message");
  auto* tools = add_path(*command, "--tools", flags->tools_file, "FILE", "JSON file with a list of tools the model may call");
  command->add_flag("--strict-tools", flags->strict_tools, "calls must fit the schemas of --tools")
      ->needs(tools)->excludes("--json-schema")->excludes("--json-mode");
  auto* raw = command->add_flag("--raw", flags->raw, "continue the text as it is, without a chat template");
  for (const char* flag : {"--system", "--tools", "--think", "--image", "--audio", "--video"}) raw->excludes(command->get_option(flag));
  add_path(*command, "--messages", flags->messages_file, "FILE", "JSON file with a list of messages instead of a prompt")
      ->excludes(raw)->excludes(system)->excludes(prompt)->excludes(file);
  auto* json = command->add_flag("--json", flags->json, "one JSON object at the end instead of text");
  command->add_flag("--json-lines", flags->json_lines, "a JSON object per event, the last as with --json")->excludes(json);
  command->add_flag("--stats", flags->stats, "speed and memory traffic to standard error");
  command->callback([flags, &status] { status = run(*flags); });
}

}  // namespace lapidary::cli
