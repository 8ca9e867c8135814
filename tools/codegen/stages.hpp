// The five stages of the code generator, one file each, in the order they run:
//   shape: files -> Model      lower: Model -> primitives of a segment      fuse: -> steps      place: steps -> buffers with
//   offsets and dependencies   emit: everything -> constexpr C++
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "graph/graph.hpp"

namespace lapidary::codegen {

// What the config says, and every constant derived from it.
struct Model {
  std::string name;
  std::int32_t chunk_max = 0;
  std::int32_t verify_max = 0;
  graph::Shape shape;
  std::optional<graph::AssistantShape> assistant;
  std::optional<graph::DFlashShape> dflash;
  std::optional<graph::VisionShape> vision;
  std::optional<graph::AudioShape> audio;

  float embedding_scale = 0;       // sqrt(hidden), rounded to bf16
  float ple_table_scale = 0;       // sqrt(ple_width), rounded to bf16
  float inverse_root_hidden = 0;   // hidden^(-1/2)

  struct Frequencies {
    graph::Rope rope;
    std::int32_t head_dim;
    std::vector<float> values;  // [head_dim / 2]
  };
  std::vector<Frequencies> frequencies;  // one entry for each (rope, head_dim) in use

  // Into `frequencies`: those of a layer of this model or its drafters; kNone where there are none.
  std::int16_t frequencies_of(const graph::Shape& shape, const graph::LayerShape& layer) const;
  std::int16_t frequencies_of(const graph::Rope& rope, std::int32_t head_dim) const;

  // Those of the towers: of a patch's column or row [head_dim / 4], of a frame's distance [hidden / 2]; empty where there is none.
  std::vector<float> grid_frequencies, distance_frequencies;

  // All of these, as steps count them.
  std::vector<std::span<const float>> constants() const;
  std::int16_t grid_constants() const { return static_cast<std::int16_t>(frequencies.size()); }
  std::int16_t distance_constants() const { return static_cast<std::int16_t>(frequencies.size() + !grid_frequencies.empty()); }
};

using ValueId = int;  // into Lowered::values

struct Value {
  std::string name;
  graph::Region region = graph::Region::rows;
  std::int64_t row_bytes = 0;
};

// A primitive and, with `fused` set, a step before placement. The merge of several primitives is plain: the union of their outer
// inputs, visible outputs, weights and dims, in the order of the op's parts.
struct Node {
  graph::Primitive kind{};
  graph::Op fused{};
  graph::RowSet rows{};
  std::int16_t layer = graph::kOutsideLayers;
  std::vector<ValueId> in, out;
  std::vector<graph::WeightId> weights;
  std::int16_t constants = graph::kNone;
  std::int16_t tap = graph::kNone;
  graph::Dims dims{};
};

struct Lowered {
  std::vector<Value> values;  // the first ones are the pinned buffers of graph.hpp
  std::vector<Node> nodes;
  ValueId last_pinned = graph::kLastPinned;
};

struct Slot {
  std::string name;
  graph::Owner owner{};
  graph::WeightClass kind{};
  std::int32_t experts = 0, rows = 0, cols = 0;
  bool clipped = false;
};

// The weights a model needs, found by name while lowering; every segment shares them.
struct Weights {
  std::vector<Slot> slots;
  graph::WeightId find_or_add(Slot slot);
};

struct Placed {
  std::vector<graph::Buffer> buffers;
  std::vector<graph::Step> steps;
  std::deque<graph::Dims> dims;    // theirs
  std::vector<std::int16_t> waits;
  std::vector<std::string> buffer_names;
  std::array<std::int64_t, graph::kRegionCount> region_bytes{};
};

// `path`: a graph description, a config.json, or a checkpoint folder; `drafters`: configs or folders, instead of those that a description has.
Model read_model(const std::string& path, const std::vector<std::string>& drafters);
Lowered lower(const Model& model, graph::SegmentId segment, Weights& weights);
// The buffers that all segments of a text have, under their pinned ids.
std::vector<Value> pinned_values(const Model& model);
// extend, catch_up or block
Lowered lower_dflash(const Model& model, graph::SegmentId segment, Weights& weights);
std::vector<graph::Tower> towers_of(const Model& model);  // without their segments
Lowered lower_tower(const Model& model, const graph::Tower& tower, Weights& weights);
void fuse(Lowered& lowered);
Placed place(const Lowered& lowered);

// All stages but the last: a Graph over storage that lives in this object.
class Built {
 public:
  explicit Built(Model model);
  Built(const Built&) = delete;
  Built& operator=(const Built&) = delete;
  const graph::Graph& graph() const { return graph_; }

 private:
  Model model_;
  Weights weights_;
  graph::Segment segment_of(Lowered lowered);

  std::vector<std::unique_ptr<Placed>> placed_;
  std::vector<graph::Tower> towers_;
  std::vector<graph::WeightSlot> slots_;
  std::vector<std::span<const float>> constants_;
  graph::Graph graph_;
};

// `symbol` names the graph in the generated code.
void emit_graph(std::ostream& out, const graph::Graph& graph, const std::string& symbol);
void emit_registry(std::ostream& out, const std::vector<std::string>& symbols);

}  // namespace lapidary::codegen
