// Stage 3: neighbouring ops become one step where a kernel exists for them.
#include <algorithm>
#include <cassert>
#include <span>

#include "stages.hpp"

namespace lapidary::codegen {
namespace {

using graph::Op;

struct Part {
  Kind kind;
  int least = 1;
  int most = 1;
};

struct Pattern {
  Op op;
  std::vector<Part> parts;
};

// The first pattern that matches wins, so longer ones stand before their beginnings.
const std::vector<Pattern>& patterns() {
  static const std::vector<Pattern> all = {
      {Op::round_rows, {{Kind::round_rows}}},
      {Op::embed, {{Kind::embed}}},
      {Op::embed_pair, {{Kind::embed_pair}}},
      {Op::rope_angles, {{Kind::rope_angles}}},
      {Op::ple_inputs, {{Kind::ple_inputs}}},
      {Op::linear_gelu_mul, {{Kind::linear, 2, 2}, {Kind::gelu_mul}}},
      {Op::linear_gelu_gate, {{Kind::linear}, {Kind::gelu_mul}}},
      {Op::linear_softcap, {{Kind::linear}, {Kind::softcap}}},
      {Op::linear, {{Kind::linear}}},
      {Op::qkv_norm_rope,
       {{Kind::head_norm}, {Kind::rope}, {Kind::head_norm, 0, 1}, {Kind::rope, 0, 1}, {Kind::store, 0, 1},
        {Kind::head_norm, 0, 1}, {Kind::store, 0, 1}}},
      {Op::attention, {{Kind::attention}}},
      {Op::moe_combine,
       {{Kind::rms_norm}, {Kind::weighted_sum}, {Kind::rms_norm}, {Kind::add}, {Kind::rms_norm}, {Kind::add}, {Kind::scale},
        {Kind::rms_norm, 0, 1}}},
      {Op::residual_norm, {{Kind::rms_norm}, {Kind::add}, {Kind::scale, 0, 1}, {Kind::rms_norm, 0, 3}}},
      {Op::rms_norm, {{Kind::rms_norm}}},
      {Op::route, {{Kind::route}}},
      {Op::expert_gelu_mul, {{Kind::expert_linear, 2, 2}, {Kind::gelu_mul}}},
      {Op::expert_linear, {{Kind::expert_linear}}},
      {Op::top, {{Kind::top}}},
      {Op::cluster_logits, {{Kind::cluster_logits}}},
      {Op::sample, {{Kind::sample}}},
      {Op::keep_draft, {{Kind::keep_draft}}},
      {Op::accept, {{Kind::accept}}},
  };
  return all;
}

// How many nodes from `first` on the pattern covers; 0 = no match. Only rows of one set and one layer are fused.
std::size_t match(const Pattern& pattern, std::span<const Node> nodes) {
  std::size_t at = 0;
  for (const Part& part : pattern.parts) {
    int count = 0;
    while (count < part.most && at < nodes.size() && nodes[at].kind == part.kind && nodes[at].rows == nodes[0].rows &&
           nodes[at].layer == nodes[0].layer)
      ++at, ++count;
    if (count < part.least) return 0;
  }
  return at;
}

template <class T>
void add_once(std::vector<T>& list, T item) {
  if (std::find(list.begin(), list.end(), item) == list.end()) list.push_back(item);
}

bool is_pinned(ValueId value) { return value <= graph::kLastPinned; }

void take_over(graph::Dims& into, const graph::Dims& from) {
  const auto first_set = [](auto& mine, auto theirs) { if (!mine) mine = theirs; };
  first_set(into.k, from.k);
  for (std::size_t i = 0; i < into.n.size(); ++i) first_set(into.n[i], from.n[i]);
  first_set(into.heads, from.heads);
  first_set(into.kv_heads, from.kv_heads);
  first_set(into.head_dim, from.head_dim);
  first_set(into.window, from.window);
  first_set(into.kv_layer, from.kv_layer);
  first_set(into.experts, from.experts);
  first_set(into.experts_used, from.experts_used);
  first_set(into.offset, from.offset);
  first_set(into.scaled_output, from.scaled_output);
  first_set(into.scale, from.scale);
  first_set(into.scale2, from.scale2);
  into.owns_kv |= from.owns_kv;
  into.values_are_keys |= from.values_are_keys;
}

Node merge(Op op, std::span<const Node> parts, std::span<const Node> later) {
  Node step = parts[0];
  step.fused = op;
  step.in.clear(), step.out.clear(), step.weights.clear();
  std::vector<ValueId> made;
  bool scaled = false;
  for (const Node& part : parts) {
    for (const ValueId in : part.in)
      if (std::find(made.begin(), made.end(), in) == made.end()) add_once(step.in, in);
    for (const ValueId out : part.out) {
      made.push_back(out);
      const bool in_place = std::find(step.in.begin(), step.in.end(), out) != step.in.end();
      const bool visible = parts.size() == 1 || in_place || is_pinned(out) || std::any_of(later.begin(), later.end(), [&](const Node& node) {
        return std::find(node.in.begin(), node.in.end(), out) != node.in.end();
      });
      if (visible) add_once(step.out, out);
    }
    // A residual_norm keeps the place of a missing layer scalar empty.
    scaled |= part.kind == Kind::scale;
    if (op == Op::residual_norm && part.kind == Kind::rms_norm && &part != &parts[0] && !scaled) {
      step.weights.push_back(graph::kNone);
      scaled = true;
    }
    step.weights.insert(step.weights.end(), part.weights.begin(), part.weights.end());
    take_over(step.dims, part.dims);
    step.tap = std::max(step.tap, part.tap);
  }
  // What is updated in place comes first among the inputs.
  const auto in_place = std::find_if(step.in.begin(), step.in.end(), [&](ValueId in) {
    return std::find(step.out.begin(), step.out.end(), in) != step.out.end();
  });
  if (in_place != step.in.end()) std::rotate(step.in.begin(), in_place, in_place + 1);
  return step;
}

// Products of one input become one step with one output, the results side by side.
void join_products(Lowered& lowered) {
  auto& nodes = lowered.nodes;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const auto joins = [&](const Node& node) {
      return node.fused == Op::linear && !is_pinned(node.out[0]) && node.in == nodes[i].in && node.rows == nodes[i].rows && node.layer == nodes[i].layer;
    };
    std::size_t count = 1;
    while (joins(nodes[i]) && count < 3 && i + count < nodes.size() && joins(nodes[i + count])) ++count;
    if (count == 1) continue;

    Value joined;
    std::vector<ValueId> old;
    for (std::size_t j = 0; j < count; ++j) {
      const Node& node = nodes[i + j];
      joined.name += lowered.values[node.out[0]].name;
      joined.row_bytes += lowered.values[node.out[0]].row_bytes;
      joined.region = lowered.values[node.out[0]].region;
      old.push_back(node.out[0]);
      if (j == 0) continue;
      nodes[i].weights.push_back(node.weights[0]);
      nodes[i].dims.n[j] = node.dims.n[0];
    }
    lowered.values.push_back(joined);
    const auto id = static_cast<ValueId>(lowered.values.size() - 1);
    nodes[i].out = {id};
    nodes.erase(nodes.begin() + static_cast<std::ptrdiff_t>(i) + 1, nodes.begin() + static_cast<std::ptrdiff_t>(i + count));
    for (std::size_t j = i + 1; j < nodes.size(); ++j) {
      std::vector<ValueId> in;
      for (const ValueId value : nodes[j].in)
        add_once(in, std::find(old.begin(), old.end(), value) != old.end() ? id : value);
      nodes[j].in = std::move(in);
    }
  }
}

}  // namespace

void fuse(Lowered& lowered) {
  const std::span<const Node> nodes = lowered.nodes;
  std::vector<Node> steps;
  for (std::size_t at = 0; at < nodes.size();) {
    std::size_t length = 0;
    for (const Pattern& pattern : patterns()) {
      length = match(pattern, nodes.subspan(at));
      if (!length) continue;
      steps.push_back(merge(pattern.op, nodes.subspan(at, length), nodes.subspan(at + length)));
      break;
    }
    assert(length > 0 && "every op has a kernel");
    at += length;
  }
  lowered.nodes = std::move(steps);
  join_products(lowered);
}

}  // namespace lapidary::codegen
