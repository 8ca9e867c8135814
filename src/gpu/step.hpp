// A step as a GPU gets it: which kernels, specialised how, over which memory and which grid. One function per family of ops
// turns a bound step into dispatches; the executor encodes them, into an indirect command buffer or directly.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "gpu/layout.hpp"
#include "graph/graph.hpp"
#include "link/kv.hpp"
#include "link/weight.hpp"

namespace lapidary::link {
struct Program;
}

namespace lapidary::gpu {

struct Slice {
  void* buffer = nullptr;  // as the API knows it
  std::size_t offset_bytes = 0;

  explicit operator bool() const { return buffer != nullptr; }
};

struct BoundMatrix {
  const link::Matrix* matrix = nullptr;
  Slice values, scales, biases;
};

// Rows of a prompt and rows of a round are two numeric classes: a row goes through the same kernels whatever other rows there are.
// Those of towers are as those of prompts.
enum class NumericClass : std::uint8_t { round, prompt };

struct BoundStep {
  const graph::Step* step = nullptr;
  NumericClass numeric = NumericClass::round;
  int rows = 1;                            // of the round, or the most a prompt chunk has
  Slice params;                            // its layout::Step
  Slice run, row_table, states;
  std::array<Slice, 4> in{}, out{};
  std::array<BoundMatrix, 5> matrices{};   // by position in Step::weights
  std::array<Slice, 5> vectors{};          // likewise, float32; lists of ids int32
  Slice constants;
  Slice keys, values;                      // K/V of the layer
  link::KvStores kv_stores{};
  Slice key_norm;                          // of the layer that owns them, where keys are made from values
  Slice counts, masks, biases;             // of the request: int32 [sessions][vocab], uint32 [rows][words], LogitBias
  Slice results;                           // of rounds: RoundResult by place in the ring of runs
  int kv_ranges = 1;                       // attention of full layers in a round: see kKvRange
  Slice scratch;                           // where it keeps what the ranges gave
};

// Full attention of a round can be split into ranges of this many positions, each for other threadgroups: kv_ranges = 1 is
// not to, else there are at least as many as the longest context has. The bits are the same. Prompts are never split.
inline constexpr int kKvRange = 2048;

// How many a round over so many positions is split into: a power of two, so that few numbers of them are recorded.
constexpr int kv_ranges(int positions) {
  int ranges = 1;
  while (ranges * kKvRange < positions) ranges *= 2;
  return ranges;
}

// Places of the operands, as common.metal says.
inline constexpr int kStepAt = 0, kRunAt = 1, kRowsAt = 2, kStatesAt = 3, kInAt = 4, kOutAt = 8, kWeightAt = 12, kConstantsAt = 27,
                     kKeysAt = 28, kValuesAt = 29;
// The function constant of that name, of several shaders.
inline constexpr int kHeadDim = 42;

struct Binding {
  int index = 0;
  Slice slice;
};

struct Constant {
  int index = 0;
  int value = 0;
};

struct Dispatch {
  std::string kernel;
  std::vector<Constant> constants;
  std::vector<Binding> bindings;
  // Threadgroups: x and z are fixed, y = ceil(rows / rows_per_group), or 1 when that is 0.
  int groups_x = 1, rows_per_group = 1, groups_z = 1;
  int threads = 32;                        // of a threadgroup, a multiple of 32
  int threadgroup_bytes = 0;               // of [[threadgroup(0)]]
  void* pipeline = nullptr;                // made from the above, before it is encoded; as the API knows it
};

layout::RowsOfStep rows_of(graph::RowSet rows);

// The parameters of a step as its dims say them; where its operands, matrices and K/V lie is not in there.
layout::Step params_of(const graph::Step& step);
layout::MatrixLayout layout_of(const link::Matrix& matrix);

// By op. One step is one dispatch but for long contexts (attention), rows that wait (round_rows) and what goes together.
std::vector<Dispatch> dispatches_of(const BoundStep& bound);

// The families: linear.cpp (products, experts, lookups), norm.cpp, attention.cpp, sample.cpp, tower.cpp.
std::vector<Dispatch> product(const BoundStep& bound);     // linear*, expert_*, cluster_logits, embed, embed_pair, ple_inputs
std::vector<Dispatch> norm(const BoundStep& bound);        // *_norm, rope_angles, qkv_norm_rope, block_qkv, moe_combine, route, top, glu_conv
std::vector<Dispatch> attention(const BoundStep& bound);   // two dispatches when kv_ranges > 1, the second waits for the first
std::vector<Dispatch> choice(const BoundStep& bound);      // round_rows, sample, keep_*, accept; two dispatches fetch what waits
std::vector<Dispatch> tower(const BoundStep& bound);       // what else towers have

// A choice of experts keeps one simdgroup busy for each row, and the device waits. So in a round it goes together with the
// product that stands before it in the segment, where it need not wait for that: both steps are one dispatch.
bool goes_with_last(const graph::Segment& segment, std::size_t i);
Dispatch linear_route(const BoundStep& linear, const BoundStep& route);

inline constexpr int kRunsInFlight = 4;     // places in the ring of runs

// What the host says about a run: once in the ring for each run that may be in flight, once where recorded commands read it.
struct RunPlaces {
  Slice run;     // layout::Run
  Slice rows;    // layout::Row [chunk rows]
  Slice masks;   // uint32 [verify rows, words]
  Slice biases;  // layout::LogitBias [seats, layout::kBiasesMax]
};

// Copies it from its place in the ring to where recorded commands read it.
Dispatch begin_run(const RunPlaces& from, const RunPlaces& to);

// As kernels have them: function constants. How K/V are stored, and how many components of a key where the others are made from values.
Constant kv_code_constant(const BoundStep& bound);
Constant kv_turned_constant(const BoundStep& bound);

// Bytes of BoundStep::scratch for so many rows of a round and ranges; for all steps of a program up to its longest context.
std::size_t attention_scratch_bytes(const graph::Dims& dims, int rows, int kv_ranges);
std::size_t attention_scratch_bytes(const link::Program& program);

// All that a kernel binds but for matrices, as the table of ops says: params, run, rows, states, inputs, outputs, vectors, extras,
// constants, K/V. Every argument needs memory: one that the step does without is its first output, or input.
std::vector<Binding> bindings_of(const BoundStep& bound);

}  // namespace lapidary::gpu
