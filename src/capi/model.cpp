// Models and their text: load, describe, tokenize, render.
#include "capi/boundary.hpp"

#include "text/detokenizer.hpp"

using namespace lapidary;
using capi::attempt;
using capi::refuse;

static_assert(LAPIDARY_GIVEN_SEED == 32 && LAPIDARY_ROWS == 16, "capi/options.cpp knows these as the highest");

// capi/options.cpp takes them in this order, too.
static int32_t kv_kind(const link::KvFormat& format) {
  const auto found = std::ranges::find_if(link::kKvFormats, [&](const link::KvFormat* known) { return *known == format; });
  return LAPIDARY_KV_F32 + static_cast<int32_t>(found - std::begin(link::kKvFormats));
}
static_assert(link::kKvFormats[LAPIDARY_KV_BF16 - LAPIDARY_KV_F32] == &link::kKvBf16 && link::kKvFormats[LAPIDARY_KV_Q4 - LAPIDARY_KV_F32] == &link::kKvQ4);

const char* lapidary_version(void) { return LAPIDARY_VERSION; }

int32_t lapidary_abi(void) { return LAPIDARY_ABI; }

const char* lapidary_status_name(int32_t status) {
  switch (status) {
    case LAPIDARY_OK: return "ok";
    case LAPIDARY_END: return "end";
    case LAPIDARY_ERROR_USAGE: return "usage";
    case LAPIDARY_ERROR_BUSY: return "busy";
    case LAPIDARY_ERROR_ROOM: return "room";
    case LAPIDARY_ERROR_MEMORY: return "memory";
    case LAPIDARY_ERROR_IO: return "io";
    case LAPIDARY_ERROR_DATA: return "data";
    case LAPIDARY_ERROR_UNSUPPORTED: return "unsupported";
    case LAPIDARY_ERROR_INTERNAL: return "internal";
    default: return "unknown";
  }
}

lapidary_status lapidary_plan_memory(const char* folder, const lapidary_model_options* options, lapidary_memory_plan* plan,
                                     lapidary_error* error) {
  return attempt(error, [&] {
    const engine::ModelOptions all = capi::model_options(folder, options);
    link::Program program = engine::open_program(all);
    engine::count_text(program.plan, engine::open_tokenizer(all.folder), all.draft);
    const link::MemoryPlan& planned = program.plan;
    capi::write_sized(plan,
                      {0, planned.weights_mapped_bytes, planned.anonymous_bytes(), planned.kv_bytes, planned.arena_bytes,
                       planned.constants_bytes, planned.repacked_bytes, planned.room_bytes, planned.text_bytes, planned.tower_bytes},
                      "plan");
  });
}

lapidary_status lapidary_load(const char* folder, const lapidary_model_options* options, lapidary_model** model, lapidary_error* error) {
  return attempt(error, [&] {
    if (!model) refuse(LAPIDARY_ERROR_USAGE, "[model] expected a place for it, got NULL");
    *model = nullptr;
    *model = std::make_unique<lapidary_model>(capi::model_options(folder, options)).release();
  });
}

lapidary_status lapidary_free_model(lapidary_model* model, lapidary_error* error) {
  return attempt(error, [&] {
    if (!model) return;
    lapidary_model& alive = capi::model_of(model);
    {
      const std::lock_guard lock(alive.turn);
      if (std::ranges::any_of(alive.sessions, [](const auto& session) { return session->magic != 0; }))
        refuse(LAPIDARY_ERROR_USAGE, "[model] expected its sessions to be freed first, got some that are open");
      alive.magic = 0;
    }
    delete &alive;
  });
}

lapidary_status lapidary_describe(const lapidary_model* model, lapidary_model_info* info, lapidary_error* error) {
  return attempt(error, [&] {
    const engine::Model& loaded = capi::model_of(model).model;
    const link::Program& program = loaded.program;
    const auto perceives = [&](graph::Sense sense, std::int32_t bit) { return program.graph->tower(sense) ? bit : 0; };
    const graph::Shape& shape = program.graph->shape;
    const link::MemoryPlan& plan = program.plan;
    capi::write_sized(info,
                      {0, shape.vocab, shape.hidden, shape.layer_count, plan.context_tokens, plan.chunk_rows, plan.sessions,
                       plan.threads, plan.verify_rows, program.assistant ? 1 : 0,
                       program.numeric == link::Numeric::exact ? LAPIDARY_NUMERIC_EXACT : LAPIDARY_NUMERIC_FAST,
                       perceives(graph::Sense::vision, LAPIDARY_SEES) | perceives(graph::Sense::audio, LAPIDARY_HEARS), loaded.image_tokens,
                       kv_kind(plan.kv_format), 0},
                      "info");
  });
}

lapidary_status lapidary_tokenize(const lapidary_model* model, const char* text, size_t text_bytes, uint32_t flags, int32_t* ids,
                                  size_t capacity, size_t* count, lapidary_error* error) {
  return attempt(error, [&] {
    const text::Tokenizer& tokenizer = capi::model_of(model).model.tokenizer;
    const auto given = capi::required_list(text, text_bytes, "text");
    if (flags & ~3u) fail(ErrorKind::unsupported, "tokenize", "flags, expected known ones, got others");
    const auto specials = flags & LAPIDARY_TOKENIZE_SPECIALS ? text::Specials::recognise : text::Specials::as_text;
    std::vector<std::int32_t> encoded = tokenizer.encode({given.data(), given.size()}, specials);
    if (flags & LAPIDARY_TOKENIZE_BOS) encoded.insert(encoded.begin(), engine::required_special(tokenizer, "<bos>"));
    capi::write_list(encoded, ids, capacity, count);
  });
}

lapidary_status lapidary_detokenize(const lapidary_model* model, const int32_t* ids, size_t count, uint32_t flags, char* text,
                                    size_t capacity, size_t* text_bytes, lapidary_error* error) {
  return attempt(error, [&] {
    const text::Tokenizer& tokenizer = capi::model_of(model).model.tokenizer;
    if (flags & ~1u) fail(ErrorKind::unsupported, "detokenize", "flags, expected known ones, got others");
    text::Detokenizer detokenizer(tokenizer, (flags & LAPIDARY_DETOKENIZE_SPECIALS) != 0);
    std::string decoded;
    for (const std::int32_t id : capi::required_list(ids, count, "ids")) {
      if (id < 0 || id >= tokenizer.size())
        fail(ErrorKind::usage, "ids", "expected 0 to " + std::to_string(tokenizer.size() - 1) + ", got " + std::to_string(id));
      decoded += detokenizer.push(id);
    }
    decoded += detokenizer.finish();
    capi::write_list(decoded, text, capacity, text_bytes);
  });
}

lapidary_status lapidary_render(const lapidary_model* model, const char* messages, const char* tools, int32_t think, int32_t* ids,
                                size_t capacity, size_t* count, int32_t* reading, lapidary_error* error) {
  return attempt(error, [&] {
    const engine::Prompt prompt = capi::render(capi::model_of(model).model, messages, tools, think != 0);
    if (reading)
      *reading = prompt.reading == engine::Reading::answer_in_thought ? LAPIDARY_READ_ANSWER_IN_THOUGHT : LAPIDARY_READ_ANSWER;
    capi::write_list(prompt.ids, ids, capacity, count);
  });
}
