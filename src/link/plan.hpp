// How much memory a graph needs, known before any of it is allocated.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
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
  std::int32_t image_tokens = 0;                 // soft tokens of the largest image to come; a chunk has the whole of it where the model looks ahead
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
  KvStores stores{};
  std::size_t k_offset_bytes = 0;
  std::size_t v_offset_bytes = 0;
};

struct MemoryPlan {
  std::int32_t context_tokens = 0;
  std::int32_t chunk_rows = 0;
  std::int32_t verify_rows = 0;
  std::int32_t sessions = 0;
  int threads = 0;
  std::vector<KvPlacement> kv;        // by layer
  KvFormat kv_format{};
  std::size_t session_bytes = 0;      // one session: its K/V, then its carried hidden row
  std::size_t carry_offset_bytes = 0;
  std::size_t output_region_bytes = 0;  // the arena begins with it, the rows region follows

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

  std::size_t anonymous_bytes() const {
    return kv_bytes + arena_bytes + tower_bytes + constants_bytes + repacked_bytes + room_bytes + text_bytes;
  }
};

// Everything but the weights: those are added while binding. `max_positions` is the longest context the checkpoint allows;
// `drafting`: the graph's assistant is there too.
MemoryPlan plan_memory(const graph::Graph& graph, std::int32_t max_positions, bool drafting, const Options& options);

// Refuses a plan above its limit.
void check_limit(const MemoryPlan& plan);

}  // namespace lapidary::link
