// How tokens are chosen; what is not said comes from the checkpoint's generation_config.json.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "decode/generation_config.hpp"
#include "graph/row.hpp"

namespace lapidary::engine {

struct SamplingOptions {
  std::optional<float> temperature, top_p, min_p, repetition, presence, frequency;
  std::optional<std::int32_t> top_k;
  std::optional<std::uint64_t> seed;  // none = a random one
  std::vector<std::pair<std::int32_t, float>> bias;  // added to the logit of an id
  std::uint32_t stream = 0;  // of noise: other ones give other answers for the same seed
};

// Options over defaults, with the lists that graph::Sampling points to.
struct ResolvedSampling {
  ResolvedSampling(const SamplingOptions& options, const decode::GenerationDefaults& defaults, std::int32_t vocab);
  graph::Sampling sampling() const;

  graph::Sampling settings;
  std::vector<std::pair<std::int32_t, float>> bias;
  std::vector<std::int32_t> suppressed;
};

}  // namespace lapidary::engine
