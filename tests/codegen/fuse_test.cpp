// Steps are made of what belongs together by its values, in whatever order a segment lists it.
#include <boost/ut.hpp>

#include <algorithm>
#include <filesystem>
#include <sstream>

#include "codegen/flow.hpp"
#include "codegen/stages.hpp"
#include "support/cases.hpp"
#include "support/random.hpp"

namespace lapidary::test::fuse_test {
namespace {

using namespace boost::ut;
using codegen::Lowered;
using codegen::Node;
using graph::Op;
using graph::Primitive;

// Another order in which nothing comes before what it waits for.
std::vector<Node> shuffled(const std::vector<Node>& nodes, Random& random) {
  const codegen::Flow flow(nodes);
  std::vector<int> waits(nodes.size()), ready;
  for (int node = 0; node < static_cast<int>(nodes.size()); ++node)
    for (const int next : flow.followers(node)) ++waits[next];
  for (int node = 0; node < static_cast<int>(nodes.size()); ++node)
    if (waits[node] == 0) ready.push_back(node);
  std::vector<Node> result;
  while (!ready.empty()) {
    const auto place = ready.begin() + random.below(static_cast<int>(ready.size()));
    const int node = *place;
    ready.erase(place);
    result.push_back(nodes[node]);
    for (const int next : flow.followers(node))
      if (--waits[next] == 0) ready.push_back(next);
  }
  return result;
}

// The steps, by what they are and not by when they come.
std::vector<std::string> described(Lowered lowered) {
  fuse(lowered);
  std::vector<std::string> steps;
  for (const Node& node : lowered.nodes) {
    std::ostringstream text;
    text << graph::name_of(node.fused) << " rows " << static_cast<int>(node.rows) << " layer " << node.layer << " in";
    for (const codegen::ValueId id : node.in) text << " " << lowered.values[id].name;
    text << " out";
    for (const codegen::ValueId id : node.out) text << " " << lowered.values[id].name;
    text << " weights";
    auto weights = node.weights;
    weights.resize(5, graph::kNone);
    for (const graph::WeightId id : weights) text << " " << id;
    text << " constants " << node.constants << " tap " << node.tap << " n " << node.dims.n[0] << " " << node.dims.n[1] << " "
         << node.dims.n[2] << " k " << node.dims.k << " scale " << node.dims.scale << " " << node.dims.scale2 << " kv "
         << node.dims.kv_layer << node.dims.owns_kv << node.dims.values_are_keys;
    steps.push_back(text.str());
  }
  std::ranges::sort(steps);
  return steps;
}

std::vector<std::string> ops_of(Lowered lowered) {
  fuse(lowered);
  std::vector<std::string> ops;
  for (const Node& node : lowered.nodes) ops.emplace_back(graph::name_of(node.fused));
  return ops;
}

Node node(Primitive kind, std::vector<codegen::ValueId> in, std::vector<codegen::ValueId> out) {
  Node node;
  node.kind = kind;
  node.in = std::move(in);
  node.out = std::move(out);
  return node;
}

// Pinned values, then as many others.
Lowered with_values(int count) {
  Lowered lowered;
  for (int i = 0; i <= graph::kLastPinned + count; ++i) lowered.values.push_back({std::string(1, static_cast<char>('a' + i))});
  return lowered;
}

constexpr codegen::ValueId kX = graph::kLastPinned + 1;

const suite<"fusion"> fusion = [] {
  "the order of the list makes no difference to the steps"_test = [] {
    Random random(1);
    for (const auto& entry : std::filesystem::directory_iterator(kRoot + "/graphs")) {
      if (entry.path().extension() != ".json") continue;
      const codegen::Model model = codegen::read_model(entry.path().string(), {});
      codegen::Weights weights;
      std::vector<Lowered> segments;
      for (int id = 0; id < graph::kSegmentCount; ++id) segments.push_back(lower(model, static_cast<graph::SegmentId>(id), weights));
      for (const graph::Tower& tower : codegen::towers_of(model)) segments.push_back(lower_tower(model, tower, weights));
      for (std::size_t id = 0; id < segments.size(); ++id) {
        const auto expected = described(segments[id]);
        for (int time = 0; time < 3; ++time) {
          segments[id].nodes = shuffled(segments[id].nodes, random);
          expect(described(segments[id]) == expected) << entry.path().string() << id;
        }
      }
    }
  };

  "a producer and its consumer need not be neighbours"_test = [] {
    Lowered lowered = with_values(6);
    lowered.nodes = {node(Primitive::linear, {kX}, {kX + 1}), node(Primitive::rms_norm, {kX}, {kX + 3}),
                     node(Primitive::linear, {kX}, {kX + 2}), node(Primitive::top, {kX + 3}, {kX + 5}),
                     node(Primitive::gelu_mul, {kX + 1, kX + 2}, {kX + 4})};
    for (Node& linear : lowered.nodes) linear.weights = {0};
    expect(ops_of(lowered) == std::vector<std::string>{"linear_gelu_mul", "rms_norm", "top"});
  };

  "neighbours that have nothing to do with each other stay apart"_test = [] {
    Lowered lowered = with_values(5);
    lowered.nodes = {node(Primitive::linear, {kX}, {kX + 1}), node(Primitive::linear, {kX + 1}, {kX + 2}),
                     node(Primitive::softcap, {kX + 1}, {kX + 3})};
    for (Node& linear : lowered.nodes) linear.weights = {0};
    const auto ops = ops_of(lowered);
    expect(ops == std::vector<std::string>{"linear_softcap", "linear"});
  };

  "what would have to run in the middle of a step keeps it apart"_test = [] {
    // The keys are made from the rotated queries.
    Lowered lowered = with_values(6);
    lowered.nodes = {node(Primitive::head_norm, {kX}, {kX + 1}), node(Primitive::rope, {kX + 1}, {kX + 2}),
                     node(Primitive::linear, {kX + 2}, {kX + 3}), node(Primitive::head_norm, {kX + 3}, {kX + 4}),
                     node(Primitive::rope, {kX + 4}, {kX + 5})};
    lowered.nodes[2].weights = {0};
    expect(ops_of(lowered) == std::vector<std::string>{"qkv_norm_rope", "linear", "qkv_norm_rope"});
  };
};

}  // namespace
}  // namespace lapidary::test::fuse_test
