// Indirect command buffers: dispatches encoded once and replayed.
#pragma once

#include <Metal/Metal.hpp>

#include <atomic>

#include "metal/queue.hpp"

namespace softmetal {

struct IndirectDescriptor : Implements<IndirectDescriptor, MTL::IndirectCommandBufferDescriptor> {
  MTL::IndirectCommandType command_types = 0;
  bool inherit_buffers = true, inherit_pipeline = true;
  NS::UInteger max_buffers = 0, max_threadgroup_memory = 0;
};

struct IndirectCommandBuffer;

// Holds what it names no longer than the host does, as in Metal.
struct IndirectCommand : Implements<IndirectCommand, MTL::IndirectComputeCommand> {
  IndirectCommandBuffer* owner = nullptr;
  Bindings bindings;
  Grid grid;
  bool encoded = false, barrier = false;

  void set_pipeline(const MTL::ComputePipelineState* pipeline);
  void set_buffer(const MTL::Buffer* buffer, NS::UInteger offset, NS::UInteger index);
  void set_threadgroup_memory(NS::UInteger length, NS::UInteger index);
  void dispatch_threadgroups(MTL::Size groups, MTL::Size threads);
  void dispatch_threads(MTL::Size grid, MTL::Size threads);
  void set_barrier();
  void clear_barrier();
  void reset();

 private:
  void change(const char* what) const;
  void dispatch(const Grid& grid, MTL::IndirectCommandType type, const char* name);
};

struct IndirectCommandBuffer : Implements<IndirectCommandBuffer, MTL::IndirectCommandBuffer> {
  Ref<NS::String> label;
  MTL::IndirectCommandType command_types = 0;
  bool inherit_buffers = true, inherit_pipeline = true;
  NS::UInteger max_buffers = 0, max_threadgroup_memory = 0;
  std::vector<IndirectCommand*> commands;
  std::atomic<int> in_flight{0};  // committed command buffers that replay it

  IndirectCommandBuffer(const IndirectDescriptor& descriptor, NS::UInteger count);
  ~IndirectCommandBuffer();

  MTL::IndirectComputeCommand* command(NS::UInteger index);
  NS::UInteger size() const { return commands.size(); }
  void reset(NS::Range range);
  MTL::Device* device() const;

  void check_range(NS::Range range) const;
  void play(NS::Range range, const Bindings& inherited, Playback& playback,
            const std::shared_ptr<const Residents>& residents) const;
};

void register_indirect();

}  // namespace softmetal
