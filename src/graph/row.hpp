// What the host tells a backend about the rows of a chunk or round.
#pragma once

#include <cstdint>
#include <span>
#include <utility>

namespace lapidary::graph {

struct Row {
  std::int32_t slot = 0;       // session slot: whose K/V
  std::int32_t position = 0;   // absolute
  std::int32_t token = 0;
  std::int32_t block_end = 0;  // last position visible to this row in sliding layers: its own for text
};

// How a token is chosen from a row's logits, the same for all rows of a request. The steps run in this order: suppressed,
// bias, penalties, mask, temperature, top-k, top-p, min-p, choice.
struct Sampling {
  std::span<const std::int32_t> suppressed{};                     // never chosen
  std::span<const std::pair<std::int32_t, float>> bias{};         // added to the logit
  float repetition = 1.0f;                                        // x / r if x > 0, else x * r, once per distinct token
  float presence = 0.0f, frequency = 0.0f;                        // minus presence + count * frequency
  float temperature = 0.0f;                                       // 0 = the largest, ties to the lower id
  std::int32_t top_k = 0;                                         // 0 = all
  float top_p = 1.0f, min_p = 0.0f;
  std::uint64_t seed = 0;
  std::uint32_t stream = 0;                                       // number of the completion

  bool penalises() const { return repetition != 1.0f || presence != 0.0f || frequency != 0.0f; }
};

// What only one row of the output window knows.
struct SelectRow {
  std::int64_t index = 0;                       // of the token to choose among the generated ones: the key of its noise
  std::span<const std::int32_t> drafted{};      // tokens between the counted history and this row
  std::span<const std::uint32_t> mask{};        // one bit per token, 1 = allowed; empty = all
};

// The input of the select segment.
struct Selection {
  Sampling sampling{};
  std::span<const std::int32_t> counts{};       // [vocab]: how often each token occurred; empty when nothing penalises
  std::span<const SelectRow> rows{};            // by row of the output window
};

// All that varies from round to round.
struct RoundState {
  std::span<const Row> rows;
  std::int32_t output_begin = 0;         // the output window: rows whose logits are wanted
  std::int32_t output_count = 0;
  const Selection* selection = nullptr;  // null = the largest logit
};

}  // namespace lapidary::graph
