// Settings with all that a row can have, at random.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "graph/row.hpp"
#include "support/random.hpp"

namespace lapidary::test {

struct RandomSettings {
  std::vector<std::int32_t> suppressed, counts, drafted;
  std::vector<std::pair<std::int32_t, float>> bias;
  std::vector<std::uint32_t> mask;
  graph::Sampling sampling;
  std::int64_t index = 0;

  // choices: how many tokens there are to choose from
  RandomSettings(Random& random, int vocab, int choices) {
    while (random.chance(2)) suppressed.push_back(random.below(vocab + 5));
    while (random.chance(2)) bias.emplace_back(random.below(vocab + 5), static_cast<float>(random.uniform(-5, 5)));
    if (random.chance(2)) {
      sampling.repetition = random.chance(2) ? 1.0f : static_cast<float>(random.uniform(0.7, 2.0));
      sampling.presence = random.chance(2) ? 0.0f : static_cast<float>(random.uniform(-1.0, 2.0));
      sampling.frequency = random.chance(2) ? 0.0f : static_cast<float>(random.uniform(-0.5, 1.0));
      counts.assign(vocab, 0);
      for (int i = 0; i < vocab / 2; ++i) ++counts[random.below(vocab)];
    }
    for (int i = random.below(8); i > 0; --i) drafted.push_back(random.below(vocab));
    if (random.chance(3)) {
      mask.resize((vocab + 31) / 32);
      for (std::uint32_t& word : mask) word = static_cast<std::uint32_t>(random.bits());
    }
    sampling.temperature = random.chance(8) ? 0.0f : static_cast<float>(random.uniform(0.2, 3.0));
    sampling.top_k = random.chance(2) ? 0 : 1 + random.below(choices + 10);
    sampling.top_p = random.chance(2) ? 1.0f : static_cast<float>(random.uniform(0.0, 1.0));
    sampling.min_p = random.chance(2) ? 0.0f : static_cast<float>(random.uniform(0.0, 0.5));
    sampling.seed = random.bits();
    sampling.stream = static_cast<std::uint32_t>(random.below(4));
    index = static_cast<std::int64_t>(random.bits() >> 20);
    sampling.suppressed = suppressed;
    sampling.bias = bias;
  }
  RandomSettings(const RandomSettings&) = delete;

  graph::SelectRow row() const { return {index, drafted, mask}; }
};

}  // namespace lapidary::test
