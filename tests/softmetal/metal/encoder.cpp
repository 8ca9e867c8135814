#include "metal/encoder.hpp"

#include "metal/device.hpp"
#include "metal/indirect.hpp"

namespace softmetal {

Encoder::Encoder(CommandBuffer& commands, MTL::DispatchType type, const PassDescriptor* pass)
    : owner_(api(&commands)), commands_(commands), type_(type) {
  commands_.encoding = true;
  encode([](Playback& playback) { playback.begin_pass(); });
  if (!pass) return;
  for (const PassSample& sample : samples_of(*pass)) {
    commands_.keep(sample.buffer);
    encode([sample](Playback&) { sample.buffer->take(sample.start); });
    at_end_.push_back([sample](Playback& playback) {
      playback.barrier();  // all of the pass has run
      sample.buffer->take(sample.end);
    });
  }
}

Encoder::~Encoder() {
  if (!ended_) fail("a compute encoder is freed without endEncoding");
}

void Encoder::must_be_open() const {
  if (ended_) fail("a message to a compute encoder after endEncoding");
}

void Encoder::encode(Command command) { commands_.commands.push_back(std::move(command)); }

void Encoder::set_pipeline(const MTL::ComputePipelineState* pipeline) {
  must_be_open();
  commands_.keep(pipeline);
  bindings_.pipeline = as<Pipeline>(pipeline);
}

void Encoder::set_buffer(const MTL::Buffer* buffer, NS::UInteger offset, NS::UInteger index) {
  must_be_open();
  commands_.keep(buffer);
  bindings_.set_buffer(as<Buffer>(buffer), offset, index);
}

void Encoder::set_buffers(const MTL::Buffer* const buffers[], const NS::UInteger offsets[], NS::Range range) {
  for (NS::UInteger i = 0; i < range.length; ++i) set_buffer(buffers[i], offsets[i], range.location + i);
}

void Encoder::set_buffer_offset(NS::UInteger offset, NS::UInteger index) {
  must_be_open();
  bindings_.set_offset(offset, index);
}

void Encoder::set_bytes(const void* bytes, NS::UInteger length, NS::UInteger index) {
  must_be_open();
  bindings_.set_bytes(bytes, length, index);
}

void Encoder::set_threadgroup_memory(NS::UInteger length, NS::UInteger index) {
  must_be_open();
  bindings_.set_threadgroup_bytes(length, index);
}

void Encoder::dispatch(const Grid& grid) {
  must_be_open();
  check(bindings_, grid);
  const bool serial = type_ == MTL::DispatchTypeSerial;
  // Buffers bound here are resident without being named.
  encode([bindings = bindings_, grid, serial, residents = residents_](Playback& playback) {
    if (serial) playback.barrier();
    playback.add(bindings, grid, residents);
    if (serial) playback.barrier();
  });
}

// Families before the M3 want an empty dispatch of pipelines that they meet in indirect commands.
void Encoder::dispatch_threadgroups(MTL::Size groups, MTL::Size threads) {
  if (settings().family < 9 && groups.width + groups.height + groups.depth == 0) return;
  dispatch({groups, threads, false});
}
void Encoder::dispatch_threads(MTL::Size grid, MTL::Size threads) { dispatch({grid, threads, true}); }

void Encoder::execute_commands(const MTL::IndirectCommandBuffer* commands, NS::Range range) {
  must_be_open();
  commands_.keep(commands);
  auto* indirect = as<IndirectCommandBuffer>(commands);
  indirect->check_range(range);
  commands_.at_commit.push_back([indirect] { ++indirect->in_flight; });
  commands_.at_end.push_back([indirect] { --indirect->in_flight; });
  const bool serial = type_ == MTL::DispatchTypeSerial;
  encode([indirect, range, inherited = bindings_, serial, residents = residents_](Playback& playback) {
    if (serial) playback.barrier();
    indirect->play(range, inherited, playback, residents);
    if (serial) playback.barrier();
  });
}

void Encoder::memory_barrier(MTL::BarrierScope scope) {
  must_be_open();
  if (scope & MTL::BarrierScopeBuffers) encode([](Playback& playback) { playback.barrier(); });
}

void Encoder::memory_barrier_of(const MTL::Resource* const[], NS::UInteger) {
  must_be_open();
  encode([](Playback& playback) { playback.barrier(); });
}

void Encoder::make_resident(const void* object) {
  must_be_open();
  commands_.keep(object);
  // What is encoded already keeps the set it had.
  if (!residents_->contains(object)) {
    residents_ = std::make_shared<Residents>(*residents_);
    residents_->insert(object);
  }
}

void Encoder::use_resource(const MTL::Resource* resource, MTL::ResourceUsage usage) {
  if (usage == 0) fail("useResource:usage: without a usage");
  make_resident(resource);
}
void Encoder::use_resources(const MTL::Resource* const resources[], NS::UInteger count, MTL::ResourceUsage usage) {
  for (NS::UInteger i = 0; i < count; ++i) use_resource(resources[i], usage);
}
void Encoder::use_heap(const MTL::Heap* heap) { make_resident(heap); }
void Encoder::use_heaps(const MTL::Heap* const heaps[], NS::UInteger count) {
  for (NS::UInteger i = 0; i < count; ++i) make_resident(heaps[i]);
}

void Encoder::sample_counters(const MTL::CounterSampleBuffer*, NS::UInteger, bool) {
  fail("sampleCountersInBuffer: between dispatches; Apple's devices take samples where an encoder begins and ends");
}

void Encoder::push_debug_group(const NS::String*) {
  must_be_open();
  ++debug_groups_;
}
void Encoder::pop_debug_group() {
  must_be_open();
  if (debug_groups_-- == 0) fail("popDebugGroup without a pushDebugGroup:");
}
void Encoder::insert_debug_signpost(const NS::String*) { must_be_open(); }

void Encoder::end_encoding() {
  if (ended_) fail("endEncoding twice");
  if (debug_groups_ != 0) fail("endEncoding with a debug group still open");
  for (Command& command : at_end_) encode(std::move(command));
  ended_ = true;
  commands_.encoding = false;
}

MTL::Device* Encoder::device() const { return the_device(); }

void register_encoder() {
  using Api = MTL::ComputeCommandEncoder;
  ClassOf<Encoder>("MTLComputeCommandEncoder")
      .label()
      .method<&Encoder::set_pipeline>(&Api::setComputePipelineState, "setComputePipelineState:")
      .method<&Encoder::set_buffer>(&Api::setBuffer, "setBuffer:offset:atIndex:")
      .method<&Encoder::set_buffers>(&Api::setBuffers, "setBuffers:offsets:withRange:")
      .method<&Encoder::set_buffer_offset>(&Api::setBufferOffset, "setBufferOffset:atIndex:")
      .method<&Encoder::set_bytes>(&Api::setBytes, "setBytes:length:atIndex:")
      .method<&Encoder::set_threadgroup_memory>(&Api::setThreadgroupMemoryLength, "setThreadgroupMemoryLength:atIndex:")
      .method<&Encoder::dispatch_threadgroups>(&Api::dispatchThreadgroups, "dispatchThreadgroups:threadsPerThreadgroup:")
      .method<&Encoder::dispatch_threads>(&Api::dispatchThreads, "dispatchThreads:threadsPerThreadgroup:")
      .method<&Encoder::execute_commands>(&Api::executeCommandsInBuffer, "executeCommandsInBuffer:withRange:")
      .method<&Encoder::memory_barrier>(&Api::memoryBarrier, "memoryBarrierWithScope:")
      .method<&Encoder::memory_barrier_of>(&Api::memoryBarrier, "memoryBarrierWithResources:count:")
      .method<&Encoder::use_resource>(&Api::useResource, "useResource:usage:")
      .method<&Encoder::use_resources>(&Api::useResources, "useResources:count:usage:")
      .method<&Encoder::use_heap>(&Api::useHeap, "useHeap:")
      .method<&Encoder::use_heaps>(&Api::useHeaps, "useHeaps:count:")
      .method<&Encoder::sample_counters>(&Api::sampleCountersInBuffer, "sampleCountersInBuffer:atSampleIndex:withBarrier:")
      .method<&Encoder::push_debug_group>(&Api::pushDebugGroup, "pushDebugGroup:")
      .method<&Encoder::pop_debug_group>(&Api::popDebugGroup, "popDebugGroup")
      .method<&Encoder::insert_debug_signpost>(&Api::insertDebugSignpost, "insertDebugSignpost:")
      .method<&Encoder::end_encoding>(&Api::endEncoding, "endEncoding")
      .method<&Encoder::dispatch_type>(&Api::dispatchType, "dispatchType")
      .method<&Encoder::device>(&Api::device, "device");
}

}  // namespace softmetal
