#include "engine/stats.hpp"

#include <algorithm>

namespace lapidary::engine {
namespace {

using decode::kMaxDrafts;
using text::Value;

Value::Array counts_of(std::span<const std::int64_t> counts) {
  Value::Array array;
  for (const std::int64_t count : counts) array.emplace_back(count);
  return array;
}

}  // namespace

Rates rates_of(const Model& model, const Answer::Result& answer) {
  const int prefilled = answer.prompt_tokens - answer.reused_tokens;
  const int decoded = std::max(0, static_cast<int>(answer.ids.size()) - 1);  // the first came with the prompt
  Rates rates;
  rates.token_bytes = link::cost_of_token(model.program).weight_bytes;
  if (answer.first_token_seconds > 0) rates.prompt_tok_s = prefilled / answer.first_token_seconds;
  if (answer.decode_seconds > 0) rates.decode_tok_s = decoded / answer.decode_seconds;
  rates.gb_s = rates.decode_tok_s * static_cast<double>(rates.token_bytes) / 1e9;
  return rates;
}

Value stats_of(const Conversation& conversation, const Answer::Result& answer) {
  const Model& model = conversation.model;
  const Rates rates = rates_of(model, answer);
  Value::Object draft = draft_stats(model.speculation, answer.drafts);
  for (const Model::Drafter& drafter : model.drafters()) {
    Value::Object sha256;
    for (const auto& [name, hash] : model.hashes_of(drafter)) sha256.emplace_back(name, hash);
    draft.emplace_back(drafter.name, drafter.origin->folder);
    draft.emplace_back(std::string(drafter.name) + "_sha256", std::move(sha256));
  }
  return Value::Object{
      {"load_s", model.load_seconds},
      {"first_token_s", answer.first_token_seconds},
      {"prompt_tokens", answer.prompt_tokens},
      {"reused_tokens", answer.reused_tokens},
      {"prompt_tok_s", rates.prompt_tok_s},
      {"generated_tokens", static_cast<std::int64_t>(answer.ids.size())},
      {"decode_tok_s", rates.decode_tok_s},
      {"tokens_per_round", answer.drafts.tokens_per_round()},
      {"bytes_per_token", rates.token_bytes},
      {"gb_s", rates.gb_s},
      {"kv", kv_stats(model.program)},
      {"seed", std::to_string(answer.seed)},
      {"draft", std::move(draft)},
  };
}

Value kv_stats(const link::Program& program) {
  const link::MemoryPlan& plan = program.plan;
  Value::Array layers;
  for (std::size_t l = 0; l < plan.target_kv().size(); ++l) {
    const graph::LayerShape& layer = program.graph->shape.layers[l];
    if (!plan.kv[l].capacity || layer.kind != graph::LayerKind::full) continue;
    const link::KvStores& stores = plan.kv[l].stores;
    layers.push_back(Value::Object{{"layer", static_cast<std::int64_t>(l)},
                                   {"stores", stores.one ? 1 : 2},
                                   {"bytes_per_token", static_cast<std::int64_t>(layer.kv_heads * (stores.key_bytes() + stores.value_bytes()))}});
  }
  return Value::Object{{"kind", plan.kv_format.name},
                       {"full_layers", std::move(layers)},
                       {"bytes_per_token", static_cast<std::int64_t>(plan.kv_bytes_per_token)},
                       {"full_bytes", static_cast<std::int64_t>(plan.kv_full_bytes)},
                       {"bytes", static_cast<std::int64_t>(plan.kv_bytes)}};
}

double acceptance(const decode::SpeculationStats& stats, int position) {
  const std::int64_t drafted = stats.drafted[position];
  return drafted ? static_cast<double>(stats.accepted[position]) / static_cast<double>(drafted) : 0.0;
}

Value::Object draft_stats(const decode::Speculation& speculation, const decode::SpeculationStats& stats) {
  Value::Object sources, plain;
  for (std::size_t i = 0; i < speculation.source_count(); ++i)
    sources.emplace_back(std::string(speculation.source_name(i)), stats.rounds_by_source[i]);
  for (const auto& [reason, count] : stats.plain_rounds) plain.emplace_back(std::string(reason), count);
  Value::Array acceptances;
  for (int i = 0; i < kMaxDrafts; ++i) acceptances.emplace_back(acceptance(stats, i));
  return {
      {"rounds", stats.rounds},
      {"rounds_by_source", std::move(sources)},
      {"rounds_by_draft_tokens", counts_of(stats.rounds_by_k)},
      {"drafted_by_position", counts_of(stats.drafted)},
      {"accepted_by_position", counts_of(stats.accepted)},
      {"acceptance_by_position", std::move(acceptances)},
      {"plain_rounds", std::move(plain)},
      {"draft_s", stats.draft_s},
      {"verify_s", stats.verify_s},
      {"other_s", stats.other_s},
  };
}

}  // namespace lapidary::engine
