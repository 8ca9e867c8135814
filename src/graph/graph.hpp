// A graph: everything about a model that is known before its weights are, as constexpr tables. Written by
// tools/codegen, bound to a checkpoint by src/link, replayed by a backend. Plain structs, no behaviour.
//
// A backend records each segment once: a step names its op, its row set, the buffers and weights it binds, and the earlier
// steps of the segment it must wait for.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "graph/dims.hpp"
#include "graph/op_table.hpp"
#include "graph/shape.hpp"

namespace lapidary::graph {

inline constexpr std::int32_t kTile = 64;           // attention walks keys in tiles of this many absolute positions
inline constexpr std::int32_t kMaxVerifyRows = 8;   // K = k + 1 rows of a round

using BufferId = std::int16_t;  // into Segment::buffers
using WeightId = std::int16_t;  // into Graph::weights
inline constexpr std::int16_t kNone = -1;

// Which rows of the row table a step works on.
enum class RowSet : std::uint8_t {
  chunk,   // all rows of a prompt chunk
  last,    // the output window of a prompt chunk: the rows whose logits are wanted
  verify,  // all rows of a round
  draft,   // a row for each session that makes a draft
};

// A buffer holds `row_bytes` for each row, from one row_stride() to the next. Row r lies at region + offset * capacity +
// r * stride, where the capacity (rows) of a region is decided at load.
enum class Region : std::uint8_t {
  rows,     // r = number of the row in the row table
  outputs,  // r = number of the row in the output window
  draft,    // r = number of the session among those that draft; shares its memory with `rows`
  session,  // one row for each session slot, beside its K/V
};
inline constexpr int kRegionCount = 4;

struct Buffer {
  std::string_view name;
  Region region = Region::rows;
  std::int64_t row_bytes = 0;
  std::int64_t offset = 0;  // bytes per row of capacity
};

constexpr std::int64_t row_stride(std::int64_t row_bytes) { return (row_bytes + 63) / 64 * 64; }  // rows begin on cache lines
constexpr std::int64_t row_stride(const Buffer& buffer) { return row_stride(buffer.row_bytes); }

enum class WeightClass : std::uint8_t {
  embedding,         // [rows, cols]: looked up by row, for some also the output matrix
  matrix,            // [rows, cols]
  experts,           // [experts, rows, cols]
  vector,            // [cols]: norms and scales
  ids,               // [cols] int32: an order of tokens
};

// Whose checkpoint holds a weight.
enum class Owner : std::uint8_t { target, assistant };

// A weight by its canonical name: that of the Hugging Face text model without its prefix, experts split into gate_proj,
// up_proj and down_proj.
struct WeightSlot {
  std::string_view name;  // "layers.3.self_attn.q_proj"; vectors carry their full name
  Owner owner = Owner::target;
  WeightClass kind = WeightClass::matrix;
  std::int32_t experts = 0;
  std::int32_t rows = 0;
  std::int32_t cols = 0;
};

inline constexpr std::int16_t kOutsideLayers = -1;

struct Step {
  Op op = Op::embed;
  RowSet rows = RowSet::chunk;
  std::int16_t layer = kOutsideLayers;
  std::array<BufferId, 4> in{kNone, kNone, kNone, kNone};
  std::array<BufferId, 4> out{kNone, kNone, kNone, kNone};
  std::array<WeightId, 5> weights{kNone, kNone, kNone, kNone, kNone};
  std::int16_t constants = kNone;          // into Graph::constants
  std::int16_t tap = kNone;                // layer whose final residual stream lies in out[0] after this step
  Dims dims{};
  std::span<const std::int16_t> after{};   // earlier steps of the segment this one waits for, transitively reduced
};

constexpr bool reads_kv(const Step& step) { return info_of(step.op).kv == Kv::reads; }  // those of dims.kv_layer
constexpr bool writes_kv(const Step& step) { return info_of(step.op).kv == Kv::writes && step.dims.owns_kv; }

// prefill: a prompt chunk; layers that own K/V for all rows, the rest for the output window only.
// prefill_all: a prompt chunk with every layer for every row (`lapidary logits`).
// draft: one more draft by the assistant; empty in a graph without one. forward: the rows of a round, the bonus token and k
// drafts. head: residual stream of the output window -> hidden, logits. select: logits -> tokens, how many drafts they accept.
// Composed as prefill + head + select, prefill_all + head per window, k times draft + forward + head + select.
enum class SegmentId : std::uint8_t { prefill, prefill_all, draft, forward, head, select };
inline constexpr int kSegmentCount = 6;
std::string_view name_of(SegmentId id);

struct Segment {
  std::span<const Buffer> buffers{};
  std::span<const Step> steps{};
  std::array<std::int64_t, kRegionCount> region_bytes{};  // per row of capacity

  constexpr std::int64_t bytes(Region region) const { return region_bytes[static_cast<std::size_t>(region)]; }
};

struct Graph {
  std::string_view name;
  Shape shape;
  const AssistantShape* assistant = nullptr;
  std::int32_t chunk_max = 0;   // rows of the largest prompt chunk
  std::int32_t verify_max = 0;  // Kmax: rows of the widest round
  std::span<const WeightSlot> weights{};
  std::span<const std::span<const float>> constants{};
  std::array<Segment, kSegmentCount> segments{};

  constexpr const Segment& segment(SegmentId id) const { return segments[static_cast<std::size_t>(id)]; }
};

// The buffers that outlive a segment lie at the same place in all of them, under these ids.
inline constexpr BufferId kResidual = 0;  // rows:    [hidden] float32, the residual stream
inline constexpr BufferId kHidden = 1;    // outputs: [hidden] float32, after the final norm
inline constexpr BufferId kLogits = 2;    // outputs: [vocab] float32
inline constexpr BufferId kNext = 3;      // outputs: [1] int32, the chosen token
inline constexpr BufferId kCarry = 4;     // session: [hidden] float32, what the next draft continues from
inline constexpr BufferId kLastPinned = kCarry;

// The graphs compiled into this program; defined by the generated registry.
std::span<const Graph* const> compiled_graphs();

}  // namespace lapidary::graph
