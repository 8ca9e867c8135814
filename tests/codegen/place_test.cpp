// What a graph has lost: buffers of layers that share a name and a place are one there, values are not.
#include <boost/ut.hpp>

#include <algorithm>
#include <filesystem>

#include "codegen/stages.hpp"
#include "support/cases.hpp"

namespace lapidary::test::place_test {
namespace {

using namespace boost::ut;
using codegen::Lowered;
using codegen::Placed;
using codegen::ValueId;

bool overlap(const graph::Buffer& a, const graph::Buffer& b) {
  return a.region == b.region && a.offset < b.offset + row_stride(b) && b.offset < a.offset + row_stride(a);
}

void expect_values_to_last(Lowered lowered, const std::string& where) {
  fuse(lowered);
  const Placed placed = place(lowered);
  std::vector<const graph::Buffer*> buffers(lowered.values.size());
  std::vector<ValueId> written;  // the last one last
  for (std::size_t i = 0; i < lowered.nodes.size(); ++i) {
    const codegen::Node& node = lowered.nodes[i];
    for (std::size_t k = 0; k < node.in.size(); ++k) {
      const ValueId value = node.in[k];
      const graph::Buffer& buffer = placed.buffers[static_cast<std::size_t>(placed.steps[i].in[k])];
      if (value <= lowered.last_pinned || buffer.region == graph::Region::given) continue;
      const auto last = std::find_if(written.rbegin(), written.rend(), [&](ValueId other) { return overlap(*buffers[other], buffer); });
      expect(last != written.rend() && *last == value) << where << "step" << i << "reads" << lowered.values[value].name;
    }
    for (std::size_t k = 0; k < node.out.size(); ++k) {
      buffers[node.out[k]] = &placed.buffers[static_cast<std::size_t>(placed.steps[i].out[k])];
      written.push_back(node.out[k]);
    }
  }
}

const suite<"places"> places = [] {
  "no value lies where another is written before it was read for the last time"_test = [] {
    for (const auto& entry : std::filesystem::directory_iterator(kRoot + "/graphs")) {
      if (entry.path().extension() != ".json") continue;
      const codegen::Model model = codegen::read_model(entry.path().string(), {});
      codegen::Weights weights;
      for (int id = 0; id < graph::kSegmentCount; ++id)
        expect_values_to_last(lower(model, static_cast<graph::SegmentId>(id), weights), model.name);
      for (const graph::Tower& tower : towers_of(model)) expect_values_to_last(lower_tower(model, tower, weights), model.name + " tower");
    }
  };
};

}  // namespace
}  // namespace lapidary::test::place_test
