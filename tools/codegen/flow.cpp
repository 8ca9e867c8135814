#include "flow.hpp"

#include <algorithm>

namespace lapidary::codegen {
namespace {

using graph::Primitive;

bool share(const std::vector<ValueId>& a, const std::vector<ValueId>& b) {
  return std::ranges::any_of(a, [&](ValueId value) { return std::ranges::find(b, value) != b.end(); });
}

// The row table is what all others go by. K/V are values without a name: a layer stores its own.
bool must_precede(const Node& a, const Node& b) {
  if (a.kind == Primitive::round_rows) return true;
  const auto store_and_read = [](const Node& store, const Node& read) {
    if (read.kind != Primitive::attention) return false;
    return (store.kind == Primitive::store && store.layer == read.dims.kv_layer) ||
           (store.kind == Primitive::block_qkv && store.dims.kv_layer == read.dims.kv_layer);
  };
  return share(a.out, b.in) || share(a.in, b.out) || share(a.out, b.out) || store_and_read(a, b) || store_and_read(b, a);
}

}  // namespace

Flow::Flow(const std::vector<Node>& nodes) : producers_(nodes.size()), followers_(nodes.size()) {
  for (std::size_t later = 0; later < nodes.size(); ++later) {
    for (const ValueId value : nodes[later].in) {
      int producer = kOutside;
      for (std::size_t node = 0; node < later; ++node)
        if (std::ranges::find(nodes[node].out, value) != nodes[node].out.end()) producer = static_cast<int>(node);
      producers_[later].push_back(producer);
    }
    for (std::size_t node = 0; node < later; ++node)
      if (must_precede(nodes[node], nodes[later])) followers_[node].push_back(static_cast<int>(later));
  }
}

}  // namespace lapidary::codegen
