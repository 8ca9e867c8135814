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
#include "graph/tower_shape.hpp"

namespace lapidary::graph {

inline constexpr std::int32_t kTile = 64;           // attention walks keys in tiles of this many absolute positions
inline constexpr std::int32_t kMaxVerifyRows = 8;   // K = k + 1 rows of a round
inline constexpr std::int32_t kNoLimit = 1 << 30;   // a window that ends nowhere: attention that looks ahead and sees everything

using BufferId = std::int16_t;  // into Segment::buffers
using WeightId = std::int16_t;  // into Graph::weights
inline constexpr std::int16_t kNone = -1;

// Which rows of the row table a step works on.
enum class RowSet : std::uint8_t {
  chunk,   // all rows of a prompt chunk
  last,    // the output window of a prompt chunk: the rows whose logits are wanted
  verify,  // all rows of a round
  draft,   // a row for each session that makes a draft
  // of the DFlash drafter:
  pending,       // those of a session's rounds that it has no context of yet
  block,         // the bonus token of each session that it drafts for, and a mask for each draft: they see all of their block
  block_causal,  // the same, where they see only those before them
  // of a tower:
  percept,    // what it takes: patches of a picture, frames of a sound
  halved,     // every second frame
  soft,       // its soft tokens
  distances,  // of the frames that one sees: 0 to the window's last
};

// A buffer holds `row_bytes` for each row, from one row_stride() to the next. Row r lies at region + offset * capacity +
// r * stride, where the capacity (rows) of a region is decided at load.
enum class Region : std::uint8_t {
  rows,     // r = number of the row in the row table
  outputs,  // r = number of the row in the output window
  draft,    // r = number of the session among those that draft; shares its memory with `rows`
  session,  // one row for each session slot, beside its K/V
  given,    // of a tower: what it is given and what is wanted of it, the caller's memory
  features, // r = number of the row in the row table; there is such a region only where the DFlash drafter is
};
inline constexpr int kRegionCount = 6;

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
  kernel,            // [inputs, outputs] of a convolution; widened like a vector
  ids,               // [cols] int32: an order of tokens
};
constexpr bool is_matrix(WeightClass kind) { return kind <= WeightClass::experts; }

// Whose weight it is. Drafters have checkpoints of their own; the towers' lie in their target's and are bound when they are first used.
enum class Owner : std::uint8_t { target, assistant, dflash, vision, audio };
constexpr bool is_tower(Owner owner) { return owner == Owner::vision || owner == Owner::audio; }
constexpr Owner owner_of(Sense sense) { return sense == Sense::vision ? Owner::vision : Owner::audio; }

// A weight by its canonical name: that of the Hugging Face text model without its prefix, experts split into gate_proj,
// up_proj and down_proj. Those of towers are named from vision_tower, audio_tower, vision_embedder, embed_vision or embed_audio on.
struct WeightSlot {
  std::string_view name;  // "layers.3.self_attn.q_proj"; vectors carry their full name
  Owner owner = Owner::target;
  WeightClass kind = WeightClass::matrix;
  bool clipped = false;   // a matrix with bounds: its products are clamp(w clamp(x)), by four numbers that lie beside it
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
  std::uint16_t first_wait = 0, wait_count = 0;  // of Segment::waits
  const Dims* dims = nullptr;              // steps of several layers and segments share them
};

constexpr bool reads_kv(const Step& step) { return info_of(step.op).kv == Kv::reads; }  // those of dims.kv_layer
constexpr bool writes_kv(const Step& step) { return info_of(step.op).kv == Kv::writes && step.dims->owns_kv; }

// prefill: a prompt chunk; layers that own K/V for all rows, the rest for the output window only.
// prefill_all: a prompt chunk with every layer for every row (`lapidary logits`).
// draft: one more draft by the assistant; empty in a graph without one. forward: the rows of a round, the bonus token and k
// drafts. head: residual stream of the output window -> hidden, logits. select: logits -> tokens, how many drafts they accept.
// extend: the DFlash drafter's K/V of a prompt chunk, from what was tapped of the target's layers. catch_up: the same for the rows of
// a session's rounds that wait for it. block: all drafts of a round at once. Empty in a graph without that drafter.
// Composed as prefill + extend + head + select, prefill_all + extend + head per window, k times draft + forward + head + select,
// catch_up + block + forward + head + select.
enum class SegmentId : std::uint8_t { prefill, prefill_all, draft, forward, head, select, extend, catch_up, block };
inline constexpr int kSegmentCount = 9;
std::string_view name_of(SegmentId id);

struct Segment {
  std::span<const Buffer> buffers{};
  std::span<const Step> steps{};
  std::span<const std::int16_t> waits{};                  // of all steps, one after the other
  std::array<std::int64_t, kRegionCount> region_bytes{};  // per row of capacity

  // The earlier steps that one waits for, transitively reduced.
  constexpr std::span<const std::int16_t> waits_of(const Step& step) const { return waits.subspan(step.first_wait, step.wait_count); }

  constexpr std::int64_t bytes(Region region) const { return region_bytes[static_cast<std::size_t>(region)]; }
};

// What makes soft tokens of a picture or of a sound, one at a time. All its buffers have as many rows, those of its input.
struct Tower {
  Sense sense{};
  VisionShape vision{};           // of one that sees,
  AudioShape audio{};             // of one that hears
  std::int32_t input_width = 0;   // of a row that it takes: a patch or a frame
  std::int32_t tower_width = 0;   // of a row before the projector; 0 = there is nothing before it
  std::int32_t soft_width = 0;    // of a soft token: hidden of the text model
  std::int32_t max_rows = 0;      // of the largest input
  Segment segment{};

  // Of a picture of so many rows and columns of patches, of a sound of so many frames.
  constexpr std::int32_t soft_tokens(std::int32_t rows, std::int32_t columns) const {
    if (sense == Sense::vision) return (rows / vision.pool) * (columns / vision.pool);
    return audio.layer_count ? halved(halved(rows)) : rows;
  }
  // That its buffers must hold for an input of so many.
  constexpr std::int32_t buffer_rows(std::int32_t rows) const { return rows > audio.window ? rows : audio.window; }
  static constexpr std::int32_t halved(std::int32_t rows) { return (rows - 1) / 2 + 1; }
};

struct Graph {
  std::string_view name;
  Shape shape;
  const AssistantShape* assistant = nullptr;
  const DFlashShape* dflash = nullptr;
  std::int32_t chunk_max = 0;   // rows of the largest prompt chunk
  std::int32_t verify_max = 0;  // Kmax: rows of the widest round
  std::span<const WeightSlot> weights{};
  std::span<const std::span<const float>> constants{};
  std::array<Segment, kSegmentCount> segments{};
  std::span<const Tower> towers{};  // at most one for each sense

  constexpr const Segment& segment(SegmentId id) const { return segments[static_cast<std::size_t>(id)]; }
  constexpr const Buffer& pinned(BufferId id) const { return segments[0].buffers[static_cast<std::size_t>(id)]; }
  constexpr const Tower* tower(Sense sense) const {
    for (const Tower& one : towers)
      if (one.sense == sense) return &one;
    return nullptr;
  }
};

// The buffers that outlive a segment lie at the same place in all of them, under these ids.
inline constexpr BufferId kResidual = 0;  // rows:    [hidden] float32, the residual stream
inline constexpr BufferId kHidden = 1;    // outputs: [hidden] float32, after the final norm
inline constexpr BufferId kLogits = 2;    // outputs: [vocab] float32
inline constexpr BufferId kNext = 3;      // outputs: [1] int32, the chosen token
inline constexpr BufferId kCarry = 4;     // session: [hidden] float32, what the next draft continues from
inline constexpr BufferId kFeatures = 5;  // features: [taps * hidden] float32, outputs of the layers that the DFlash drafter taps
inline constexpr BufferId kPending = 6;   // session: [kPendingRows][taps * hidden] float32, those of accepted rows; position p at p % kPendingRows
inline constexpr BufferId kLastPinned = kPending;
inline constexpr std::int32_t kPendingRows = 64;

// In a tower's segment these ids stand for what the caller gives.
inline constexpr BufferId kPercept = 0;      // [input width] float32, what it takes
inline constexpr BufferId kTowerRows = 1;    // [tower width] float32, before the projector
inline constexpr BufferId kSoft = 2;         // [soft width] float32, the soft tokens
inline constexpr BufferId kLastTowerPinned = kSoft;

// The graphs compiled into this program; defined by the generated registry.
std::span<const Graph* const> compiled_graphs();

}  // namespace lapidary::graph
