// What must hold in every graph, whatever the model.
#include <boost/ut.hpp>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "graph/graph.hpp"

namespace lapidary::test::graph_test {
namespace {

using namespace boost::ut;
using namespace lapidary::graph;

const Graph& graph_named(std::string_view name) {
  for (const Graph* graph : compiled_graphs())
    if (graph->name == name) return *graph;
  throw std::runtime_error("no graph " + std::string(name));
}

template <class F>
void for_each_segment(F&& f) {
  for (const Graph* graph : compiled_graphs())
    for (const Segment& segment : graph->segments) f(*graph, segment);
}

// Those of towers too.
template <class F>
void for_every_segment(F&& f) {
  for_each_segment(f);
  for (const Graph* graph : compiled_graphs())
    for (const Tower& tower : graph->towers) f(*graph, tower.segment);
}

bool overlap(const Buffer& a, const Buffer& b) {
  return a.region == b.region && a.offset < b.offset + row_stride(b) && b.offset < a.offset + row_stride(a);
}

bool touches(std::span<const BufferId> ids, const Segment& segment, const Buffer& buffer) {
  for (const BufferId id : ids)
    if (id != kNone && overlap(segment.buffers[id], buffer)) return true;
  return false;
}

bool same(const Dims& a, const Dims& b) {
  bool all = true;
  for_each_dim([&](const char*, const auto& x, const auto& y) { all &= x == y; }, a, b);
  return all;
}

// Everything step i waits for, directly or not.
std::set<int> all_before(const Segment& segment, int i) {
  std::set<int> before;
  std::vector<int> open = {i};
  while (!open.empty()) {
    const int step = open.back();
    open.pop_back();
    for (const int wait : segment.waits_of(segment.steps[step]))
      if (before.insert(wait).second) open.push_back(wait);
  }
  return before;
}

int count_steps(const Segment& segment, int layer) {
  int count = 0;
  for (const Step& step : segment.steps) count += step.layer == layer;
  return count;
}

bool is_tapped(const Graph& graph, int layer) { return graph.dflash && std::ranges::count(graph.dflash->each_tap(), layer) > 0; }

bool near(float value, double expected) { return std::abs(value - expected) <= 1e-7 * std::abs(expected); }

const suite<"graphs"> graphs = [] {
  "no layer has more steps than its budget"_test = [] {
    for_each_segment([](const Graph& graph, const Segment& segment) {
      const int budget = graph.shape.experts || graph.shape.ple_width ? 12 : 9;
      for (int layer = 0; layer < graph.shape.layer_count; ++layer)
        expect(count_steps(segment, layer) <= budget + is_tapped(graph, layer)) << graph.name << " layer " << layer;
    });
  };

  "every step is as the table of ops says"_test = [] {
    for_every_segment([](const Graph& graph, const Segment& segment) {
      for (const Step& step : segment.steps) {
        const OpInfo& info = info_of(step.op);
        const auto count = [](std::span<const BufferId> ids) { return std::ranges::count_if(ids, [](BufferId id) { return id != kNone; }); };
        expect(count(step.in) <= info.inputs && count(step.out) <= info.outputs) << graph.name << info.name;
        expect((step.constants != kNone) == info.constants) << graph.name << info.name;
        for (std::size_t i = 0; i < step.weights.size(); ++i) {
          if (step.weights[i] == kNone) continue;
          const WeightClass kind = graph.weights[step.weights[i]].kind;
          const bool widened = kind == WeightClass::vector || kind == WeightClass::kernel;
          const WeightUse use = widened ? WeightUse::vector : kind == WeightClass::ids ? WeightUse::ids : WeightUse::matrix;
          expect(info.weights[i] == use) << graph.name << info.name << i;
        }
      }
    });
  };

  "what a step reads is what the last step that touched those bytes wrote"_test = [] {
    for_every_segment([](const Graph& graph, const Segment& segment) {
      for (std::size_t i = 0; i < segment.steps.size(); ++i)
        for (const BufferId id : segment.steps[i].in) {
          if (id == kNone || segment.buffers[id].region == Region::given) continue;
          if (segment.steps.front().rows < RowSet::percept && id <= kLastPinned) continue;
          bool written = false;
          for (std::size_t j = 0; j < i; ++j)
            for (const BufferId out : segment.steps[j].out)
              if (out != kNone && overlap(segment.buffers[out], segment.buffers[id])) written = out == id;
          expect(written) << graph.name << " step " << i;
        }
    });
  };

  "steps that share bytes are ordered by their waits"_test = [] {
    for_every_segment([](const Graph& graph, const Segment& segment) {
      for (int i = 0; i < static_cast<int>(segment.steps.size()); ++i) {
        const Step& later = segment.steps[i];
        const std::set<int> before = all_before(segment, i);
        for (int j = 0; j < i; ++j) {
          const Step& earlier = segment.steps[j];
          bool conflict = false;
          for (const BufferId id : later.out)
            if (id != kNone)
              conflict |= touches(earlier.in, segment, segment.buffers[id]) || touches(earlier.out, segment, segment.buffers[id]);
          for (const BufferId id : later.in)
            if (id != kNone) conflict |= touches(earlier.out, segment, segment.buffers[id]);
          const bool stores = earlier.op == Op::qkv_norm_rope && earlier.dims->owns_kv;
          conflict |= stores && later.op == Op::attention && later.dims->kv_layer == earlier.dims->kv_layer;
          conflict |= earlier.op == Op::round_rows;
          expect(!conflict || before.count(j)) << graph.name << " steps " << j << " and " << i;
        }
      }
    });
  };

  "what a program carries of a graph is there once"_test = [] {
    expect(sizeof(Step) == 48_ul);
    for_every_segment([](const Graph& graph, const Segment& segment) {
      std::set<std::tuple<std::string_view, Region, std::int64_t, std::int64_t>> buffers;
      for (const Buffer& buffer : segment.buffers)
        expect(buffers.emplace(buffer.name, buffer.region, buffer.row_bytes, buffer.offset).second) << graph.name << buffer.name;
      for (const Step& one : segment.steps)
        for (const Step& other : segment.steps) expect(one.dims == other.dims || !same(*one.dims, *other.dims)) << graph.name << name_of(one.op);
    });
  };

  "the buffers that outlive a segment lie at the same place in all of them"_test = [] {
    for (const Graph* graph : compiled_graphs())
      for (const Segment& segment : graph->segments)
        for (BufferId id = 0; id <= kLastPinned; ++id) {
          const Buffer &here = segment.buffers[id], &there = graph->segments[0].buffers[id];
          expect(here.name == there.name && here.offset == there.offset && here.row_bytes == there.row_bytes &&
                 here.region == there.region);
        }
  };

  "every layer's output can be tapped where all rows pass all layers"_test = [] {
    for (const Graph* graph : compiled_graphs())
      for (const SegmentId id : {SegmentId::prefill_all, SegmentId::forward}) {
        std::vector<int> taps;
        for (const Step& step : graph->segment(id).steps)
          if (step.tap != kNone) taps.push_back(step.tap);
        expect(fatal(taps.size() == static_cast<std::size_t>(graph->shape.layer_count)));
        for (std::size_t l = 0; l < taps.size(); ++l) expect(taps[l] == static_cast<int>(l));
      }
  };

  "a prompt runs the layers above the last own K/V and the last tap for the output rows only"_test = [] {
    for (const Graph* graph : compiled_graphs()) {
      const int last_tap = graph->dflash ? graph->dflash->each_tap().back() : -1;
      int last_own = 0;
      for (int l = 0; l < graph->shape.layer_count; ++l)
        if (graph->shape.layers[l].kv_layer == l) last_own = l;
      for (const Step& step : graph->segment(SegmentId::prefill).steps) {
        const bool all = step.layer < last_own || step.layer <= last_tap ||
                         (step.layer == last_own && (step.op == Op::linear || step.op == Op::qkv_norm_rope) &&
                          step.dims->k != step.dims->heads * step.dims->head_dim && step.rows == RowSet::chunk);
        expect(step.rows == (all ? RowSet::chunk : RowSet::last)) << graph->name << " layer " << step.layer;
      }
      expect(graph->segment(SegmentId::prefill).steps.front().rows == RowSet::chunk);
    }
  };

  "constants of the published models are those of the definition"_test = [] {
    const auto scale = [](const char* name) { return graph_named(name).segment(SegmentId::forward).steps[1].dims->scale; };
    expect(scale("gemma-4-e2b") == 39.25f);
    expect(scale("gemma-4-e4b") == 50.5f);
    expect(scale("gemma-4-12b") == 62.0f);
    expect(scale("gemma-4-26b-a4b") == 53.0f);
    expect(scale("gemma-4-31b") == 73.5f);

    for (const char* name : {"gemma-4-e2b", "gemma-4-31b"}) {
      const auto constants = graph_named(name).constants;
      expect(fatal(constants.size() == 4u));  // of towers, or of a tower and a drafter, too
      const auto sliding = constants[0], full = constants[1];
      expect(fatal(sliding.size() == 128u && full.size() == 256u));
      expect(sliding[0] == 1.0f && near(sliding[1], 0.93057203) && near(sliding[63], 0.010746079) &&
             near(sliding[127], 1.0746079e-4));
      expect(full[0] == 1.0f && near(full[1], 0.94746351) && near(full[32], 0.17782794) && near(full[63], 0.033376247));
      for (std::size_t i = 64; i < full.size(); ++i) expect(full[i] == 0.0f);
    }
    const auto of_e2b = graph_named("gemma-4-e2b").constants, of_31b = graph_named("gemma-4-31b").constants;
    expect(of_e2b[2].size() == 16u && near(of_e2b[2][1], 0.74989420) && of_31b[3].size() == 18u && near(of_31b[3][1], 0.77426368));
    expect(of_31b[2].size() == 64u && near(of_31b[2][1], 0.80584219) && near(of_31b[2][63], 1.2409378e-6)) << "of the DFlash drafter";
    expect(of_e2b[3].size() == 512u && near(of_e2b[3][1], 0.98213731) && near(of_e2b[3][511], 1e-4));
    for (const Step& step : graph_named("gemma-4-e2b").tower(Sense::audio)->segment.steps)
      if (step.op == Op::local_attention) expect(near(step.dims->scale, 0.12751743) && near(step.dims->scale2, 1.8946361) && step.dims->window == 12);
    for (const Step& step : graph_named("gemma-4-26b-a4b").segment(SegmentId::forward).steps)
      if (step.op == Op::residual_norm && step.dims->scaled_output) expect(near(step.dims->scale, 0.018844459));
    for (const Step& step : graph_named("gemma-4-e2b").segment(SegmentId::forward).steps)
      if (step.op == Op::ple_inputs) expect(near(step.dims->scale, 0.025515518) && step.dims->scale2 == 16.0f);
  };

  "pictures and sounds become as many soft tokens as published"_test = [] {
    const Graph &e2b = graph_named("gemma-4-e2b"), &unified = graph_named("gemma-4-12b");
    expect(e2b.tower(Sense::vision)->soft_tokens(48, 48) == 256_i && e2b.tower(Sense::vision)->soft_tokens(42, 57) == 266_i);
    for (const auto& [frames, tokens] : {std::pair{1, 1}, {4, 1}, {5, 2}, {2999, 750}}) expect(e2b.tower(Sense::audio)->soft_tokens(frames, 1) == tokens);
    expect(unified.tower(Sense::vision)->soft_tokens(16, 16) == 256_i && unified.tower(Sense::audio)->soft_tokens(75, 1) == 75_i);
    expect(graph_named("gemma-4-31b").tower(Sense::audio) == nullptr);
    for (const Graph* graph : compiled_graphs())
      for (const Tower& tower : graph->towers)
        for (const Step& step : tower.segment.steps)
          if (step.layer != kOutsideLayers) expect(count_steps(tower.segment, step.layer) <= (tower.sense == Sense::vision ? 8 : 16)) << graph->name;
  };

  "layers of E2B share the K/V of the last own layer of their kind"_test = [] {
    const Shape& shape = graph_named("gemma-4-e2b").shape;
    expect(fatal(shape.layer_count == 35));
    for (int l = 0; l < 35; ++l)
      expect(shape.layers[l].kv_layer == (l < 15 ? l : shape.layers[l].kind == LayerKind::full ? 14 : 13)) << l;
    expect(shape.layers[14].intermediate == 6144 && shape.layers[15].intermediate == 12288);
  };

  "a round and a draft begin with their rows"_test = [] {
    for (const Graph* graph : compiled_graphs())
      for (const SegmentId id : {SegmentId::draft, SegmentId::forward}) {
        const auto steps = graph->segment(id).steps;
        if (id == SegmentId::draft && !graph->assistant) {
          expect(steps.empty());
          continue;
        }
        expect(fatal(!steps.empty()));
        for (std::size_t i = 0; i < steps.size(); ++i) {
          expect((steps[i].op == Op::round_rows) == (i == 0)) << graph->name;
          expect(steps[i].rows == (id == SegmentId::draft ? RowSet::draft : RowSet::verify)) << graph->name;
        }
      }
  };

  "an assistant reads the K/V of its target's last own layer of each kind, and writes none"_test = [] {
    const std::map<std::string, std::pair<int, int>> sources = {
        {"gemma-4-e2b", {13, 14}}, {"gemma-4-e4b", {22, 23}}, {"gemma-4-12b", {46, 47}},
        {"gemma-4-26b-a4b", {28, 29}}, {"gemma-4-31b", {58, 59}}, {"pebble", {10, 11}}};
    for (const auto& [name, source] : sources) {
      const Graph& graph = graph_named(name);
      int sliding = 0, full = 0;
      for (const Step& step : graph.segment(SegmentId::draft).steps) {
        expect(!step.dims->owns_kv) << name;
        if (step.op != Op::attention) continue;
        expect(step.dims->kv_layer == (step.dims->window ? source.first : source.second)) << name;
        expect(step.dims->window == (step.dims->window ? graph.shape.window : 0)) << name;
        expect(step.dims->kv_heads == graph.shape.layers[step.dims->kv_layer].kv_heads) << name;
        ++(step.dims->window ? sliding : full);
      }
      expect(sliding == 3 && full == 1) << name;
    }
  };

  "every published graph names its drafters"_test = [] {
    for (const char* name : {"gemma-4-12b", "gemma-4-26b-a4b", "gemma-4-31b", "pebble"}) {
      const Graph& graph = graph_named(name);
      expect(fatal(graph.dflash != nullptr)) << name;
      expect(graph.dflash->hidden == graph.shape.hidden && graph.dflash->target_layers == graph.shape.layer_count) << name;
    }
    for (const char* name : {"gemma-4-e2b", "gemma-4-e4b"}) expect(graph_named(name).dflash == nullptr) << name;
    const std::map<std::string, int> hidden = {{"gemma-4-e2b", 256}, {"gemma-4-e4b", 256}, {"gemma-4-12b", 1024},
                                               {"gemma-4-26b-a4b", 1024}, {"gemma-4-31b", 1024}, {"pebble", 128}};
    for (const auto& [name, width] : hidden) {
      const Graph& graph = graph_named(name);
      expect(fatal(graph.assistant != nullptr)) << name;
      expect(graph.assistant->text.hidden == width && graph.assistant->target_hidden == graph.shape.hidden) << name;
      expect((graph.assistant->centroids > 0) == (graph.shape.ple_width > 0)) << name;
    }
  };
};

}  // namespace
}  // namespace lapidary::test::graph_test
