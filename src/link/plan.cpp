#include "link/plan.hpp"

#include <algorithm>
#include <string>

#include "checkpoint/error.hpp"
#include "numeric/kv_codes.hpp"

namespace lapidary::link {
namespace {

constexpr std::size_t kPageBytes = 4096;

template <class T>
T round_up(T value, T step) { return (value + step - 1) / step * step; }

void check_range(const char* flag, std::int32_t value, std::int32_t most) {
  if (value < 1 || value > most)
    fail(ErrorKind::usage, flag, "expected 1 to " + std::to_string(most) + ", got " + std::to_string(value));
}

// The one that was asked for, where this model and mode can have it.
const KvFormat& kv_format_for(const graph::Shape& shape, const Options& options) {
  const KvFormat& usual = kv_format_of(options.numeric);
  if (!options.kv || *options.kv == usual) return usual;
  if (!is_coded(options.kv->values))
    fail(ErrorKind::usage, "--kv", "K/V in the " + std::string(name_of(options.numeric)) + " mode, expected " + std::string(usual.name) +
                                       ", q8 or q4, got " + std::string(options.kv->name));
  for (const graph::LayerShape& layer : shape.each_layer())
    if (layer.kind == graph::LayerKind::full && !numeric::can_be_coded(layer.head_dim))
      fail(ErrorKind::usage, "--kv", "head size for " + std::string(options.kv->name) + ", expected a power of two from " +
                                         std::to_string(numeric::kMinCoded) + " to " + std::to_string(numeric::kMaxCoded) + ", got " +
                                         std::to_string(layer.head_dim));
  return *options.kv;
}

}  // namespace

MemoryPlan plan_memory(const graph::Graph& graph, std::int32_t max_positions, Drafters drafters, const Options& options) {
  const graph::Shape& shape = graph.shape;
  MemoryPlan plan;
  plan.context_tokens = options.context_tokens ? options.context_tokens : std::min(kDefaultContext, max_positions);
  const std::int32_t most_rows = std::max(graph.chunk_max, shape.bidirectional_images ? options.image_tokens : 0);
  plan.chunk_rows = options.chunk_rows ? options.chunk_rows : most_rows;
  plan.verify_rows = graph.verify_max;
  plan.row_capacity = std::max({plan.chunk_rows, plan.verify_rows, drafters.dflash ? graph::kPendingRows : 0});
  plan.sessions = options.sessions;
  plan.threads = options.threads;
  plan.limit_bytes = options.memory_limit_bytes;
  check_range("context", plan.context_tokens, max_positions);
  check_range("chunk", plan.chunk_rows, most_rows);

  // A ring holds the window and all that a chunk or two rounds may write before it is read. Its size is a whole number of
  // tiles, so that a tile of positions is one run of ring slots.
  const std::int32_t everything = round_up(plan.context_tokens, graph::kTile);
  const auto ring_of = [&](std::int32_t window) {
    return std::min(everything, round_up(window + std::max(plan.chunk_rows, 2 * plan.verify_rows), graph::kTile));
  };
  const KvFormat& numbers = kv_format_of(options.numeric);
  plan.kv_format = kv_format_for(shape, options);
  const auto place = [&](KvPlacement& kv) {
    const auto heads = static_cast<std::size_t>(kv.kv_heads), positions = static_cast<std::size_t>(kv.capacity);
    kv.k_offset_bytes = plan.session_bytes;
    kv.v_offset_bytes = kv.k_offset_bytes + heads * positions * kv.stores.key_bytes();
    plan.session_bytes = kv.v_offset_bytes + heads * positions * kv.stores.value_bytes();
  };
  for (int l = 0; l < shape.layer_count; ++l) {
    const graph::LayerShape& layer = shape.layers[l];
    KvPlacement& kv = plan.kv.emplace_back();
    if (layer.kv_layer != l) continue;
    const bool full = layer.kind == graph::LayerKind::full;
    kv = {.capacity = full ? everything : ring_of(shape.window), .kv_heads = layer.kv_heads, .head_dim = layer.head_dim,
          .stores = kv_stores(shape, layer, plan.kv_format, numbers)};
    place(kv);
    if (full) plan.kv_bytes_per_token += static_cast<std::size_t>(layer.kv_heads) * (kv.stores.key_bytes() + kv.stores.value_bytes());
  }
  plan.target_layers = plan.kv.size();
  plan.kv_full_bytes = plan.kv_bytes_per_token * static_cast<std::size_t>(everything) * static_cast<std::size_t>(plan.sessions);
  plan.carry_offset_bytes = plan.session_bytes;
  plan.session_bytes = round_up(plan.session_bytes + static_cast<std::size_t>(row_stride(graph.pinned(graph::kCarry))), kPageBytes);
  plan.dflash_offset_bytes = plan.session_bytes;
  if (drafters.dflash) {
    const graph::DFlashShape& dflash = *graph.dflash;
    for (const graph::DFlashLayer& layer : dflash.each_layer()) {
      // What the target's windows keep, these do.
      const bool full = layer.kind == graph::LayerKind::full;
      place(plan.kv.emplace_back(KvPlacement{.capacity = full ? everything : ring_of(std::max(shape.window, dflash.window)),
                                             .kv_heads = dflash.kv_heads, .head_dim = dflash.head_dim,
                                             .stores = {.key_code = numbers.keys, .value_code = numbers.values,
                                                        .keys = dflash.head_dim, .values = dflash.head_dim}}));
    }
    plan.pending_offset_bytes = plan.session_bytes;
    plan.session_bytes = round_up(plan.session_bytes + static_cast<std::size_t>(row_stride(graph.pinned(graph::kPending))), kPageBytes);
  }
  plan.kv_bytes = plan.session_bytes * plan.sessions;

  const auto row_capacity = static_cast<std::size_t>(plan.row_capacity);
  std::size_t row_region_bytes = 0;
  for (int id = 0; id < graph::kSegmentCount; ++id) {
    if (!drafters.runs(static_cast<graph::SegmentId>(id))) continue;
    const graph::Segment& segment = graph.segments[static_cast<std::size_t>(id)];
    plan.output_region_bytes =
        std::max<std::size_t>(plan.output_region_bytes, segment.bytes(graph::Region::outputs) * plan.verify_rows);
    row_region_bytes = std::max<std::size_t>({row_region_bytes, segment.bytes(graph::Region::rows) * row_capacity,
                                              static_cast<std::size_t>(segment.bytes(graph::Region::draft)) * kMaxDrafters});
  }
  plan.output_region_bytes = round_up(plan.output_region_bytes, kPageBytes);
  plan.features_offset_bytes = plan.output_region_bytes + round_up(row_region_bytes, kPageBytes);
  const std::size_t feature_bytes = drafters.dflash ? static_cast<std::size_t>(row_stride(graph.pinned(graph::kFeatures))) : 0;
  plan.arena_bytes = plan.features_offset_bytes + round_up(feature_bytes * row_capacity, kPageBytes);

  if (const graph::Tower* eye = graph.tower(graph::Sense::vision)) {
    const std::int32_t most = eye->max_rows / (eye->vision.pool * eye->vision.pool);
    plan.image_tokens = options.image_tokens ? std::min(options.image_tokens, most) : most;
  }
  for (const graph::Tower& tower : graph.towers) {
    const auto rows = static_cast<std::size_t>(tower.buffer_rows(plan.max_rows(tower)));
    plan.tower_bytes = std::max(plan.tower_bytes, round_up(rows * static_cast<std::size_t>(tower.segment.bytes(graph::Region::rows)), kPageBytes));
  }
  for (const graph::WeightSlot& slot : graph.weights) {
    if (!drafters.has(slot.owner)) continue;
    if (slot.kind == graph::WeightClass::vector || slot.kind == graph::WeightClass::kernel)
      plan.constants_bytes += std::size_t(slot.rows) * slot.cols * sizeof(float);
    if (slot.kind == graph::WeightClass::ids) plan.constants_bytes += slot.cols * sizeof(std::int32_t);
  }
  return plan;
}

void check_limit(const MemoryPlan& plan) {
  if (!plan.limit_bytes || plan.anonymous_bytes() <= *plan.limit_bytes) return;
  fail(ErrorKind::out_of_memory, "memory",
       "the plan needs more than allowed, expected at most " + std::to_string(*plan.limit_bytes) + " bytes, got " +
           std::to_string(plan.anonymous_bytes()) + " (K/V " + std::to_string(plan.kv_bytes) + ", arena " +
           std::to_string(plan.arena_bytes) + ", towers " + std::to_string(plan.tower_bytes) + ", constants " + std::to_string(plan.constants_bytes) + ", repacked " +
           std::to_string(plan.repacked_bytes) + ", threads " + std::to_string(plan.room_bytes) + ", text " +
           std::to_string(plan.text_bytes) +
           "); a shorter context or a smaller chunk needs less");
}

}  // namespace lapidary::link
