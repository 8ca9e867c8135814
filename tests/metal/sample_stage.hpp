// Calls the sample kernel as the executor does: for the rows of a round or a block, or for the one row of a draft step.
#pragma once

#include "metal/stage.hpp"
#include "support/choosing.hpp"

namespace lapidary::test {

// What is suppressed goes into the masks; without masks, into one that all rows share.
inline Masks merged(Masks masks, std::span<const std::int32_t> suppressed, int vocab) {
  if (masks.empty() && !suppressed.empty()) masks.emplace_back((vocab + 31) / 32, ~0u);
  for (auto& mask : masks)
    for (const std::int32_t token : suppressed)
      if (token >= 0 && token < vocab) mask[token / 32] &= ~(1u << token % 32);
  return masks;
}

// threads: in a threadgroup, 0 = as many as the product has
inline Ids choose(const Choosing& from, int threads = 0) {
  const int rows = count_of(from.logits), n = count_of(from.logits.front());
  int vocab = n;
  for (const Ids& list : from.lists)
    for (const std::int32_t token : list) vocab = std::max(vocab, token + 1);
  vocab = std::max(vocab, static_cast<int>(from.counts.size()));

  Stage stage(graph::Op::sample, {.n = {n}}, rows);
  stage.params().rows = from.draft ? metal::layout::kOneRow : from.block ? metal::layout::kBlockRows : metal::layout::kAllRows;
  stage.params().vocab = vocab;
  stage.in(0, from.logits);
  if (!from.lists.empty()) stage.in_ids(1, from.lists);
  stage.out(0, 1);
  stage.out(1, n);
  stage.out(2, n);

  graph::RoundState state{.emitted = from.emitted, .drafted = static_cast<std::int32_t>(from.drafts.size())};
  state.drafts.fill(0);  // a token, also where there is no draft
  std::copy(from.drafts.begin(), from.drafts.end(), state.drafts.begin());
  std::vector<graph::RoundState> states(from.slot + 1, {.emitted = -7, .drafted = 7});
  states[from.slot] = state;
  stage.bound().states = stage.hold(states);
  stage.run().slot = stage.run().seats[0].slot = from.slot;
  stage.run().seat_count = 1;
  if (from.block) stage.run().block_rows = stage.run().seats[0].block.count = rows;

  Ids counts(static_cast<std::size_t>(vocab) * from.slot, 5);
  counts.insert(counts.end(), from.counts.begin(), from.counts.end());
  stage.bound().counts = stage.hold(counts);
  std::vector<std::uint32_t> words;
  std::vector<metal::layout::LogitBias> biases;
  if (from.sampling) {
    const graph::Sampling& sampling = *from.sampling;
    const Masks masks = merged(from.masks, sampling.suppressed, vocab);
    for (const auto& mask : masks) words.insert(words.end(), mask.begin(), mask.end());
    for (const auto& [token, bias] : sampling.bias) biases.push_back({token, bias});
    const int mask_words = masks.empty() ? 0 : static_cast<int>(masks.front().size());
    stage.run().seats[0].samples = 1;
    stage.run().seats[0].sampling = {
        .repetition = sampling.repetition, .presence = sampling.presence, .frequency = sampling.frequency,
        .temperature = sampling.temperature, .top_k = sampling.top_k, .top_p = sampling.top_p, .min_p = sampling.min_p,
        .seed_low = static_cast<std::uint32_t>(sampling.seed), .seed_high = static_cast<std::uint32_t>(sampling.seed >> 32),
        .stream = sampling.stream, .bias_count = static_cast<int>(biases.size()), .has_counts = !from.counts.empty(),
        .mask_words = mask_words, .mask_stride_words = masks.size() > 1 ? mask_words : 0};
  }
  stage.bound().masks = stage.hold(words);
  stage.bound().biases = stage.hold(biases);

  const auto logit_bytes = [&] {
    MTL::Buffer* buffer = metal::buffer_of(stage.bound().in[0]);
    return std::string(static_cast<const char*>(buffer->contents()), buffer->length());
  };
  const std::string before = logit_bytes();
  stage.play(threads);
  boost::ut::expect(logit_bytes() == before) << "logits have changed";
  stage.floats(1), stage.ids(2);  // for their gaps
  Ids chosen;
  for (const Ids& row : stage.ids(0)) chosen.push_back(row[0]);
  return chosen;
}

inline Ids choose_on_device(const Choosing& from) { return choose(from); }

}  // namespace lapidary::test
