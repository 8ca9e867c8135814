// Writes the primitives of a segment one by one: what the text model and the towers are lowered with.
#pragma once

#include "stages.hpp"

namespace lapidary::codegen {

class Primitives {
 protected:
  Primitives(graph::Owner owner, Weights& weights, graph::Region region, float epsilon)
      : owner_(owner), weights_(weights), region_(region), epsilon_(epsilon) {}

  ValueId value(std::string name, std::int64_t width) {
    result_.values.push_back({std::move(name), region_, width * std::int64_t{sizeof(float)}});
    return static_cast<ValueId>(result_.values.size() - 1);
  }

  Node& add(graph::Primitive kind, std::vector<ValueId> in, std::vector<ValueId> out, std::vector<graph::WeightId> weights,
            graph::Dims dims) {
    Node node;
    node.kind = kind;
    node.rows = rows_;
    node.layer = layer_;
    node.in = std::move(in);
    node.out = std::move(out);
    node.weights = std::move(weights);
    node.dims = dims;
    node.dims.epsilon = epsilon_;
    return result_.nodes.emplace_back(std::move(node));
  }

  graph::WeightId matrix(const std::string& name, int rows, int cols, bool clipped = false) {
    return weights_.find_or_add({name, owner_, graph::WeightClass::matrix, 0, rows, cols, clipped});
  }
  graph::WeightId vector(const std::string& name, int cols) {
    return weights_.find_or_add({name, owner_, graph::WeightClass::vector, 0, 1, cols});
  }

  ValueId norm(const char* name, ValueId in, const std::string& weight, int n) {
    const ValueId out = value(name, n);
    add(graph::Primitive::rms_norm, {in}, {out}, {vector(weight, n)}, {.n = {n}});
    return out;
  }

  const graph::Owner owner_;
  Weights& weights_;
  graph::Region region_;
  const float epsilon_;
  Lowered result_;
  graph::RowSet rows_ = graph::RowSet::chunk;
  std::int16_t layer_ = graph::kOutsideLayers;
};

}  // namespace lapidary::codegen
