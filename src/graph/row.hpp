// What the host tells a backend about the rows of a chunk or round.
#pragma once

#include <cstdint>
#include <span>

namespace lapidary::graph {

struct Row {
  std::int32_t slot = 0;       // session slot: whose K/V
  std::int32_t position = 0;   // absolute
  std::int32_t token = 0;
  std::int32_t block_end = 0;  // last position visible to this row in sliding layers: its own for text
};

// All that varies from round to round.
struct RoundState {
  std::span<const Row> rows;
  std::int32_t output_begin = 0;  // the output window: rows whose logits are wanted
  std::int32_t output_count = 0;
};

}  // namespace lapidary::graph
