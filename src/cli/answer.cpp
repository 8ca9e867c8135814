#include "cli/answer.hpp"

#include <atomic>
#include <csignal>
#include <cstdio>

#include "checkpoint/checkpoint.hpp"
#include "decode/generate.hpp"
#include "text/grammar.hpp"
#include "text/stop_matcher.hpp"

namespace lapidary::cli {
namespace {

std::atomic<bool> interrupt = false;  // written by the signal handler
static_assert(std::atomic<bool>::is_always_lock_free);

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

std::optional<decode::Constraint> constraint_of(const Engine& engine, const AnswerFlags& flags) {
  const auto markers = [&](const char* open, const char* close) {
    return decode::Markers{required_special(engine.tokenizer, open), required_special(engine.tokenizer, close)};
  };
  if (flags.strict_tools) {
    return decode::Constraint::calls(text::Grammar::calls(engine.tokenizer, *flags.strict_tools),
                                     markers("<|tool_call>", "<tool_call|>"));
  }
  if (flags.schema_file.empty() && !flags.json_mode) return std::nullopt;
  const auto grammar = flags.json_mode ? text::Grammar::json(engine.tokenizer)
                                       : text::Grammar::schema(engine.tokenizer,
                                                               text::parse_json(read_text_file(flags.schema_file), flags.schema_file));
  if (!flags.think) return decode::Constraint::answer(grammar);
  return decode::Constraint::answer(grammar, markers("<|channel>", "<channel|>"));
}

// After these the text is of another nature: a thought has ended, a call begins.
std::vector<std::int32_t> landmarks_of(const text::Tokenizer& tokenizer) {
  std::vector<std::int32_t> ids;
  for (const char* name : {"<channel|>", "<|tool_call>", "<tool_call|>"})
    if (const auto id = tokenizer.special(name)) ids.push_back(*id);
  return ids;
}

// Events in, events out: plain text, or the parts of an answer, cut at a stop string.
class Reader {
 public:
  Reader(const text::Tokenizer& tokenizer, Reading reading, const std::vector<std::string>& stops)
      : stops_(stops), plain_(tokenizer), parser_(tokenizer, reading == Reading::answer_in_thought),
        is_plain_(reading == Reading::plain) {}

  text::Event push(std::int32_t id) {
    text::Event event;
    if (is_plain_) event.content = plain_.push(id);
    else event = parser_.push(id);
    event.content = stops_.push(event.content);
    return event;
  }
  text::Event finish() {
    text::Event event;
    if (is_plain_) event.content = plain_.finish();
    else event = parser_.finish();
    event.content = stops_.push(event.content) + stops_.finish();
    return event;
  }
  bool stopped() const { return stops_.matched(); }

 private:
  text::StopMatcher stops_;
  text::Detokenizer plain_;
  text::OutputParser parser_;
  bool is_plain_;
};

}  // namespace

void AnswerFlags::add_to(CLI::App& command) {
  sampling.add_to(command);
  command.add_option("--max-tokens", max_tokens, "generate at most so many (default: until the context is full)")
      ->check(CLI::PositiveNumber);
  command.add_option("--stop", stops, "end before this text; may be repeated")->allow_extra_args(false)->check([](const std::string& text) {
    return text.empty() ? std::string("a stop text must not be empty") : std::string();
  });
  auto* schema = command.add_option("--json-schema", schema_file, "file with a JSON schema that the answer must fit");
  command.add_flag("--json-mode", json_mode, "the answer must be JSON")->excludes(schema);
  command.add_flag("--think", think, "let the model think before it answers");
}

Answer answer(Engine& engine, std::span<const std::int32_t> prompt, Reading reading, const AnswerFlags& flags,
              const std::function<void(const text::Event&)>& sink) {
  const ResolvedSampling sampling(flags.sampling, engine.defaults, engine.session.vocab());
  Answer result;
  result.seed = sampling.settings.seed;
  const auto deliver = [&](const text::Event& event) {
    result.reasoning += event.reasoning;
    result.content += event.content;
    result.calls.insert(result.calls.end(), event.calls.begin(), event.calls.end());
    sink(event);
  };

  const std::vector<std::int32_t> landmarks = landmarks_of(engine.tokenizer);
  decode::GenerateOptions options{.sampling = sampling.sampling(), .stop_ids = engine.defaults.eos_tokens,
                                  .constraint = constraint_of(engine, flags), .speculation = &engine.speculation,
                                  .landmarks = landmarks, .cancel = &interrupt};
  if (flags.max_tokens) options.max_tokens = flags.max_tokens;
  options.wants_logits = flags.logprobs >= 0;
  Reader reader(engine.tokenizer, reading, flags.stops);

  const Clock::time_point start = Clock::now();
  result.prompt_tokens = static_cast<int>(prompt.size());
  result.reused_tokens = engine.session.keep_common_prefix(prompt);
  decode::Generation generation(engine.session, prompt.subspan(result.reused_tokens), std::move(options));
  while (generation.in_prompt() && !interrupt) generation.turn();
  result.first_token_seconds = seconds_since(start);
  while (!reader.stopped()) {
    const auto token = generation.next();
    if (!token) break;
    result.ids.push_back(*token);
    if (flags.logprobs >= 0) result.logprobs.push_back(decode::logprobs(generation.logits(), *token, flags.logprobs));
    deliver(reader.push(*token));
  }
  generation.stop();
  deliver(reader.finish());
  result.decode_seconds = seconds_since(start) - result.first_token_seconds;

  result.drafts = generation.stats();
  result.stop_reason = name_of(generation.reason());
  if (generation.reason() == decode::StopReason::stop_token && !result.calls.empty()) result.stop_reason = "tool_call";
  if (reader.stopped()) result.stop_reason = "stop_text";
  return result;
}

InterruptGuard::InterruptGuard() {
  interrupt = false;
  std::signal(SIGINT, [](int) {
    if (interrupt.exchange(true)) std::_Exit(130);
  });
}

InterruptGuard::~InterruptGuard() { std::signal(SIGINT, SIG_DFL); }

namespace {

struct Rates {
  double prompt_tok_s, decode_tok_s, gb_s;
  std::int64_t token_bytes;
};

Rates rates_of(const Engine& engine, const Answer& answer) {
  const int prefilled = answer.prompt_tokens - answer.reused_tokens;
  const int decoded = std::max(0, static_cast<int>(answer.ids.size()) - 1);  // the first came with the prompt
  Rates rates{};
  rates.token_bytes = link::cost_of_token(engine.program).weight_bytes;
  if (answer.first_token_seconds > 0) rates.prompt_tok_s = prefilled / answer.first_token_seconds;
  if (answer.decode_seconds > 0) rates.decode_tok_s = decoded / answer.decode_seconds;
  rates.gb_s = rates.decode_tok_s * static_cast<double>(rates.token_bytes) / 1e9;
  return rates;
}

}  // namespace

text::Value stats_of(const Engine& engine, const Answer& answer) {
  const Rates rates = rates_of(engine, answer);
  return text::Value::Object{
      {"load_s", engine.load_seconds},
      {"first_token_s", answer.first_token_seconds},
      {"prompt_tokens", answer.prompt_tokens},
      {"reused_tokens", answer.reused_tokens},
      {"prompt_tok_s", rates.prompt_tok_s},
      {"generated_tokens", static_cast<std::int64_t>(answer.ids.size())},
      {"decode_tok_s", rates.decode_tok_s},
      {"tokens_per_round", answer.drafts.tokens_per_round()},
      {"bytes_per_token", rates.token_bytes},
      {"gb_s", rates.gb_s},
      {"seed", std::to_string(answer.seed)},
      {"draft", draft_stats(engine.speculation, answer.drafts, engine.assistant(), engine.assistant_hashes())},
  };
}

void print_stats(const Engine& engine, const Answer& answer) {
  const Rates rates = rates_of(engine, answer);
  std::fprintf(stderr,
               "load %.3f s, first token %.3f s\nprompt %d tokens (%d reused), %.1f tok/s\n"
               "decode %zu tokens, %.1f tok/s, %lld bytes per token, %.2f GB/s\nstop: %s, seed %llu\n",
               engine.load_seconds, answer.first_token_seconds, answer.prompt_tokens, answer.reused_tokens,
               rates.prompt_tok_s, answer.ids.size(), rates.decode_tok_s, static_cast<long long>(rates.token_bytes),
               rates.gb_s, answer.stop_reason.c_str(), static_cast<unsigned long long>(answer.seed));
  print_draft_stats(engine.speculation, answer.drafts, engine.assistant(), engine.assistant_hashes());
}

}  // namespace lapidary::cli
