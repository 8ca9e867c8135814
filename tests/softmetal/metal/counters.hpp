// Counters: the time, taken where an encoder begins and ends, as Apple's devices do it.
#pragma once

#include <Metal/Metal.hpp>

#include <atomic>
#include <memory>

#include "runtime/foundation.hpp"

namespace softmetal {

struct Counter : Implements<Counter, MTL::Counter> {
  NS::String* name() const;
};

struct CounterSet : Implements<CounterSet, MTL::CounterSet> {
  NS::String* name() const;
  NS::Array* counters() const;
};

struct CounterSampleDescriptor : Implements<CounterSampleDescriptor, MTL::CounterSampleBufferDescriptor> {
  Ref<NS::String> label;
  Ref<MTL::CounterSet> counter_set;
  NS::UInteger sample_count = 0;
  MTL::StorageMode storage_mode = MTL::StorageModePrivate;
};

struct CounterSampleBuffer : Implements<CounterSampleBuffer, MTL::CounterSampleBuffer> {
  Ref<NS::String> label;
  std::vector<std::atomic<std::uint64_t>> samples;  // in ns

  explicit CounterSampleBuffer(NS::UInteger count);
  NS::UInteger sample_count() const { return samples.size(); }
  NS::Data* resolve(NS::Range range);
  MTL::Device* device() const;

  void take(NS::UInteger index);  // unless it is MTL::CounterDontSample
};

struct PassAttachment : Implements<PassAttachment, MTL::ComputePassSampleBufferAttachmentDescriptor> {
  Ref<MTL::CounterSampleBuffer> sample_buffer;
  NS::UInteger start_index = 0, end_index = 1;
};

struct PassAttachments : Implements<PassAttachments, MTL::ComputePassSampleBufferAttachmentDescriptorArray> {
  static constexpr NS::UInteger kCount = 4;
  Ref<MTL::ComputePassSampleBufferAttachmentDescriptor> attachments[kCount];

  PassAttachments();
  MTL::ComputePassSampleBufferAttachmentDescriptor* object(NS::UInteger index);
  void set_object(const MTL::ComputePassSampleBufferAttachmentDescriptor* attachment, NS::UInteger index);
};

struct PassDescriptor : Implements<PassDescriptor, MTL::ComputePassDescriptor> {
  MTL::DispatchType dispatch_type = MTL::DispatchTypeSerial;
  Ref<MTL::ComputePassSampleBufferAttachmentDescriptorArray> attachments;

  PassDescriptor();
  static MTL::ComputePassDescriptor* make();
};

struct PassSample {
  CounterSampleBuffer* buffer;
  NS::UInteger start, end;
};
std::vector<PassSample> samples_of(const PassDescriptor& pass);

NS::Array* counter_sets();
CounterSampleBuffer* new_sample_buffer(const CounterSampleDescriptor& descriptor, NS::Error** error);
std::uint64_t timestamp_ns();

void register_counters();

}  // namespace softmetal
