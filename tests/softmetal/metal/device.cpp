#include "metal/device.hpp"

#include <cstring>

#include "metal/capture.hpp"
#include "metal/counters.hpp"
#include "metal/encoder.hpp"
#include "metal/indirect.hpp"
#include "metal/library.hpp"
#include "metal/memory.hpp"
#include "metal/pipeline.hpp"
#include "metal/queue.hpp"

namespace softmetal {
namespace {

struct Device : Implements<Device, MTL::Device> {
  NS::String* name() const { return string_of("software Metal"); }
  bool has_unified_memory() const { return true; }
  NS::UInteger max_buffer_length() const { return kMaxBufferBytes; }
  NS::UInteger max_threadgroup_memory() const { return kThreadgroupBytes; }
  MTL::Size max_threads() const { return MTL::Size(kMaxThreads, kMaxThreads, kMaxThreads); }
  std::uint64_t max_working_set() const { return std::uint64_t{1} << 36; }
  std::uint64_t registry_id() const { return 1; }
  bool supports_family(MTL::GPUFamily family) {
    const bool apple = family >= MTL::GPUFamilyApple1 && family < MTL::GPUFamilyApple1 + settings().family;
    const bool common = family >= MTL::GPUFamilyCommon1 && family <= MTL::GPUFamilyCommon3;
    return apple || common || family == MTL::GPUFamilyMac2 || family == MTL::GPUFamilyMetal3;
  }
  bool supports_sampling(MTL::CounterSamplingPoint point) { return point == MTL::CounterSamplingPointAtStageBoundary; }
  MTL::SizeAndAlign heap_buffer_size(NS::UInteger length, MTL::ResourceOptions) {
    return {(length + kHeapAlignment - 1) / kHeapAlignment * kHeapAlignment, kHeapAlignment};
  }
  void sample_timestamps(MTL::Timestamp* cpu, MTL::Timestamp* gpu) { *cpu = *gpu = timestamp_ns(); }

  MTL::Buffer* new_buffer_of_length(NS::UInteger length, MTL::ResourceOptions options) {
    return api(new_buffer(length, options));
  }
  MTL::Buffer* new_buffer_of_bytes(const void* bytes, NS::UInteger length, MTL::ResourceOptions options) {
    if (options & MTL::ResourceStorageModePrivate) fail("newBufferWithBytes: in private storage");
    Buffer* buffer = new_buffer(length, options);
    if (buffer) std::memcpy(buffer->data, bytes, length);
    return api(buffer);
  }
  MTL::Buffer* new_buffer_over(const void* memory, NS::UInteger length, MTL::ResourceOptions options,
                               void (^deallocator)(void*, NS::UInteger)) {
    return api(new_buffer_no_copy(memory, length, options, deallocator));
  }
  MTL::Heap* new_heap(const MTL::HeapDescriptor* descriptor) {
    const HeapDescriptor& wanted = *as<HeapDescriptor>(descriptor);
    if (wanted.size == 0) fail("a heap of no bytes");
    return api(new Heap(wanted));
  }
  MTL::ResidencySet* new_residency_set(const MTL::ResidencySetDescriptor* descriptor, NS::Error**) {
    auto* set = new ResidencySet;
    set->label = as<ResidencySetDescriptor>(descriptor)->label;
    return api(set);
  }
  MTL::CommandQueue* new_queue() { return api(new Queue); }
  MTL::CommandQueue* new_queue_of(NS::UInteger) { return api(new Queue); }
  MTL::SharedEvent* new_shared_event() { return api(new Event); }
  MTL::Event* new_event() { return api(new Event); }
  MTL::Library* new_library(const NS::String* source, const MTL::CompileOptions* options, NS::Error** error) {
    return library_from_source(text_of(source), options ? as<CompileOptions>(options) : nullptr, error);
  }
  MTL::Library* new_library_of_file(const NS::URL* url, NS::Error** error) {
    return library_from_file(as<Url>(url)->path, error);
  }
  MTL::ComputePipelineState* new_pipeline_of_function(const MTL::Function* function, NS::Error**) {
    return api(new_pipeline(function));
  }
  MTL::ComputePipelineState* new_pipeline_of_descriptor(const MTL::ComputePipelineDescriptor* descriptor,
                                                        MTL::PipelineOption options,
                                                        const MTL::AutoreleasedComputePipelineReflection*,
                                                        NS::Error** error) {
    return api(new_pipeline(*as<PipelineDescriptor>(descriptor), options, error));
  }
  MTL::BinaryArchive* new_archive(const MTL::BinaryArchiveDescriptor* descriptor, NS::Error** error) {
    return api(new_binary_archive(*as<BinaryArchiveDescriptor>(descriptor), error));
  }
  MTL::IndirectCommandBuffer* new_indirect_commands(const MTL::IndirectCommandBufferDescriptor* descriptor,
                                                    NS::UInteger count, MTL::ResourceOptions) {
    const IndirectDescriptor& wanted = *as<IndirectDescriptor>(descriptor);
    constexpr NS::UInteger kMaxCommands = 16384;
    if (count == 0 || count > kMaxCommands)
      fail("an indirect command buffer of " + std::to_string(count) + " commands, expected 1 to 16384");
    if (wanted.max_buffers > kMaxBuffers || wanted.max_threadgroup_memory > kMaxThreadgroupArguments)
      fail("an indirect command buffer for more arguments than there are");
    return api(new IndirectCommandBuffer(wanted, count));
  }
  NS::Array* counter_sets() const { return softmetal::counter_sets(); }
  MTL::CounterSampleBuffer* new_counter_samples(const MTL::CounterSampleBufferDescriptor* descriptor, NS::Error** error) {
    return api(new_sample_buffer(*as<CounterSampleDescriptor>(descriptor), error));
  }
};

// Before the statics of the program, which look up classes.
__attribute__((constructor)) void register_all() {
  register_foundation();
  register_pool();
  register_memory();
  register_library();
  register_pipeline();
  register_queue();
  register_encoder();
  register_indirect();
  register_counters();
  register_capture();
  register_device();
}

}  // namespace

MTL::Device* the_device() {
  static Device* const only = new Device;
  return api(only);
}

void register_device() {
  ClassOf<Device>("MTLDevice")
      .method<&Device::name>(&MTL::Device::name, "name")
      .method<&Device::has_unified_memory>(&MTL::Device::hasUnifiedMemory, "hasUnifiedMemory")
      .method<&Device::max_buffer_length>(&MTL::Device::maxBufferLength, "maxBufferLength")
      .method<&Device::max_threadgroup_memory>(&MTL::Device::maxThreadgroupMemoryLength, "maxThreadgroupMemoryLength")
      .method<&Device::max_threads>(&MTL::Device::maxThreadsPerThreadgroup, "maxThreadsPerThreadgroup")
      .method<&Device::max_working_set>(&MTL::Device::recommendedMaxWorkingSetSize, "recommendedMaxWorkingSetSize")
      .method<&Device::registry_id>(&MTL::Device::registryID, "registryID")
      .method<&Device::supports_family>(&MTL::Device::supportsFamily, "supportsFamily:")
      .method<&Device::supports_sampling>(&MTL::Device::supportsCounterSampling, "supportsCounterSampling:")
      .method<&Device::heap_buffer_size>(&MTL::Device::heapBufferSizeAndAlign, "heapBufferSizeAndAlignWithLength:options:")
      .method<&Device::sample_timestamps>(&MTL::Device::sampleTimestamps, "sampleTimestamps:gpuTimestamp:")
      .method<&Device::new_buffer_of_length>(&MTL::Device::newBuffer, "newBufferWithLength:options:")
      .method<&Device::new_buffer_of_bytes>(&MTL::Device::newBuffer, "newBufferWithBytes:length:options:")
      .method<&Device::new_buffer_over>(&MTL::Device::newBuffer, "newBufferWithBytesNoCopy:length:options:deallocator:")
      .method<&Device::new_heap>(&MTL::Device::newHeap, "newHeapWithDescriptor:")
      .method<&Device::new_residency_set>(&MTL::Device::newResidencySet, "newResidencySetWithDescriptor:error:")
      .method<&Device::new_queue>(&MTL::Device::newCommandQueue, "newCommandQueue")
      .method<&Device::new_queue_of>(&MTL::Device::newCommandQueue, "newCommandQueueWithMaxCommandBufferCount:")
      .method<&Device::new_shared_event>(&MTL::Device::newSharedEvent, "newSharedEvent")
      .method<&Device::new_event>(&MTL::Device::newEvent, "newEvent")
      .method<&Device::new_library>(&MTL::Device::newLibrary, "newLibraryWithSource:options:error:")
      .method<&Device::new_library_of_file>(&MTL::Device::newLibrary, "newLibraryWithURL:error:")
      .method<&Device::new_pipeline_of_function>(&MTL::Device::newComputePipelineState,
                                                 "newComputePipelineStateWithFunction:error:")
      .method<&Device::new_pipeline_of_descriptor>(&MTL::Device::newComputePipelineState,
                                                   "newComputePipelineStateWithDescriptor:options:reflection:error:")
      .method<&Device::new_archive>(&MTL::Device::newBinaryArchive, "newBinaryArchiveWithDescriptor:error:")
      .method<&Device::new_indirect_commands>(&MTL::Device::newIndirectCommandBuffer,
                                              "newIndirectCommandBufferWithDescriptor:maxCommandCount:options:")
      .method<&Device::counter_sets>(&MTL::Device::counterSets, "counterSets")
      .method<&Device::new_counter_samples>(&MTL::Device::newCounterSampleBuffer,
                                            "newCounterSampleBufferWithDescriptor:error:");
}

}  // namespace softmetal

extern "C" {

// The host owns a reference, as of everything that is created.
MTL::Device* MTLCreateSystemDefaultDevice() {
  softmetal::retain(softmetal::the_device());
  return softmetal::the_device();
}

NS::Array* MTLCopyAllDevices() { return nullptr; }
NS::Array* MTLCopyAllDevicesWithObserver(NS::Object**, MTL::DeviceNotificationHandlerBlock) { return nullptr; }
void MTLRemoveDeviceObserver(const NS::Object*) {}
}
