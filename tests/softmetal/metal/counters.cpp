#include "metal/counters.hpp"

#include <chrono>
#include <cstring>

#include "metal/device.hpp"

// metal-cpp looks these up by name when the program starts.
extern "C" {
extern NS::String* const MTLCommonCounterTimestamp;
extern NS::String* const MTLCommonCounterSetTimestamp;
NS::String* const MTLCommonCounterTimestamp = MTLSTR("GPUTimestamp");
NS::String* const MTLCommonCounterSetTimestamp = MTLSTR("timestamp");
}

namespace softmetal {
namespace {

constexpr NS::UInteger kMaxSamples = 4096;  // 32 KiB, what Apple's devices take

// An array that owns what was just made.
template <class T>
Ref<typename T::Api> owned(T* object) {
  Ref<typename T::Api> reference(api(object));
  release(object);
  return reference;
}

}  // namespace

std::uint64_t timestamp_ns() {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count());
}

NS::String* Counter::name() const { return MTLCommonCounterTimestamp; }
NS::String* CounterSet::name() const { return MTLCommonCounterSetTimestamp; }
NS::Array* CounterSet::counters() const { return array_of({owned(new Counter).get()}); }

NS::Array* counter_sets() {
  static const Ref<MTL::CounterSet>* const only = new Ref<MTL::CounterSet>(owned(new CounterSet));
  return array_of({only->get()});
}

CounterSampleBuffer::CounterSampleBuffer(NS::UInteger count) : samples(count) {
  for (auto& sample : samples) sample = MTL::CounterErrorValue;
}

void CounterSampleBuffer::take(NS::UInteger index) {
  if (index != MTL::CounterDontSample) samples[index] = timestamp_ns();
}

NS::Data* CounterSampleBuffer::resolve(NS::Range range) {
  if (range.location + range.length > samples.size()) fail("resolveCounterRange: beyond the samples there are");
  auto* data = new Data;
  data->bytes.resize(range.length * sizeof(MTL::CounterResultTimestamp));
  for (NS::UInteger i = 0; i < range.length; ++i) {
    const MTL::CounterResultTimestamp result{samples[range.location + i]};
    std::memcpy(data->bytes.data() + i * sizeof result, &result, sizeof result);
  }
  return autoreleased(data);
}

MTL::Device* CounterSampleBuffer::device() const { return the_device(); }

CounterSampleBuffer* new_sample_buffer(const CounterSampleDescriptor& descriptor, NS::Error** error) {
  if (!descriptor.counter_set || descriptor.sample_count == 0 || descriptor.sample_count > kMaxSamples) {
    set_error(error, MTL::CounterSampleBufferErrorInvalid, "a sample buffer needs a counter set and 1 to 4096 samples");
    return nullptr;
  }
  if (descriptor.storage_mode != MTL::StorageModeShared) {
    set_error(error, MTL::CounterSampleBufferErrorInvalid, "resolveCounterRange: needs a sample buffer in shared storage");
    return nullptr;
  }
  auto* buffer = new CounterSampleBuffer(descriptor.sample_count);
  buffer->label = descriptor.label;
  return buffer;
}

PassAttachments::PassAttachments() {
  for (auto& attachment : attachments) attachment = owned(new PassAttachment);
}

MTL::ComputePassSampleBufferAttachmentDescriptor* PassAttachments::object(NS::UInteger index) {
  if (index >= kCount) fail("sample buffer attachment " + std::to_string(index) + " of " + std::to_string(kCount));
  return attachments[index].get();
}

void PassAttachments::set_object(const MTL::ComputePassSampleBufferAttachmentDescriptor* attachment, NS::UInteger index) {
  static_cast<void>(object(index));
  attachments[index] =
      attachment ? Ref<MTL::ComputePassSampleBufferAttachmentDescriptor>(attachment) : owned(new PassAttachment);
}

PassDescriptor::PassDescriptor() : attachments(owned(new PassAttachments)) {}

MTL::ComputePassDescriptor* PassDescriptor::make() { return autoreleased(new PassDescriptor); }

std::vector<PassSample> samples_of(const PassDescriptor& pass) {
  std::vector<PassSample> samples;
  for (const auto& reference : as<PassAttachments>(pass.attachments.get())->attachments) {
    const PassAttachment& attachment = *as<PassAttachment>(reference.get());
    if (!attachment.sample_buffer) continue;
    CounterSampleBuffer* buffer = as<CounterSampleBuffer>(attachment.sample_buffer.get());
    for (const NS::UInteger index : {attachment.start_index, attachment.end_index})
      if (index != MTL::CounterDontSample && index >= buffer->samples.size())
        fail("counter sample " + std::to_string(index) + " of " + std::to_string(buffer->samples.size()));
    samples.push_back({buffer, attachment.start_index, attachment.end_index});
  }
  return samples;
}

void register_counters() {
  ClassOf<Counter>("MTLCounter").method<&Counter::name>(&MTL::Counter::name, "name");
  ClassOf<CounterSet>("MTLCounterSet")
      .method<&CounterSet::name>(&MTL::CounterSet::name, "name")
      .method<&CounterSet::counters>(&MTL::CounterSet::counters, "counters");
  using Descriptor = CounterSampleDescriptor;
  ClassOf<Descriptor>("MTLCounterSampleBufferDescriptor")
      .allocatable()
      .label()
      .getter<&Descriptor::counter_set>(&MTL::CounterSampleBufferDescriptor::counterSet, "counterSet")
      .setter<&Descriptor::counter_set>(&MTL::CounterSampleBufferDescriptor::setCounterSet, "setCounterSet:")
      .getter<&Descriptor::sample_count>(&MTL::CounterSampleBufferDescriptor::sampleCount, "sampleCount")
      .setter<&Descriptor::sample_count>(&MTL::CounterSampleBufferDescriptor::setSampleCount, "setSampleCount:")
      .getter<&Descriptor::storage_mode>(&MTL::CounterSampleBufferDescriptor::storageMode, "storageMode")
      .setter<&Descriptor::storage_mode>(&MTL::CounterSampleBufferDescriptor::setStorageMode, "setStorageMode:");
  ClassOf<CounterSampleBuffer>("MTLCounterSampleBuffer")
      .label_getter()
      .method<&CounterSampleBuffer::sample_count>(&MTL::CounterSampleBuffer::sampleCount, "sampleCount")
      .method<&CounterSampleBuffer::resolve>(&MTL::CounterSampleBuffer::resolveCounterRange, "resolveCounterRange:")
      .method<&CounterSampleBuffer::device>(&MTL::CounterSampleBuffer::device, "device");
  using Attachment = MTL::ComputePassSampleBufferAttachmentDescriptor;
  ClassOf<PassAttachment>("MTLComputePassSampleBufferAttachmentDescriptor")
      .allocatable()
      .getter<&PassAttachment::sample_buffer>(&Attachment::sampleBuffer, "sampleBuffer")
      .setter<&PassAttachment::sample_buffer>(&Attachment::setSampleBuffer, "setSampleBuffer:")
      .getter<&PassAttachment::start_index>(&Attachment::startOfEncoderSampleIndex, "startOfEncoderSampleIndex")
      .setter<&PassAttachment::start_index>(&Attachment::setStartOfEncoderSampleIndex, "setStartOfEncoderSampleIndex:")
      .getter<&PassAttachment::end_index>(&Attachment::endOfEncoderSampleIndex, "endOfEncoderSampleIndex")
      .setter<&PassAttachment::end_index>(&Attachment::setEndOfEncoderSampleIndex, "setEndOfEncoderSampleIndex:");
  using Attachments = MTL::ComputePassSampleBufferAttachmentDescriptorArray;
  ClassOf<PassAttachments>("MTLComputePassSampleBufferAttachmentDescriptorArray")
      .allocatable()
      .method<&PassAttachments::object>(&Attachments::object, "objectAtIndexedSubscript:")
      .method<&PassAttachments::set_object>(&Attachments::setObject, "setObject:atIndexedSubscript:");
  ClassOf<PassDescriptor>("MTLComputePassDescriptor")
      .allocatable()
      .class_method<&PassDescriptor::make>(&MTL::ComputePassDescriptor::computePassDescriptor, "computePassDescriptor")
      .getter<&PassDescriptor::dispatch_type>(&MTL::ComputePassDescriptor::dispatchType, "dispatchType")
      .setter<&PassDescriptor::dispatch_type>(&MTL::ComputePassDescriptor::setDispatchType, "setDispatchType:")
      .getter<&PassDescriptor::attachments>(&MTL::ComputePassDescriptor::sampleBufferAttachments,
                                            "sampleBufferAttachments");
}

}  // namespace softmetal
