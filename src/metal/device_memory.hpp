// Everything on the device that is not a weight, in one heap: the arena, K/V, the steps' parameters, the state of the rounds and what
// the host says about a run.
#pragma once

#include "link/link.hpp"
#include "metal/gpu.hpp"

namespace lapidary::metal {

class DeviceMemory {
 public:
  DeviceMemory(const Gpu& gpu, const link::Program& program);

  Slice arena, kv;
  Slice params;                        // layout::Step, one each kParamsStride
  Slice states;                        // layout::RoundState by session slot
  Slice results;                       // layout::RoundResult [places in the ring of runs, seats]
  Slice counts;                        // int32 [sessions, vocab]
  Slice draft_row;                     // layout::Row
  Slice pending_rows;                  // layout::Row [layout::kPendingRows]
  Slice block_rows;                    // layout::Row [2, verify rows]: all of a block visible, only what is before
  Slice scratch;                       // of attention over long contexts
  RunPlaces now;
  std::array<RunPlaces, kRunsInFlight> ring;

  static constexpr std::size_t kParamsStride = (sizeof(layout::Step) + 255) / 256 * 256;

  MTL::Heap* heap() const { return heap_.get(); }
  std::size_t mask_words() const { return mask_words_; }

 private:
  Owned<MTL::Heap> heap_;
  std::vector<Owned<MTL::Buffer>> buffers_;
  std::size_t mask_words_ = 0;
};

// Steps of all segments: each has a place for its parameters.
std::size_t step_count(const graph::Graph& graph);

template <class T>
T* contents(const Slice& slice) {
  return reinterpret_cast<T*>(static_cast<std::byte*>(buffer_of(slice)->contents()) + slice.offset_bytes);
}

}  // namespace lapidary::metal
