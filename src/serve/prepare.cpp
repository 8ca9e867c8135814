#include "serve/prepare.hpp"

#include <algorithm>

#include "checkpoint/error.hpp"
#include "serve/body.hpp"
#include "serve/fetch.hpp"
#include "serve/fields.hpp"
#include "serve/media.hpp"

namespace lapidary::serve {
namespace {

engine::Prompt prompt_of(const engine::Model& model, const PlainPrompt& plain) {
  if (const auto* ids = std::get_if<std::vector<std::int32_t>>(&plain.content)) return engine::Prompt::of_ids(*ids);
  return engine::Prompt::of_text(model, std::get<std::string>(plain.content),
                                 plain.parse_special ? text::Specials::recognise : text::Specials::as_text);
}

// The one of `part`, which `path` brought.
engine::Grammars grammars_of(const engine::Model& model, const engine::AnswerOptions& part, const std::string& path, GrammarCache& grammars) {
  try {
    return grammars.get(model, part);
  } catch (const Error& error) {
    throw Refusal{.status = 400, .code = error.kind == ErrorKind::unsupported ? kUnsupportedParameter : kInvalidValue, .message = error.message(),
                  .param = path};
  }
}

// Any text, wherever it stands: whoever reads the body will say what is wrong with it.
bool has_address(const text::Value& value, const Fetcher& fetcher) {
  const auto has = [&](const text::Value& part) { return has_address(part, fetcher); };
  if (const std::string* text = value.string()) return fetcher.allows(*text);
  if (const auto* parts = value.array()) return std::ranges::any_of(*parts, has);
  if (const auto* fields = value.object()) return std::ranges::any_of(*fields, has, &text::Value::Object::value_type::second);
  return false;
}

bool has_address(const std::string& body, const Fetcher& fetcher) {
  try {
    return has_address(parse_body(body), fetcher);
  } catch (const Refusal&) {
    return false;
  }
}

}  // namespace

engine::Prompt prompt_of(const engine::Model& model, const ChatPrompt& chat, const std::atomic<bool>& cancelled) {
  const std::vector<engine::Medium> media = media_of(*model.program.graph, model.image_tokens, chat.media, {}, &cancelled);
  try {
    return engine::Prompt::of_messages(model, chat.messages, chat.tools,
                                       {.think = chat.think, .preserve_thinking = chat.preserve_thinking, .continues = chat.continues}, media);
  } catch (const Error& error) {
    throw Refusal{.status = 400, .code = "invalid_value", .message = error.message(), .param = "messages"};
  }
}

std::vector<engine::Prompt> prompts_of(const engine::Model& model, const Job& job, const std::atomic<bool>& cancelled) {
  std::vector<engine::Prompt> prompts;
  if (const auto* chat = std::get_if<ChatPrompt>(&job.prompt)) {
    prompts.push_back(prompt_of(model, *chat, cancelled));
  } else {
    for (const PlainPrompt& plain : std::get<std::vector<PlainPrompt>>(job.prompt)) prompts.push_back(prompt_of(model, plain));
  }
  const auto context = static_cast<std::size_t>(model.program.plan.context_tokens);
  for (const engine::Prompt& prompt : prompts)
    if (prompt.ids.size() >= context)
      throw Refusal{.status = 400, .code = "context_length_exceeded",
                    .message = "[prompt] expected at most " + std::to_string(context - 1) + " tokens, which leaves room for one of the context's " +
                               std::to_string(context) + ", got " + std::to_string(prompt.ids.size())};
  return prompts;
}

void prepare(const engine::Model& model, Job job, GrammarCache& grammars, Ticket& ticket) {
  ticket.job = std::move(job);
  engine::AnswerOptions& options = ticket.job.options;
  options.sampling.seed = engine::ResolvedSampling(options.sampling, model.defaults, model.program.graph->shape.vocab).settings.seed;
  ticket.prompts = prompts_of(model, ticket.job, ticket.cancelled);
  ticket.job.prompt = {};  // the prompts have all of it
  options.prediction = model.tokenizer.encode(ticket.job.prediction, text::Specials::as_text);
  options.grammars.emplace();
  if (options.schema) options.grammars->answer = grammars_of(model, {.schema = options.schema}, ticket.job.schema_path, grammars).answer;
  if (options.strict_tools) options.grammars->call = grammars_of(model, {.strict_tools = options.strict_tools}, "tools", grammars).call;
}

engine::Grammars GrammarCache::get(const engine::Model& model, const engine::AnswerOptions& options) {
  const std::string key = options.schema ? "answer\n" + text::to_json(*options.schema) : "call\n" + text::to_json(*options.strict_tools);
  auto found = std::ranges::find(kept_, key, &std::pair<std::string, engine::Grammars>::first);
  if (found == kept_.end()) {
    kept_.emplace_front(key, engine::compile(model, options));
    if (kept_.size() > kMost) kept_.pop_back();
  } else {
    std::rotate(kept_.begin(), found, found + 1);
  }
  return kept_.front().second;
}

Worker::Worker() {
  thread_ = std::thread([this] {
    for (;;) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return stopping_ || !calls_.empty(); });
      if (stopping_) return;
      const std::function<void()> call = std::move(calls_.front());
      calls_.pop_front();
      lock.unlock();
      call();
    }
  });
}

Worker::~Worker() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void Worker::post(std::function<void()> call) {
  {
    const std::lock_guard lock(mutex_);
    calls_.push_back(std::move(call));
  }
  changed_.notify_one();
}

Readers::Readers(const Fetcher* fetcher) : fetcher_(fetcher) {
  if (fetcher_) fetching_.emplace();
}

void Readers::post(std::string body, std::function<void(const std::string&, GrammarCache&)> read) {
  worker_.post([this, body = std::move(body), read = std::move(read)]() mutable {
    if (!fetcher_ || !has_address(body, *fetcher_)) read(body, grammars_);
    else fetching_->post([this, body = std::move(body), read = std::move(read)] { read(body, grammars_of_fetching_); });
  });
}

}  // namespace lapidary::serve
