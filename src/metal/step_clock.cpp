#include "metal/step_clock.hpp"

#include <objc/message.h>
#include <objc/runtime.h>

#include <algorithm>

#include "checkpoint/error.hpp"

namespace lapidary::metal {
namespace {

MTL::CommandBuffer* begin_commands(const Gpu& gpu) {
  MTL::CommandBuffer* commands = gpu.queue()->commandBuffer();
  commands->setLabel(text_of("timed steps"));
  return commands;
}

Seconds finish(MTL::CommandBuffer* commands) {
  commands->commit();
  commands->waitUntilCompleted();
  if (NS::Error* error = commands->error())
    fail(ErrorKind::io, "metal", "run, expected it to complete, got: " + message_of(error));
  return {commands->GPUStartTime(), commands->GPUEndTime()};
}

void encode_piece(MTL::ComputeCommandEncoder* encoder, const TimedPiece& piece) {
  encoder->setLabel(text_of(piece.label));
  piece.encode(encoder);
  encoder->endEncoding();
}

// Null where the device cannot be asked at the borders of encoders.
MTL::CounterSet* clock_of(MTL::Device* device) {
  if (!device->supportsCounterSampling(MTL::CounterSamplingPointAtStageBoundary)) return nullptr;
  NS::Array* sets = device->counterSets();
  for (NS::UInteger i = 0; sets && i < sets->count(); ++i) {
    auto* set = static_cast<MTL::CounterSet*>(sets->object(i));
    if (set->name()->isEqualToString(MTL::CommonCounterSetTimestamp)) return set;
  }
  return nullptr;
}

Owned<MTL::CounterSampleBuffer> make_samples(MTL::Device* device, MTL::CounterSet* clock, std::size_t count) {
  const auto descriptor = NS::TransferPtr(MTL::CounterSampleBufferDescriptor::alloc()->init());
  descriptor->setCounterSet(clock);
  descriptor->setStorageMode(MTL::StorageModeShared);
  descriptor->setSampleCount(count);
  descriptor->setLabel(text_of("times of steps"));
  NS::Error* error = nullptr;
  auto samples = NS::TransferPtr(device->newCounterSampleBuffer(descriptor.get(), &error));
  if (!samples)
    fail(ErrorKind::io, "metal", "times, expected " + std::to_string(count) + " samples, got: " + message_of(error));
  return samples;
}

// metal-cpp has only the bytes of data that may be written to, which this is not.
const void* bytes_of(const NS::Data* data) {
  using Send = const void* (*)(const void*, SEL);
  return reinterpret_cast<Send>(&objc_msgSend)(data, sel_registerName("bytes"));
}

// Empty unless the clock runs forward.
std::vector<std::uint64_t> read_samples(MTL::CounterSampleBuffer* samples, std::size_t count) {
  const NS::Data* data = samples->resolveCounterRange(NS::Range(0, count));
  if (!data) return {};
  const auto* results = static_cast<const MTL::CounterResultTimestamp*>(bytes_of(data));
  std::vector<std::uint64_t> ticks;
  for (std::size_t i = 0; i < count; ++i) ticks.push_back(results[i].timestamp);
  const bool runs = ticks.front() > 0 && ticks.back() > ticks.front() && ticks.back() < MTL::CounterErrorValue;
  return runs && std::ranges::is_sorted(ticks) ? ticks : std::vector<std::uint64_t>{};
}

}  // namespace

StepClock::StepClock(Gpu& gpu, const TimedPiece& probe) : gpu_(gpu) {
  const Pool pool;
  clock_ = NS::RetainPtr(clock_of(gpu.device()));
  if (clock_ && run_by_clock({&probe, 1}).empty()) clock_.reset();
}

std::vector<Seconds> StepClock::run_by_clock(std::span<const TimedPiece> pieces) const {
  const auto samples = make_samples(gpu_.device(), clock_.get(), 2 * pieces.size());
  // Metal does not look after memory of a heap: nothing but this keeps the encoders in order.
  const auto order = NS::TransferPtr(gpu_.device()->newSharedEvent());
  order->setLabel(text_of("order of steps"));
  MTL::CommandBuffer* commands = begin_commands(gpu_);
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    MTL::ComputePassDescriptor* pass = MTL::ComputePassDescriptor::computePassDescriptor();
    MTL::ComputePassSampleBufferAttachmentDescriptor* times = pass->sampleBufferAttachments()->object(0);
    times->setSampleBuffer(samples.get());
    times->setStartOfEncoderSampleIndex(2 * i);
    times->setEndOfEncoderSampleIndex(2 * i + 1);
    if (i) commands->encodeWait(order.get(), i);
    encode_piece(commands->computeCommandEncoder(pass), pieces[i]);
    commands->encodeSignalEvent(order.get(), i + 1);
  }
  const Seconds whole = finish(commands);
  const std::vector<std::uint64_t> ticks = read_samples(samples.get(), 2 * pieces.size());
  if (ticks.empty()) return {};
  // How long a tick is follows from the time of the whole, which is in seconds.
  const double tick_s = (whole.end - whole.begin) / static_cast<double>(ticks.back() - ticks.front());
  const auto at = [&](std::size_t i) { return whole.begin + static_cast<double>(ticks[i] - ticks.front()) * tick_s; };
  std::vector<Seconds> times;
  for (std::size_t i = 0; i < pieces.size(); ++i) times.push_back({at(2 * i), at(2 * i + 1)});
  return times;
}

std::vector<Seconds> StepClock::run(const std::vector<TimedPiece>& pieces) const {
  const Pool pool;
  std::vector<Seconds> times;
  if (!clock_) {
    for (const TimedPiece& piece : pieces) {
      MTL::CommandBuffer* commands = begin_commands(gpu_);
      encode_piece(commands->computeCommandEncoder(), piece);
      times.push_back(finish(commands));
    }
    return times;
  }
  constexpr std::size_t kMaxPieces = 1024;  // samples of no more than 32 KiB: what Apple's devices take
  for (std::size_t first = 0; first < pieces.size(); first += kMaxPieces) {
    const auto some = std::span(pieces).subspan(first, std::min(kMaxPieces, pieces.size() - first));
    const std::vector<Seconds> more = run_by_clock(some);
    if (more.empty()) fail(ErrorKind::io, "metal", "times, expected a clock that goes on running, got one that stopped");
    times.insert(times.end(), more.begin(), more.end());
  }
  return times;
}

}  // namespace lapidary::metal
