#include "cpu/executor.hpp"

#include <array>
#include <cassert>
#include <thread>
#include <vector>

#include "cpu/kernels.hpp"
#include "cpu/memory.hpp"
#include "cpu/team.hpp"

namespace lapidary::cpu {
namespace {

using graph::BufferId;
using graph::Op;
using graph::Region;
using graph::RoundState;
using graph::SegmentId;
using graph::Step;

// A buffer at its place in the arena.
struct Place {
  std::byte* data = nullptr;
  std::size_t row_bytes = 0;
  bool by_output = false;  // rows count from the output window
};

struct BoundStep {
  const Step* step = nullptr;
  std::array<Place, 4> in{}, out{};
  std::array<const link::Matrix*, 3> matrices{};  // the matrices among the weights, in order
  int matrix_count = 0;
  std::array<const float*, 5> vectors{};          // by position in Step::weights
  std::span<const float> constants{};
  const link::KvCache* cache = nullptr;
};

class CpuExecutor final : public link::Executor {
 public:
  CpuExecutor(const link::Program& program, int threads)
      : program_(program), arena_(program.plan.arena_bytes), kv_(program.plan.kv_bytes), team_(threads) {
    arena_.commit();
    lay_out_caches();
    for (int id = 0; id < graph::kSegmentCount; ++id) record(static_cast<SegmentId>(id));
  }

  void run(std::span<const SegmentId> segments, const RoundState& state, const link::Tap& tap) override {
    assert(state.output_count <= program_.plan.verify_rows);
    team_.run([&](Part part) {
      for (const SegmentId id : segments)
        for (const BoundStep& bound : segments_[static_cast<std::size_t>(id)]) {
          const auto [first, count] = row_range(*bound.step, state);
          if (count == 0) continue;
          execute(bound, state.rows.subspan(first, count), first, state.selection, part);
          team_.sync();
          if (tap && bound.step->tap != graph::kNone) {
            const In residual = rows<const float>(bound.out[0], first);
            if (part.index == 0) tap(bound.step->tap, residual.data, residual.stride);
            team_.sync();
          }
        }
    });
  }

  std::span<const float> hidden(int output) const override {
    return {output_row<const float>(graph::kHidden, output), static_cast<std::size_t>(program_.graph->shape.hidden)};
  }
  std::span<const float> logits(int output) const override {
    return {output_row<const float>(graph::kLogits, output), static_cast<std::size_t>(program_.graph->shape.vocab)};
  }
  std::int32_t next(int output) const override { return *output_row<const std::int32_t>(graph::kNext, output); }

  std::span<const float> key(int slot, int layer, int kv_head, int position) const override {
    const link::KvCache& cache = caches_[layer];
    return {cache.k + cache.index(slot, kv_head, position), static_cast<std::size_t>(cache.head_dim)};
  }
  std::span<const float> value(int slot, int layer, int kv_head, int position) const override {
    const link::KvCache& cache = caches_[layer];
    return {cache.v + cache.index(slot, kv_head, position), static_cast<std::size_t>(cache.head_dim)};
  }

 private:
  struct Range { std::size_t first, count; };

  static Range row_range(const Step& step, const RoundState& state) {
    if (step.rows != graph::RowSet::last) return {0, state.rows.size()};
    return {static_cast<std::size_t>(state.output_begin), static_cast<std::size_t>(state.output_count)};
  }

  void lay_out_caches() {
    auto* base = reinterpret_cast<float*>(kv_.data());
    for (int l = 0; l < program_.graph->shape.layer_count; ++l) {
      const link::KvPlacement& kv = program_.plan.kv[l];
      const graph::LayerShape& layer = program_.graph->shape.layers[l];
      caches_.push_back({base + kv.k_offset, base + kv.v_offset, layer.kv_heads, layer.head_dim, kv.capacity,
                         program_.plan.session_floats});
    }
  }

  Place place(const graph::Segment& segment, BufferId id) const {
    if (id == graph::kNone) return {};
    const graph::Buffer& buffer = segment.buffers[id];
    const bool outputs = buffer.region == Region::outputs;
    const std::size_t capacity = outputs ? program_.plan.verify_rows : row_capacity();
    const std::size_t region = outputs ? 0 : program_.plan.output_region_bytes;
    return {arena_.data() + region + buffer.offset * capacity, static_cast<std::size_t>(buffer.row_bytes), outputs};
  }

  std::size_t row_capacity() const { return std::max(program_.plan.chunk_rows, program_.plan.verify_rows); }

  void record(SegmentId id) {
    const graph::Segment& segment = program_.graph->segment(id);
    auto& list = segments_[static_cast<std::size_t>(id)];
    for (const Step& step : segment.steps) {
      BoundStep& bound = list.emplace_back();
      bound.step = &step;
      for (std::size_t i = 0; i < step.in.size(); ++i) bound.in[i] = place(segment, step.in[i]);
      for (std::size_t i = 0; i < step.out.size(); ++i) bound.out[i] = place(segment, step.out[i]);
      for (std::size_t i = 0; i < step.weights.size(); ++i) {
        const graph::WeightId weight = step.weights[i];
        if (weight == graph::kNone) continue;
        bound.vectors[i] = program_.vectors[weight];
        if (!bound.vectors[i]) bound.matrices[bound.matrix_count++] = &program_.matrices[weight];
      }
      if (step.constants != graph::kNone) bound.constants = program_.graph->constants[step.constants];
      if (step.op == Op::attention || step.dims.owns_kv) bound.cache = &caches_[step.dims.kv_layer];
    }
  }

  template <class T>
  static RowsOf<T> rows(const Place& place, std::size_t first) {
    auto* data = reinterpret_cast<T*>(place.data + (place.by_output ? 0 : first * place.row_bytes));
    return {data, place.row_bytes / sizeof(T)};
  }

  template <class T>
  const T* output_row(BufferId id, int output) const {
    const Place at = place(program_.graph->segment(SegmentId::head), id);
    return rows<const T>(at, 0)[static_cast<std::size_t>(output)];
  }

  static void execute(const BoundStep& bound, Rows rows_now, std::size_t first, const graph::Selection* selection,
                      Part part) {
    const Step& step = *bound.step;
    const graph::Dims& d = step.dims;
    const int n = static_cast<int>(rows_now.size());
    const auto in = [&](int i) { return rows<const float>(bound.in[i], first); };
    const auto out = [&](int i) { return rows<float>(bound.out[i], first); };
    const auto in_ids = [&](int i) { return rows<const std::int32_t>(bound.in[i], first); };
    const auto out_ids = [&](int i) { return rows<std::int32_t>(bound.out[i], first); };
    const auto matrix = [&](int i) -> const link::Matrix& { return *bound.matrices[i]; };
    const auto& w = bound.vectors;
    const HeadShape heads{d.heads, d.kv_heads, d.head_dim};

    switch (step.op) {
      case Op::embed: return embed(rows_now, matrix(0), d.scale, out(0), part);
      case Op::rope_angles: return rope_angles(rows_now, bound.constants, out(0), part);
      case Op::rms_norm: return rms_norm(n, in(0), w[0], d.n[0], d.epsilon, out(0), part);
      case Op::linear:
        return linear(n, in(0), std::span(bound.matrices).first(bound.matrix_count), out(0), part);
      case Op::linear_gelu_mul: return linear_gelu_mul(n, in(0), matrix(0), matrix(1), out(0), part);
      case Op::linear_gelu_gate: {
        In factor = in(1);
        factor.data += d.offset;
        return linear_gelu_gate(n, in(0), matrix(0), factor, out(0), part);
      }
      case Op::linear_softcap: return linear_softcap(n, in(0), matrix(0), d.scale, out(0), part);
      case Op::qkv_norm_rope:
        return qkv_norm_rope(rows_now, in(0), in(1), w[0], w[1], heads, d.values_are_keys, d.epsilon, bound.cache, out(0),
                             part);
      case Op::attention: return attention(rows_now, in(0), *bound.cache, heads, d.window, out(0), part);
      case Op::residual_norm: {
        std::array<NormOutput, 3> outputs;
        std::size_t count = 0;
        for (; count < outputs.size() && bound.out[count + 1].data; ++count)
          outputs[count] = {w[count + 2], d.scaled_output == static_cast<int>(count) + 1 ? d.scale : 1.0f,
                            out(static_cast<int>(count) + 1)};
        return residual_norm(n, out(0), in(1), w[0], w[1], d.n[0], d.epsilon, std::span(outputs).first(count), part);
      }
      case Op::ple_inputs:
        return ple_inputs(rows_now, in(0), matrix(0), w[1], d.n[1], d.n[0], d.scale, d.scale2, d.epsilon, out(0), part);
      case Op::route: return route(n, in(0), w[0], d.experts, d.experts_used, out_ids(0), out(1), part);
      case Op::expert_gelu_mul:
        return expert_gelu_mul(n, in(0), in_ids(1), d.experts_used, matrix(0), matrix(1), out(0), part);
      case Op::expert_linear: return expert_linear(n, in(0), in_ids(1), d.experts_used, matrix(0), out(0), part);
      case Op::moe_combine:
        return moe_combine(n, out(0), in(1), in(2), in(3), d.experts_used, {w[0], w[1], w[2], w[3], w[4]}, d.n[0], d.epsilon,
                           out(1), part);
      case Op::sample: return sample(n, in(0), d.n[0], selection, out_ids(0), out(1), out_ids(2), part);
    }
  }

  const link::Program& program_;
  Memory arena_;
  Memory kv_;
  std::vector<link::KvCache> caches_;                                   // by layer
  std::array<std::vector<BoundStep>, graph::kSegmentCount> segments_{};
  Team team_;
};

}  // namespace

std::unique_ptr<link::Executor> make_executor(const link::Program& program, int threads) {
  return std::make_unique<CpuExecutor>(program, threads);
}

int default_threads() { return std::max(1, static_cast<int>(std::thread::hardware_concurrency())); }

}  // namespace lapidary::cpu
