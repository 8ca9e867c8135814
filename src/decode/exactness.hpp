// The promise checked on the machine at hand: a row comes out the same, bit for bit, alone and among the rows of a round.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "decode/session.hpp"

namespace lapidary::decode {

struct Exactness {
  std::int64_t positions = 0;  // forced
  std::int64_t blocks = 0;     // rounds of 2 to verify_rows rows that they were computed in again
  std::int64_t values = 0;     // rows of step results compared

  struct Difference {
    const graph::Step* step = nullptr;
    int width = 0;             // rows of the round
    int row = 0;
    std::int32_t position = 0;
  };
  std::optional<Difference> difference;  // the first one
};

// Forces `positions` tokens after a short prompt, one at a time and then in rounds of all widths, part of which end in wrong
// drafts that are taken back. Compares what every step makes of every row. Empties the session.
Exactness check_exactness(Session& session, std::int32_t positions);

// "attention of layer 3 at width 4, row 2, position 57"
std::string describe(const Exactness::Difference& difference);

}  // namespace lapidary::decode
