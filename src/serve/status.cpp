#include "serve/status.hpp"

#include <algorithm>

#include "checkpoint/sha256.hpp"

namespace lapidary::serve {
namespace {

using text::Value;

Value model_object(const std::string& name, std::int64_t created_s) {
  return Value::Object{{"id", name}, {"object", "model"}, {"created", created_s}, {"owned_by", "lapidary"}};
}

std::string_view name_of(SlotStatus::State state) {
  switch (state) {
    case SlotStatus::State::idle: return "idle";
    case SlotStatus::State::prompt: return "prompt";
    case SlotStatus::State::decode: return "decode";
    case SlotStatus::State::parked: return "parked";
  }
  return "";
}

// Who drafts, or why no drafter does.
Value::Array drafter_objects(const engine::Model& model) {
  Value::Array all;
  for (const engine::Model::Drafter& drafter : model.drafters()) {
    Value::Object hashes;
    for (const auto& [file, hash] : model.hashes_of(drafter)) hashes.emplace_back(file, hash);
    all.push_back(Value::Object{{"kind", drafter.kind}, {"name", drafter.folder_name()}, {"sha256", std::move(hashes)}, {"why", nullptr}});
  }
  if (all.empty()) {
    const bool looks_up = model.speculation.source_count() > 0;
    all.push_back(Value::Object{{"kind", looks_up ? "lookup" : "none"}, {"name", nullptr}, {"sha256", nullptr},
                                {"why", looks_up ? "no drafter was found for the model" : "drafts are switched off"}});
  }
  return all;
}

}  // namespace

std::string models_body(const Facts& facts, std::int64_t created_s) {
  Value::Array models;
  for (const std::string& name : facts.names)
    if (name != "*") models.push_back(model_object(name, created_s));
  return text::to_json(Value::Object{{"object", "list"}, {"data", std::move(models)}});
}

std::string model_body(const Facts& facts, std::string_view name, std::int64_t created_s) {
  if (name == "*" || std::ranges::find(facts.names, name) == facts.names.end())
    throw Refusal{.status = 404, .code = "model_not_found", .message = "[model] expected " + facts.names.front() + ", got another name", .param = "model"};
  return text::to_json(model_object(std::string(name), created_s));
}

std::string props_body(const engine::Model& model, const Facts& facts, const ServerOptions& options, std::string_view version) {
  const link::MemoryPlan& plan = model.program.plan;
  const graph::Sampling sampling = engine::ResolvedSampling({}, model.defaults, model.program.graph->shape.vocab).settings;
  const auto perceives = [&](graph::Sense sense) { return model.program.graph->tower(sense) != nullptr; };
  return text::to_json(Value::Object{
      {"model", facts.names.front()},
      {"n_ctx", plan.context_tokens},
      {"total_slots", plan.sessions},
      {"queue_limit", options.queue},
      {"max_body_bytes", static_cast<std::int64_t>(options.http.body_bytes)},
      {"modalities", Value::Object{{"vision", perceives(graph::Sense::vision)}, {"audio", perceives(graph::Sense::audio)}}},
      {"default_generation_settings", Value::Object{{"temperature", sampling.temperature}, {"top_k", sampling.top_k}, {"top_p", sampling.top_p},
                                                    {"min_p", sampling.min_p}, {"repetition_penalty", sampling.repetition},
                                                    {"thinking", options.thinks}}},
      {"backend", model.program.backend->name},
      {"numeric", name_of(model.program.numeric)},
      {"build", version},
      {"drafters", drafter_objects(model)}});
}

std::string slots_body(const std::vector<SlotStatus>& slots, int context_tokens) {
  Value::Array list;
  for (std::size_t i = 0; i < slots.size(); ++i)
    list.push_back(Value::Object{{"id", static_cast<std::int64_t>(i)},
                                 {"is_processing", slots[i].state != SlotStatus::State::idle},
                                 {"state", name_of(slots[i].state)},
                                 {"n_ctx", context_tokens},
                                 {"n_past", slots[i].past_tokens},
                                 {"n_generated", slots[i].generated_tokens},
                                 {"age_s", slots[i].age_s}});
  return text::to_json(list);
}

std::string fingerprint_of(const engine::Model& model, std::string_view version) {
  const std::string all = std::string(version) + "\n" + model.program.target.fingerprint() + "\n" + std::string(name_of(model.program.numeric)) + "\n" +
                          std::string(model.program.backend->name);
  return "fp_" + sha256_hex(std::as_bytes(std::span(all))).substr(0, 24);
}

}  // namespace lapidary::serve
