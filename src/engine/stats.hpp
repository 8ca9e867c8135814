// What an answer came to, in numbers.
#pragma once

#include "engine/answer.hpp"

namespace lapidary::engine {

struct Rates {
  double prompt_tok_s = 0, decode_tok_s = 0, gb_s = 0;
  std::int64_t token_bytes = 0;
};
Rates rates_of(const Model& model, const Answer::Result& answer);

// Load time, time to first token, tok/s, bytes per token, GB/s, and what the rounds came to.
text::Value stats_of(const Conversation& conversation, const Answer::Result& answer);

// How K/V are stored and what they take: of layers that keep every position, each with one store or two, and in all.
text::Value kv_stats(const link::Program& program);

// The rounds of a text.
text::Value::Object draft_stats(const decode::Speculation& speculation, const decode::SpeculationStats& stats);
double acceptance(const decode::SpeculationStats& stats, int position);  // of the drafts at this position, the accepted part

}  // namespace lapidary::engine
