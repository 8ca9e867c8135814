// A graph as a table for people: what runs, in which order, over which bytes.
#pragma once

#include <functional>
#include <ostream>
#include <string>

#include "graph/graph.hpp"

namespace lapidary::graph {

// What is known of a weight once a checkpoint is bound.
struct WeightFacts {
  std::string storage;      // "affine4/64"
  std::int64_t bytes = 0;   // that one row of the step reads
};
using WeightLookup = std::function<WeightFacts(const Step&, WeightId)>;

// Layers with the same steps are written once. Without `lookup`, weights are given in elements.
void write_listing(std::ostream& out, const Graph& graph, const WeightLookup& lookup = {});

}  // namespace lapidary::graph
