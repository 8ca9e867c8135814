// How much memory a graph needs, known before any of it is allocated.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "graph/graph.hpp"
#include "link/backend.hpp"
#include "link/kv.hpp"
#include "link/numeric.hpp"

namespace lapidary::link {

// Sessions whose drafts the assistant makes together: each has two rows of the round at least.
inline constexpr int kMaxDrafters = graph::kMaxVerifyRows / 2;

struct Options {
  const Backend* backend = nullptr;              // who runs the graph; null = the first there is
  BackendOptions backend_options{};
  std::int32_t context_tokens = 0;               // 0 = kDefaultContext, or less where the model ends earlier
  std::int32_t chunk_rows = 0;                   // 0 = the graph's chunk_max, or more where images need it
  std::int32_t image_tokens = 0;                 // soft tokens of the largest image to come: what its tower works in is planned for it, and a
                                                 // chunk has the whole of it where the model looks ahead; 0 = as large as any
  std::int32_t sessions = 1;
  int threads = 1;
  Numeric numeric = Numeric::exact;
  const KvFormat* kv = nullptr;                  // null = the one of the numeric mode
  std::optional<std::size_t> memory_limit_bytes = std::nullopt;  // cap on anonymous memory
};

inline constexpr std::int32_t kDefaultContext = 4096;

// Where a layer's K/V lie inside a session's block: [kv head][ring slot] of each store.
struct KvPlacement {
  std::int32_t capacity = 0;      // positions; 0 = the layer owns no K/V
  std::int32_t kv_heads = 0;
  std::int32_t head_dim = 0;
  KvStores stores{};
  std::size_t k_offset_bytes = 0;
  std::size_t v_offset_bytes = 0;
};

struct MemoryPlan {
  std::int32_t context_tokens = 0;
  std::int32_t chunk_rows = 0;
  std::int32_t verify_rows = 0;
  std::int32_t sessions = 0;
  std::int32_t image_tokens = 0;      // soft tokens of the largest image; 0 = the model does not see
  int threads = 0;
  std::int32_t row_capacity = 0;      // of the regions that have a row for each of a run
  std::vector<KvPlacement> kv;        // by layer; those of the DFlash drafter come behind the target's
  KvFormat kv_format{};
  std::size_t session_bytes = 0;      // one session: the target's K/V, its carried hidden row, then what the DFlash drafter has
  std::size_t carry_offset_bytes = 0;
  std::size_t dflash_offset_bytes = 0;  // K/V of the DFlash drafter; session_bytes where there is none
  std::size_t pending_offset_bytes = 0;  // its features that wait
  std::size_t output_region_bytes = 0;  // the arena begins with it, the rows region follows, then the features
  std::size_t features_offset_bytes = 0;

  std::size_t weights_mapped_bytes = 0;  // bytes of the bound tensors, in the page cache
  std::size_t kv_bytes = 0;              // reserved for the whole context, committed by use
  std::size_t arena_bytes = 0;
  std::size_t tower_bytes = 0;           // what towers work in, one after the other: reserved for the largest input, committed by use
  std::size_t constants_bytes = 0;       // norms and scales widened to float32, orders of tokens as int32
  std::size_t repacked_bytes = 0;        // weights that the backend reads in another order or at other addresses
  std::size_t room_bytes = 0;            // what the backend works in, beside the arena
  std::size_t text_bytes = 0;            // tokenizer, grammars' vocabulary, index of repetitions: whoever has them counts them
  std::size_t kv_bytes_per_token = 0;    // of layers that keep every position
  std::size_t kv_full_bytes = 0;         // of these, in all sessions; the other K/V are windows
  std::optional<std::size_t> limit_bytes{};  // on what is anonymous
  std::size_t target_layers = 0;             // of those in `kv`

  std::span<const KvPlacement> target_kv() const { return std::span(kv).first(target_layers); }
  std::span<const KvPlacement> dflash_kv() const { return std::span(kv).subspan(target_layers); }

  // Of the largest input of a tower.
  std::int32_t max_rows(const graph::Tower& tower) const {
    return tower.sense == graph::Sense::vision ? image_tokens * tower.vision.pool * tower.vision.pool : tower.max_rows;
  }

  std::size_t anonymous_bytes() const {
    return kv_bytes + arena_bytes + tower_bytes + constants_bytes + repacked_bytes + room_bytes + text_bytes;
  }
};

// Which of the graph's drafters there are.
struct Drafters {
  bool assistant = false, dflash = false;

  bool has(graph::Owner owner) const {  // the weights of
    return owner == graph::Owner::assistant ? assistant : owner == graph::Owner::dflash ? dflash : true;
  }
  bool runs(graph::SegmentId id) const {
    return id == graph::SegmentId::draft ? assistant : id >= graph::SegmentId::extend ? dflash : true;
  }
};

// Everything but the weights: those are added while binding. `max_positions` is the longest context the checkpoint allows.
MemoryPlan plan_memory(const graph::Graph& graph, std::int32_t max_positions, Drafters drafters, const Options& options);

// Refuses a plan above its limit.
void check_limit(const MemoryPlan& plan);

}  // namespace lapidary::link
