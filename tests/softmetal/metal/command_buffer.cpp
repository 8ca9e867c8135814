#include "metal/device.hpp"
#include "metal/encoder.hpp"
#include "metal/queue.hpp"
#include "runtime/checker.hpp"

extern "C" {
void* _Block_copy(const void* block);
void _Block_release(const void* block);
}

namespace softmetal {
namespace {

MTL::CommandBufferHandler copy_of(MTL::CommandBufferHandler handler) {
  return reinterpret_cast<MTL::CommandBufferHandler>(_Block_copy(handler));
}

}  // namespace

CommandBuffer::~CommandBuffer() {
  for (const void* object : kept_) release(object);
  for (const MTL::CommandBufferHandler handler : handlers_) _Block_release(handler);
  for (const MTL::CommandBufferHandler handler : scheduled_handlers_) _Block_release(handler);
}

void CommandBuffer::keep(const void* object) {
  retain(object);
  kept_.push_back(object);
}

void CommandBuffer::must_be_open(const char* what) const {
  if (status() >= MTL::CommandBufferStatusCommitted) fail(std::string(what) + " on a command buffer that is committed");
  if (encoding) fail(std::string(what) + " while an encoder is open");
}

MTL::ComputeCommandEncoder* CommandBuffer::encoder() { return encoder_of_type(MTL::DispatchTypeSerial); }

MTL::ComputeCommandEncoder* CommandBuffer::encoder_of_type(MTL::DispatchType type) {
  must_be_open("computeCommandEncoder");
  return autoreleased(new Encoder(*this, type, nullptr));
}

MTL::ComputeCommandEncoder* CommandBuffer::encoder_of_pass(const MTL::ComputePassDescriptor* pass) {
  must_be_open("computeCommandEncoderWithDescriptor:");
  const PassDescriptor& descriptor = *as<PassDescriptor>(pass);
  return autoreleased(new Encoder(*this, descriptor.dispatch_type, &descriptor));
}

void CommandBuffer::add_completed_handler(const MTL::CommandBufferHandler handler) {
  if (status() >= MTL::CommandBufferStatusCommitted) fail("addCompletedHandler: on a command buffer that is committed");
  handlers_.push_back(copy_of(handler));
}

void CommandBuffer::add_scheduled_handler(const MTL::CommandBufferHandler handler) {
  if (status() >= MTL::CommandBufferStatusCommitted) fail("addScheduledHandler: on a command buffer that is committed");
  scheduled_handlers_.push_back(copy_of(handler));
}

void CommandBuffer::encode_signal(const MTL::Event* event, std::uint64_t value) {
  must_be_open("encodeSignalEvent:value:");
  keep(event);
  auto* signalled = as<Event>(static_cast<const MTL::SharedEvent*>(event));
  commands.push_back([this, signalled, value](Playback& playback) {
    playback.begin_pass();
    signalled->signal_from(as<Queue>(queue.get())->work(), number, value);
  });
}

void CommandBuffer::encode_wait(const MTL::Event* event, std::uint64_t value) {
  must_be_open("encodeWaitForEvent:value:");
  keep(event);
  auto* awaited = as<Event>(static_cast<const MTL::SharedEvent*>(event));
  commands.push_back([awaited, value](Playback& playback) {
    playback.begin_pass();
    awaited->wait_on_device(value);
    checker::order(checker::Order::all);
  });
}

void CommandBuffer::use_residency_set(const MTL::ResidencySet* set) { residency_sets_.emplace_back(set); }

void CommandBuffer::push_debug_group(const NS::String*) { ++debug_groups; }
void CommandBuffer::pop_debug_group() {
  if (debug_groups-- == 0) fail("popDebugGroup without a pushDebugGroup:");
}

void CommandBuffer::enqueue() {
  must_be_open("enqueue");
  const std::lock_guard guard(lock_);
  status_ = MTL::CommandBufferStatusEnqueued;
}

void CommandBuffer::commit() {
  must_be_open("commit");
  if (debug_groups != 0) fail("commit with a debug group still open");
  {
    const std::lock_guard guard(lock_);
    status_ = MTL::CommandBufferStatusCommitted;
  }
  for (const auto& action : at_commit) action();
  retain(this);  // the queue holds it until it has run
  as<Queue>(queue.get())->commit(this);
}

void CommandBuffer::wait_until_scheduled() {
  if (status() < MTL::CommandBufferStatusCommitted) fail("waitUntilScheduled before commit");
  std::unique_lock guard(lock_);
  changed_.wait(guard, [&] { return status_ >= MTL::CommandBufferStatusScheduled; });
}

void CommandBuffer::wait_until_completed() {
  if (status() < MTL::CommandBufferStatusCommitted) fail("waitUntilCompleted before commit");
  {
    std::unique_lock guard(lock_);
    changed_.wait(guard, [&] { return handled_; });
  }
  as<Queue>(queue.get())->work()->observe(number);
}

bool CommandBuffer::is_complete() const {
  const std::lock_guard guard(lock_);
  return status_ >= MTL::CommandBufferStatusCompleted;
}

MTL::CommandBufferStatus CommandBuffer::status() const {
  if (is_complete()) as<Queue>(queue.get())->work()->observe(number);
  const std::lock_guard guard(lock_);
  return status_;
}

// Nothing before the end, as in Metal: a signal that the host has seen is not the end yet.
NS::Error* CommandBuffer::error() const { return is_complete() ? error_.get() : nullptr; }
CFTimeInterval CommandBuffer::time(double seconds) const { return is_complete() ? seconds : 0; }
MTL::Device* CommandBuffer::device() const { return the_device(); }

Residents CommandBuffer::residents() const {
  Residents all;
  for (const auto& [key, set] : as<Queue>(queue.get())->residency_sets)
    for (const auto& [allocation, reference] : as<ResidencySet>(set.get())->committed) all.insert(allocation);
  for (const auto& set : residency_sets_)
    for (const auto& [allocation, reference] : as<ResidencySet>(set.get())->committed) all.insert(allocation);
  return all;
}

void CommandBuffer::play() {
  const AutoreleaseScope scope;
  {
    const std::lock_guard guard(lock_);
    status_ = MTL::CommandBufferStatusScheduled;
    changed_.notify_all();
  }
  for (const MTL::CommandBufferHandler handler : scheduled_handlers_) handler(api(this));
  start_s_ = now_s();
  if (alone) checker::order(checker::Order::all);
  Playback playback(residents());
  if (!fails)
    for (const Command& command : commands) command(playback);
  playback.begin_pass();
  end_s_ = now_s();
  const std::string problems = fails ? "a test wanted it to fail" : checker::take_reports();
  if (!problems.empty()) {
    NS::Error* error = nullptr;
    set_error(&error, MTL::CommandBufferErrorInvalidResource, problems);
    error_ = error;
  }
  for (const auto& action : at_end) action();
  {
    const std::lock_guard guard(lock_);
    status_ = error_ ? MTL::CommandBufferStatusError : MTL::CommandBufferStatusCompleted;
  }
  for (const MTL::CommandBufferHandler handler : handlers_) handler(api(this));
  const std::lock_guard guard(lock_);
  handled_ = true;
  changed_.notify_all();
}

}  // namespace softmetal
