#include "link/numeric.hpp"

#include <algorithm>

namespace lapidary::link {

std::string_view name_of(Numeric numeric) { return numeric == Numeric::exact ? "exact" : "fast"; }

Numeric usual_numeric(const graph::Graph& graph) {
  constexpr std::int64_t kToyWeights = 100'000'000;
  std::int64_t weights = 0;
  for (const graph::WeightSlot& slot : graph.weights)
    if (slot.owner == graph::Owner::target)
      weights += std::int64_t{std::max(1, slot.experts)} * std::max(1, slot.rows) * slot.cols;
  return weights < kToyWeights ? Numeric::exact : Numeric::fast;
}

}  // namespace lapidary::link
