// The steps of a program with the memory that they work on: what is decided once, at load.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "cpu/instructions.hpp"
#include "cpu/kv_cache_coded.hpp"
#include "cpu/linear_q8.hpp"
#include "cpu/pages.hpp"
#include "cpu/team.hpp"
#include "link/kv.hpp"
#include "link/link.hpp"

namespace lapidary::cpu {

// A buffer where it lies in the arena.
struct BoundOperand {
  std::byte* data = nullptr;
  std::size_t row_bytes = 0, stride_bytes = 0;
  graph::Region region = graph::Region::rows;
};

struct CpuStep {
  const graph::Step* step = nullptr;
  std::array<BoundOperand, 4> in{}, out{};
  std::array<const link::Matrix*, 3> matrices{};  // the matrices among the weights, in order
  int matrix_count = 0;
  std::array<const float*, 5> vectors{};          // by position in Step::weights
  std::array<const std::int32_t*, 5> ids{};       // likewise
  std::span<const float> constants{};
  const link::KvCache* cache = nullptr;           // of float32,
  const link::KvCacheBf16* cache_bf16 = nullptr;  // of bfloat16 or
  const KvCacheCoded* cache_coded = nullptr;      // of codes
  bool q8 = false;
  std::array<Q8Matrix, 3> q8_matrices{};          // as `matrices`
  bool has_maxima = false;                        // sample: of its logits, by the step that computed them

  std::span<const Q8Matrix> products() const { return std::span(q8_matrices).first(static_cast<std::size_t>(matrix_count)); }
};

// Bytes of copies of scales, where they were not prepared, and writing them for later programs.
std::size_t repacked_bytes(const link::Program& program, const Instructions& instructions);
void prepare_scales(const link::Program& program, const Instructions& instructions, std::span<std::byte> out);

class BoundSteps {
 public:
  // Allocates what is planned; the team repacks scales. `program` must outlive it.
  BoundSteps(const link::Program& program, const Instructions& instructions, Team& team);

  std::span<const CpuStep> of(graph::SegmentId id) const { return segments_[static_cast<std::size_t>(id)]; }
  BoundOperand bind(const graph::Segment& segment, graph::BufferId id) const;
  const Q8Room& room(int thread) const { return thread_rooms_[static_cast<std::size_t>(thread)]; }
  std::byte* kv() const { return kv_.data(); }
  // K and V of one position as stored; k, v: [head_dim]
  void read_kv(int slot, int layer, int kv_head, int position, std::span<float> k, std::span<float> v) const;

 private:
  void prepare_memory();
  void lay_out_caches();
  void repack_scales(Team& team);
  void lay_out_rooms();
  void record(graph::SegmentId id, bool& finds_maxima);

  const link::Program& program_;
  const Instructions& instructions_;
  Pages arena_, kv_;
  Pages scales_, rooms_;
  std::vector<Q8Matrix> q8_matrices_;                                   // by WeightId
  std::vector<Q8Room> thread_rooms_;
  std::vector<link::KvCache> caches_;                                   // by layer, of the kind that it has
  std::vector<link::KvCacheBf16> caches_bf16_;
  std::vector<KvCacheCoded> caches_coded_;
  std::array<std::vector<CpuStep>, graph::kSegmentCount> segments_{};
};

}  // namespace lapidary::cpu
