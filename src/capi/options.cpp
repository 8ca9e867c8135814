// From structs of C to the engine's options.
#include "capi/boundary.hpp"
#include "cpu/cores.hpp"

namespace lapidary::capi {
namespace {

constexpr std::int32_t kMaxSessions = 65536, kMaxLogprobs = 1000;

std::int32_t in_range(const char* where, std::int32_t value, std::int32_t least, std::int32_t most) {
  if (value < least || value > most)
    fail(ErrorKind::usage, where, "expected " + std::to_string(least) + " to " + std::to_string(most) + ", got " + std::to_string(value));
  return value;
}

text::Value parse(const char* json, const char* where) { return json ? text::parse_json(json, where) : text::Value(); }

engine::SamplingOptions sampling_of(const lapidary_sampling* given) {
  const lapidary_sampling sampling = read_sized(given, "sampling");
  if (sampling.given & ~63u) fail(ErrorKind::unsupported, "sampling", "given, expected known bits, got others");
  engine::SamplingOptions options;
  const auto take = [&](std::uint32_t bit, auto value, auto& place) {
    if (sampling.given & bit) place = value;
  };
  take(LAPIDARY_GIVEN_TEMPERATURE, sampling.temperature, options.temperature);
  take(LAPIDARY_GIVEN_TOP_P, sampling.top_p, options.top_p);
  take(LAPIDARY_GIVEN_MIN_P, sampling.min_p, options.min_p);
  take(LAPIDARY_GIVEN_REPETITION, sampling.repetition, options.repetition);
  take(LAPIDARY_GIVEN_TOP_K, sampling.top_k, options.top_k);
  take(LAPIDARY_GIVEN_SEED, sampling.seed, options.seed);
  options.presence = sampling.presence;
  options.frequency = sampling.frequency;
  for (const lapidary_bias& bias : required_list(sampling.bias, sampling.bias_count, "bias")) options.bias.emplace_back(bias.id, bias.value);
  return options;
}

engine::Reading reading_of(std::int32_t reading) {
  in_range("reading", reading, LAPIDARY_READ_PLAIN, LAPIDARY_READ_ANSWER_IN_THOUGHT);
  return reading == LAPIDARY_READ_PLAIN    ? engine::Reading::plain
         : reading == LAPIDARY_READ_ANSWER ? engine::Reading::answer
                                           : engine::Reading::answer_in_thought;
}

}  // namespace

engine::DraftOptions draft_options(std::int32_t kind, std::int32_t tokens) {
  constexpr engine::DraftKind kKinds[] = {engine::DraftKind::automatic, engine::DraftKind::mtp, engine::DraftKind::lookup,
                                          engine::DraftKind::none, engine::DraftKind::dflash};
  engine::DraftOptions options;
  options.kind = kKinds[in_range("draft", kind, LAPIDARY_DRAFT_AUTOMATIC, LAPIDARY_DRAFT_DFLASH)];
  if (in_range("draft tokens", tokens, 0, decode::kMaxDrafts) > 0) options.tokens = tokens;
  return options;
}

engine::ModelOptions model_options(const char* folder, const lapidary_model_options* given) {
  const lapidary_model_options options = read_sized(given, "model options");
  if (options.flags & ~15u) fail(ErrorKind::unsupported, "model options", "flags, expected known ones, got others");
  const auto flag = [&](std::uint32_t bit) { return (options.flags & bit) != 0; };
  // What was cut for one model knows where that is.
  engine::ModelOptions all{.folder = engine::gem() && !folder ? "" : required_text(folder, "folder")};
  choose_backend(all, options.backend);
  all.link.backend_options = {.huge_pages = !flag(LAPIDARY_SMALL_PAGES), .pin_threads = flag(LAPIDARY_PIN_THREADS),
                              .lock_memory = flag(LAPIDARY_LOCK_MEMORY), .warm_up = flag(LAPIDARY_WARM_UP)};
  if ((options.flags & ~std::uint32_t{LAPIDARY_WARM_UP}) && !all.link.backend->computes_here)
    fail(ErrorKind::usage, "model options", "flags, expected none of threads and memory for this backend, got some");
  all.link.context_tokens = in_range("context", options.context_tokens, 0, INT32_MAX);
  all.link.chunk_rows = in_range("chunk", options.chunk_tokens, 0, INT32_MAX);
  all.link.sessions = std::max(1, in_range("sessions", options.sessions, 0, kMaxSessions));
  const int threads = in_range("threads", options.threads, 0, cpu::kMaxThreads);
  all.link.threads = threads ? threads : cpu::default_threads();
  if (options.memory_limit_bytes) all.link.memory_limit_bytes = options.memory_limit_bytes;
  switch (in_range("numeric", options.numeric, LAPIDARY_NUMERIC_USUAL, LAPIDARY_NUMERIC_FAST)) {
    case LAPIDARY_NUMERIC_EXACT: all.numeric = link::Numeric::exact; break;
    case LAPIDARY_NUMERIC_FAST: all.numeric = link::Numeric::fast; break;
    default: break;
  }
  if (options.image_tokens) engine::check_image_budget(options.image_tokens, "model options");
  all.image_tokens = options.image_tokens;
  if (const std::int32_t kv = in_range("K/V", options.kv, LAPIDARY_KV_USUAL, LAPIDARY_KV_Q4)) all.link.kv = link::kKvFormats[kv - LAPIDARY_KV_F32];
  all.draft = draft_options(options.draft, options.draft_tokens);
  if (options.assistant) {
    if (!all.draft.wants_assistant() && !all.draft.wants_dflash()) fail(ErrorKind::usage, "assistant", "expected a kind of drafts that uses one, got another");
    all.draft.drafters = {options.assistant};
  }
  return all;
}

engine::Prompt render(const engine::Model& model, const char* messages, const char* tools, bool think, std::span<const engine::Medium> media) {
  return engine::Prompt::of_messages(model, parse(required_text(messages, "messages"), "messages"), parse(tools, "tools"), {.think = think}, media);
}

Request read_request(const engine::Model& model, const lapidary_request* given, std::atomic<bool>& cancel) {
  if (!given) refuse(LAPIDARY_ERROR_USAGE, "[request] expected one, got NULL");
  const lapidary_request request = read_sized(given, "request");
  if (request.flags & ~31u) fail(ErrorKind::unsupported, "request", "flags, expected known ones, got others");
  const auto flag = [&](std::uint32_t bit) { return (request.flags & bit) != 0; };
  const auto ids = required_list(request.ids, request.id_count, "ids");
  if ((request.messages != nullptr) == !ids.empty())
    fail(ErrorKind::usage, "request", "expected messages or ids, got " + std::string(ids.empty() ? "neither" : "both"));
  const auto media = required_list(request.media, request.media_count, "media");
  Request all;
  if (request.messages) {
    all.prompt = render(model, request.messages, request.tools, flag(LAPIDARY_THINK), media_of(model, media));
  } else {
    if (!media.empty()) fail(ErrorKind::usage, "media", "expected messages that have parts for them, got ids");
    if (flag(LAPIDARY_THINK)) fail(ErrorKind::usage, "request", "expected messages where the model is to think, got ids");
    all.prompt = {{ids.begin(), ids.end()}, reading_of(request.reading), false};
  }
  engine::AnswerOptions& options = all.options;
  options.sampling = sampling_of(request.sampling);
  options.max_tokens = in_range("max tokens", request.max_tokens, 0, INT32_MAX);
  for (const char* stop : required_list(request.stops, request.stop_count, "stops")) {
    if (!stop || !*stop) fail(ErrorKind::usage, "stops", "expected texts, got an empty one");
    options.stops.emplace_back(stop);
  }
  options.json = flag(LAPIDARY_JSON);
  if (request.schema) options.schema = parse(request.schema, "schema");
  if (flag(LAPIDARY_STRICT_TOOLS)) {
    if (!request.tools || request.schema || options.json)
      fail(ErrorKind::usage, "request", "expected tools and no other grammar where calls are strict, got something else");
    options.strict_tools = parse(request.tools, "tools");
  }
  if (flag(LAPIDARY_LOGPROBS)) options.logprobs = in_range("logprobs", request.top_logprobs, 0, kMaxLogprobs);
  options.wants_rows = flag(LAPIDARY_ROWS);
  options.cancel = &cancel;
  return all;
}

}  // namespace lapidary::capi
