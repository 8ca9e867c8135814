#include "metal/indirect.hpp"

#include "metal/device.hpp"

namespace softmetal {
namespace {

void check_resident(const Bindings& bindings, const Residents& of_encoder, const Residents& of_queue) {
  const auto is_resident = [&](const void* object) { return of_encoder.contains(object) || of_queue.contains(object); };
  for (const BoundBuffer& bound : bindings.buffers) {
    if (!bound.buffer || is_resident(bound.buffer)) continue;
    if (bound.buffer->heap && is_resident(bound.buffer->heap.get())) continue;
    fail(std::string("an indirect command of ") + (bindings.pipeline ? bindings.pipeline->kernel().name : "no pipeline") +
         " uses " + bound.buffer->name() + ", which is not resident: useResource:usage:, useHeap: or a residency set");
  }
}

}  // namespace

void IndirectCommand::change(const char* what) const {
  if (owner->in_flight > 0) fail(std::string(what) + " while a committed command buffer replays the command");
}

void IndirectCommand::set_pipeline(const MTL::ComputePipelineState* pipeline) {
  change("setComputePipelineState:");
  if (owner->inherit_pipeline) fail("setComputePipelineState: where indirect commands inherit it");
  const Pipeline* given = as<Pipeline>(pipeline);
  if (!given->indirect) fail(std::string("pipeline of ") + given->kernel().name + " lacks supportIndirectCommandBuffers");
  bindings.pipeline = as<Pipeline>(pipeline);
}

void IndirectCommand::set_buffer(const MTL::Buffer* buffer, NS::UInteger offset, NS::UInteger index) {
  change("setKernelBuffer:offset:atIndex:");
  if (owner->inherit_buffers) fail("setKernelBuffer:offset:atIndex: where indirect commands inherit buffers");
  if (index >= owner->max_buffers)
    fail("kernel buffer index " + std::to_string(index) + ", maxKernelBufferBindCount is " +
         std::to_string(owner->max_buffers));
  bindings.set_buffer(as<Buffer>(buffer), offset, index);
}

void IndirectCommand::set_threadgroup_memory(NS::UInteger length, NS::UInteger index) {
  change("setThreadgroupMemoryLength:atIndex:");
  if (index >= owner->max_threadgroup_memory)
    fail("threadgroup memory index " + std::to_string(index) + ", maxKernelThreadgroupMemoryBindCount is " +
         std::to_string(owner->max_threadgroup_memory));
  bindings.set_threadgroup_bytes(length, index);
}

void IndirectCommand::dispatch(const Grid& given, MTL::IndirectCommandType type, const char* name) {
  change(name);
  if (!(owner->command_types & type))
    fail(std::string(name) + " is not among the command types of the indirect command buffer");
  grid = given;
  encoded = true;
}

void IndirectCommand::dispatch_threadgroups(MTL::Size groups, MTL::Size threads) {
  dispatch({groups, threads, false}, MTL::IndirectCommandTypeConcurrentDispatch, "concurrentDispatchThreadgroups");
}
void IndirectCommand::dispatch_threads(MTL::Size size, MTL::Size threads) {
  dispatch({size, threads, true}, MTL::IndirectCommandTypeConcurrentDispatchThreads, "concurrentDispatchThreads");
}

// A barrier belongs to what is encoded after it.
void IndirectCommand::set_barrier() {
  change("setBarrier");
  if (encoded) fail("setBarrier after the dispatch is encoded");
  barrier = true;
}
void IndirectCommand::clear_barrier() {
  change("clearBarrier");
  if (encoded) fail("clearBarrier after the dispatch is encoded");
  barrier = false;
}

void IndirectCommand::reset() {
  change("reset");
  bindings = {};
  encoded = barrier = false;
}

IndirectCommandBuffer::IndirectCommandBuffer(const IndirectDescriptor& descriptor, NS::UInteger count)
    : command_types(descriptor.command_types),
      inherit_buffers(descriptor.inherit_buffers),
      inherit_pipeline(descriptor.inherit_pipeline),
      max_buffers(descriptor.max_buffers),
      max_threadgroup_memory(descriptor.max_threadgroup_memory) {
  for (NS::UInteger i = 0; i < count; ++i) {
    commands.push_back(new IndirectCommand);
    commands.back()->owner = this;
  }
}

IndirectCommandBuffer::~IndirectCommandBuffer() {
  for (const IndirectCommand* command : commands) release(command);
}

MTL::IndirectComputeCommand* IndirectCommandBuffer::command(NS::UInteger index) {
  if (index >= commands.size())
    fail("indirect command " + std::to_string(index) + " of " + std::to_string(commands.size()));
  return api(commands[index]);
}

void IndirectCommandBuffer::check_range(NS::Range range) const {
  if (range.location + range.length > commands.size())
    fail("indirect commands " + std::to_string(range.location) + " to " + std::to_string(range.location + range.length) +
         " of " + std::to_string(commands.size()));
}

void IndirectCommandBuffer::reset(NS::Range range) {
  check_range(range);
  for (NS::UInteger i = 0; i < range.length; ++i) commands[range.location + i]->reset();
}

MTL::Device* IndirectCommandBuffer::device() const { return the_device(); }

// A barrier orders a command after the ones before it in the replay. What the encoder did earlier needs a barrier of the
// encoder.
void IndirectCommandBuffer::play(NS::Range range, const Bindings& inherited, Playback& playback,
                                 const std::shared_ptr<const Residents>& residents) const {
  bool first = true;
  for (NS::UInteger i = 0; i < range.length; ++i) {
    const IndirectCommand& command = *commands[range.location + i];
    if (!command.encoded) continue;
    if (command.barrier && !first) playback.barrier();
    first = false;
    Bindings bindings = command.bindings;
    check_resident(bindings, *residents, playback.residents());
    if (inherit_pipeline) bindings.pipeline = inherited.pipeline;
    if (inherit_buffers) bindings.buffers = inherited.buffers;
    playback.add(bindings, command.grid, residents);
  }
}

void register_indirect() {
  using Descriptor = IndirectDescriptor;
  ClassOf<Descriptor>("MTLIndirectCommandBufferDescriptor")
      .allocatable()
      .getter<&Descriptor::command_types>(&MTL::IndirectCommandBufferDescriptor::commandTypes, "commandTypes")
      .setter<&Descriptor::command_types>(&MTL::IndirectCommandBufferDescriptor::setCommandTypes, "setCommandTypes:")
      .getter<&Descriptor::inherit_buffers>(&MTL::IndirectCommandBufferDescriptor::inheritBuffers, "inheritBuffers")
      .setter<&Descriptor::inherit_buffers>(&MTL::IndirectCommandBufferDescriptor::setInheritBuffers, "setInheritBuffers:")
      .getter<&Descriptor::inherit_pipeline>(&MTL::IndirectCommandBufferDescriptor::inheritPipelineState,
                                             "inheritPipelineState")
      .setter<&Descriptor::inherit_pipeline>(&MTL::IndirectCommandBufferDescriptor::setInheritPipelineState,
                                             "setInheritPipelineState:")
      .getter<&Descriptor::max_buffers>(&MTL::IndirectCommandBufferDescriptor::maxKernelBufferBindCount,
                                        "maxKernelBufferBindCount")
      .setter<&Descriptor::max_buffers>(&MTL::IndirectCommandBufferDescriptor::setMaxKernelBufferBindCount,
                                        "setMaxKernelBufferBindCount:")
      .getter<&Descriptor::max_threadgroup_memory>(
          &MTL::IndirectCommandBufferDescriptor::maxKernelThreadgroupMemoryBindCount, "maxKernelThreadgroupMemoryBindCount")
      .setter<&Descriptor::max_threadgroup_memory>(
          &MTL::IndirectCommandBufferDescriptor::setMaxKernelThreadgroupMemoryBindCount,
          "setMaxKernelThreadgroupMemoryBindCount:");
  ClassOf<IndirectCommandBuffer>("MTLIndirectCommandBuffer")
      .label()
      .method<&IndirectCommandBuffer::command>(&MTL::IndirectCommandBuffer::indirectComputeCommand,
                                               "indirectComputeCommandAtIndex:")
      .method<&IndirectCommandBuffer::size>(&MTL::IndirectCommandBuffer::size, "size")
      .method<&IndirectCommandBuffer::reset>(&MTL::IndirectCommandBuffer::reset, "resetWithRange:")
      .method<&IndirectCommandBuffer::device>(&MTL::IndirectCommandBuffer::device, "device");
  using Api = MTL::IndirectComputeCommand;
  ClassOf<IndirectCommand>("MTLIndirectComputeCommand")
      .method<&IndirectCommand::set_pipeline>(&Api::setComputePipelineState, "setComputePipelineState:")
      .method<&IndirectCommand::set_buffer>(&Api::setKernelBuffer, "setKernelBuffer:offset:atIndex:")
      .method<&IndirectCommand::set_threadgroup_memory>(&Api::setThreadgroupMemoryLength,
                                                        "setThreadgroupMemoryLength:atIndex:")
      .method<&IndirectCommand::dispatch_threadgroups>(&Api::concurrentDispatchThreadgroups,
                                                       "concurrentDispatchThreadgroups:threadsPerThreadgroup:")
      .method<&IndirectCommand::dispatch_threads>(&Api::concurrentDispatchThreads,
                                                  "concurrentDispatchThreads:threadsPerThreadgroup:")
      .method<&IndirectCommand::set_barrier>(&Api::setBarrier, "setBarrier")
      .method<&IndirectCommand::clear_barrier>(&Api::clearBarrier, "clearBarrier")
      .method<&IndirectCommand::reset>(&Api::reset, "reset");
}

}  // namespace softmetal
