// Compute command encoders, and the passes that say when to take the time.
#pragma once

#include <Metal/Metal.hpp>

#include "metal/counters.hpp"
#include "metal/queue.hpp"

namespace softmetal {

struct Encoder : Implements<Encoder, MTL::ComputeCommandEncoder> {
  Ref<NS::String> label;

  Encoder(CommandBuffer& commands, MTL::DispatchType type, const PassDescriptor* pass);
  ~Encoder();

  void set_pipeline(const MTL::ComputePipelineState* pipeline);
  void set_buffer(const MTL::Buffer* buffer, NS::UInteger offset, NS::UInteger index);
  void set_buffers(const MTL::Buffer* const buffers[], const NS::UInteger offsets[], NS::Range range);
  void set_buffer_offset(NS::UInteger offset, NS::UInteger index);
  void set_bytes(const void* bytes, NS::UInteger length, NS::UInteger index);
  void set_threadgroup_memory(NS::UInteger length, NS::UInteger index);
  void dispatch_threadgroups(MTL::Size groups, MTL::Size threads);
  void dispatch_threads(MTL::Size grid, MTL::Size threads);
  void execute_commands(const MTL::IndirectCommandBuffer* commands, NS::Range range);
  void memory_barrier(MTL::BarrierScope scope);
  void memory_barrier_of(const MTL::Resource* const resources[], NS::UInteger count);
  void use_resource(const MTL::Resource* resource, MTL::ResourceUsage usage);
  void use_resources(const MTL::Resource* const resources[], NS::UInteger count, MTL::ResourceUsage usage);
  void use_heap(const MTL::Heap* heap);
  void use_heaps(const MTL::Heap* const heaps[], NS::UInteger count);
  void sample_counters(const MTL::CounterSampleBuffer* buffer, NS::UInteger index, bool barrier);
  void push_debug_group(const NS::String* name);
  void pop_debug_group();
  void insert_debug_signpost(const NS::String* name);
  void end_encoding();
  MTL::DispatchType dispatch_type() const { return type_; }
  MTL::Device* device() const;

 private:
  void must_be_open() const;
  void encode(Command command);
  void dispatch(const Grid& grid);
  void make_resident(const void* object);

  Ref<MTL::CommandBuffer> owner_;
  CommandBuffer& commands_;
  MTL::DispatchType type_;
  Bindings bindings_;
  std::shared_ptr<Residents> residents_ = std::make_shared<Residents>();
  std::vector<Command> at_end_;
  int debug_groups_ = 0;
  bool ended_ = false;
};

void register_encoder();

}  // namespace softmetal
