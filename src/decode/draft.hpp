// Where the drafts of a round come from.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "graph/graph.hpp"

namespace lapidary::decode {

inline constexpr int kMaxDrafts = graph::kMaxVerifyRows - 1;

struct Drafts {
  int count = 0;
  const std::int32_t* tokens = nullptr;  // [count]; null = a drafter in the graph makes them:
  bool block = false;                    // the DFlash drafter, all at once; otherwise the assistant
};

class DraftSource {
 public:
  virtual ~DraftSource() = default;
  virtual std::string_view name() const = 0;

  // A new text begins. `prediction`: tokens that it may have, in whole or in part; empty = nobody knows.
  virtual void begin_text(std::span<const std::int32_t> /*prediction*/) {}

  // At most `most` guesses of the tokens after `history`, whose last one is the bonus token. Valid until the next call.
  virtual Drafts propose(std::span<const std::int32_t> history, int most) = 0;
};

}  // namespace lapidary::decode
