// The flags that say how tokens are chosen; what is not given comes from the checkpoint's generation_config.json.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <CLI/App.hpp>

#include "decode/generation_config.hpp"
#include "graph/row.hpp"

namespace lapidary::cli {

struct SamplingFlags {
  std::optional<float> temperature, top_p, min_p, repetition, presence, frequency;
  std::optional<std::int32_t> top_k;
  std::optional<std::uint64_t> seed;
  std::vector<std::string> bias;  // "ID=VALUE"

  void add_to(CLI::App& command);
};

// Flags over defaults, with the lists that graph::Sampling points to.
struct ResolvedSampling {
  ResolvedSampling(const SamplingFlags& flags, const decode::GenerationDefaults& defaults, std::int32_t vocab);
  graph::Sampling sampling() const;

  graph::Sampling settings;
  std::vector<std::pair<std::int32_t, float>> bias;
  std::vector<std::int32_t> suppressed;
};

}  // namespace lapidary::cli
