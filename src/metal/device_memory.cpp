#include "metal/device_memory.hpp"

#include <algorithm>
#include <cstring>

#include "checkpoint/error.hpp"
#include "metal/executor.hpp"
#include "metal/tower.hpp"

namespace lapidary::metal {
namespace {

struct Size {
  Slice DeviceMemory::*slice;
  std::size_t bytes;
  const char* label;
};

std::size_t mask_words_of(const link::Program& program) { return (static_cast<std::size_t>(program.graph->shape.vocab) + 31) / 32; }

std::vector<Size> sizes_of(const link::Program& program) {
  const link::MemoryPlan& plan = program.plan;
  const auto sessions = static_cast<std::size_t>(plan.sessions), vocab = static_cast<std::size_t>(program.graph->shape.vocab);
  return {{&DeviceMemory::arena, plan.arena_bytes, "arena"},
          {&DeviceMemory::kv, plan.kv_bytes, "K/V"},
          {&DeviceMemory::params, step_count(*program.graph) * DeviceMemory::kParamsStride, "steps"},
          {&DeviceMemory::states, sessions * sizeof(layout::RoundState), "round states"},
          {&DeviceMemory::results, kRunsInFlight * layout::kSeatsMax * sizeof(layout::RoundResult), "round results"},
          {&DeviceMemory::counts, sessions * vocab * sizeof(std::int32_t), "token counts"},
          {&DeviceMemory::draft_row, sizeof(layout::Row), "draft row"},
          {&DeviceMemory::pending_rows, program.dflash ? layout::kPendingRows * sizeof(layout::Row) : 0, "rows that wait"},
          {&DeviceMemory::block_rows, program.dflash ? 2 * layout::kRowsMax * sizeof(layout::Row) : 0, "block rows"},
          {&DeviceMemory::scratch, attention_scratch_bytes(program), "attention scratch"}};
}

struct RunSize {
  Slice RunPlaces::*slice;
  std::size_t bytes;
  const char* label;
};

std::vector<RunSize> run_sizes_of(const link::Program& program) {
  const link::MemoryPlan& plan = program.plan;
  const auto rows = static_cast<std::size_t>(plan.row_capacity);
  return {{&RunPlaces::run, sizeof(layout::Run), "run"},
          {&RunPlaces::rows, rows * sizeof(layout::Row), "row table"},
          {&RunPlaces::masks, static_cast<std::size_t>(plan.verify_rows) * mask_words_of(program) * sizeof(std::uint32_t), "masks"},
          {&RunPlaces::biases, layout::kSeatsMax * layout::kBiasesMax * sizeof(layout::LogitBias), "logit biases"}};
}

}  // namespace

std::size_t step_count(const graph::Graph& graph) {
  std::size_t count = 0;
  for (const graph::Segment& segment : graph.segments) count += segment.steps.size();
  return count;
}

std::size_t room_bytes(const link::Program& program) {
  std::size_t bytes = 0;
  for (const Size& size : sizes_of(program))
    if (size.slice != &DeviceMemory::arena && size.slice != &DeviceMemory::kv) bytes += size.bytes;
  for (const RunSize& size : run_sizes_of(program)) bytes += size.bytes * (1 + kRunsInFlight);
  return bytes + tower_room_bytes(program) + program.plan.constants_bytes;  // norms and orders once more, where the device reads them
}

DeviceMemory::DeviceMemory(const Gpu& gpu, const link::Program& program) : mask_words_(mask_words_of(program)) {
  const Pool pool;
  struct Wanted {
    Slice& slice;
    std::size_t bytes;
    const char* label;
  };
  std::vector<Wanted> wanted;
  for (const Size& size : sizes_of(program)) wanted.push_back({this->*size.slice, size.bytes, size.label});
  for (const RunSize& size : run_sizes_of(program)) {
    wanted.push_back({now.*size.slice, size.bytes, size.label});
    for (RunPlaces& places : ring) wanted.push_back({places.*size.slice, size.bytes, size.label});
  }

  std::size_t total_bytes = 0;
  for (Wanted& one : wanted) {
    one.bytes = std::max<std::size_t>(one.bytes, 16);
    const MTL::SizeAndAlign size = gpu.device()->heapBufferSizeAndAlign(one.bytes, MTL::ResourceStorageModeShared);
    total_bytes = (total_bytes + size.align - 1) / size.align * size.align + size.size;
  }
  const auto descriptor = NS::TransferPtr(MTL::HeapDescriptor::alloc()->init());
  descriptor->setSize(total_bytes);
  descriptor->setStorageMode(MTL::StorageModeShared);
  heap_ = NS::TransferPtr(gpu.device()->newHeap(descriptor.get()));
  if (!heap_) fail(ErrorKind::out_of_memory, "metal", "heap, expected " + std::to_string(total_bytes) + " bytes, got none");
  heap_->setLabel(text_of("lapidary"));
  for (const Wanted& one : wanted) {
    auto buffer = NS::TransferPtr(heap_->newBuffer(one.bytes, MTL::ResourceStorageModeShared));
    if (!buffer)
      fail(ErrorKind::out_of_memory, "metal", std::string(one.label) + ", expected " + std::to_string(one.bytes) + " bytes of the heap, got none");
    buffer->setLabel(text_of(one.label));
    one.slice = {buffer.get(), 0};
    buffers_.push_back(std::move(buffer));
  }
  for (const Slice& slice : {states, counts, draft_row, now.run})
    std::memset(buffer_of(slice)->contents(), 0, buffer_of(slice)->length());
}

}  // namespace lapidary::metal
