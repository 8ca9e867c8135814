#include "metal/queue.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>

#include "metal/device.hpp"
#include "runtime/checker.hpp"
#include "softmetal.h"

namespace softmetal {

namespace {

std::atomic<unsigned long>& commits_ahead() {
  static std::atomic<unsigned long> count = 0;
  return count;
}

// Commits until the one that is to fail, and that one; 0 = none is.
std::atomic<unsigned long>& until_failure() {
  static std::atomic<unsigned long> count = 0;
  return count;
}

}  // namespace

double now_s() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

std::uint64_t Event::value() const {
  std::uint64_t value = 0;
  {
    const std::lock_guard guard(lock_);
    value = value_;
  }
  saw(value);
  return value;
}

void Event::set_value(std::uint64_t value) {
  const std::lock_guard guard(lock_);
  value_ = value;
  changed_.notify_all();
}

bool Event::wait(std::uint64_t value, std::uint64_t milliseconds) {
  {
    std::unique_lock guard(lock_);
    if (!changed_.wait_for(guard, std::chrono::milliseconds(milliseconds), [&] { return value_ >= value; })) return false;
  }
  saw(value);
  return true;
}

void Event::saw(std::uint64_t value) const {
  std::vector<Signal> signals;
  {
    const std::lock_guard guard(lock_);
    signals = signals_;
  }
  for (const Signal& signal : signals)
    if (signal.value <= value) signal.queue->observe(signal.number);
}

void Event::signal_from(std::shared_ptr<QueueWork> queue, std::uint64_t number, std::uint64_t value) {
  const std::lock_guard guard(lock_);
  if (value <= signalled_)
    fail("an event is signalled with " + std::to_string(value) + ", it had " + std::to_string(signalled_));
  signalled_ = value;
  value_ = std::max(value_, value);  // the host may have set more
  std::erase_if(signals_, [&](const Signal& signal) { return signal.queue == queue; });
  signals_.push_back({value, std::move(queue), number});
  changed_.notify_all();
}

void Event::wait_on_device(std::uint64_t value) {
  std::unique_lock guard(lock_);
  changed_.wait(guard, [&] { return value_ >= value; });
}

MTL::Device* Event::device() const { return the_device(); }

Playback::Playback(Residents residents) : residents_(std::move(residents)), random_(settings().seed) {}

void Playback::add(const Bindings& bindings, const Grid& grid, std::shared_ptr<const Residents> more) {
  check(bindings, grid);
  waiting_.push_back({bindings, grid, std::move(more)});
}

void Playback::flush() {
  if (settings().seed != 0) std::shuffle(waiting_.begin(), waiting_.end(), random_);
  for (const Work& work : waiting_) run(work.bindings, work.grid, *work.residents);
  waiting_.clear();
}

void Playback::barrier() {
  flush();
  checker::order(checker::Order::barrier);
}

void Playback::begin_pass() {
  flush();
  checker::order(checker::Order::pass);
}

void QueueWork::observe(std::uint64_t number) {
  const std::lock_guard guard(lock);
  observed = std::max(observed, number);
}

namespace {

void play_all(QueueWork& work) {
  while (true) {
    CommandBuffer* commands = nullptr;
    {
      std::unique_lock guard(work.lock);
      work.changed.wait(guard, [&] { return work.ending || !work.waiting.empty(); });
      if (work.waiting.empty()) return;
      commands = work.waiting.front();
      work.waiting.pop_front();
    }
    commands->play();
    release(commands);
  }
}

}  // namespace

Queue::Queue() : thread_([work = work_] { play_all(*work); }) {}

// The last owner may be the queue's own thread, when it frees a command buffer.
Queue::~Queue() {
  {
    const std::lock_guard guard(work_->lock);
    work_->ending = true;
  }
  work_->changed.notify_all();
  if (thread_.get_id() == std::this_thread::get_id()) thread_.detach();
  else thread_.join();
}

MTL::CommandBuffer* Queue::command_buffer() {
  auto* commands = new CommandBuffer;
  commands->queue = api(this);
  return autoreleased(commands);
}

void Queue::add_residency_set(const MTL::ResidencySet* set) { residency_sets.emplace(set, set); }
void Queue::remove_residency_set(const MTL::ResidencySet* set) { residency_sets.erase(set); }
MTL::Device* Queue::device() const { return the_device(); }

void Queue::commit(CommandBuffer* commands) {
  const std::lock_guard guard(work_->lock);
  commands->alone = work_->observed == work_->committed;
  commands->number = ++work_->committed;
  if (!commands->alone) ++commits_ahead();
  commands->fails = until_failure() > 0 && --until_failure() == 0;
  work_->waiting.push_back(commands);
  work_->changed.notify_all();
}

extern "C" unsigned long softmetal_commits_ahead() { return commits_ahead(); }
extern "C" void softmetal_fail_commit(unsigned long number) { until_failure() = number; }

void register_queue() {
  ClassOf<Event>("MTLSharedEvent")
      .label()
      .method<&Event::value>(&MTL::SharedEvent::signaledValue, "signaledValue")
      .method<&Event::set_value>(&MTL::SharedEvent::setSignaledValue, "setSignaledValue:")
      .method<&Event::wait>(&MTL::SharedEvent::waitUntilSignaledValue, "waitUntilSignaledValue:timeoutMS:")
      .method<&Event::device>(&MTL::SharedEvent::device, "device");
  ClassOf<Queue>("MTLCommandQueue")
      .label()
      .method<&Queue::command_buffer>(&MTL::CommandQueue::commandBuffer, "commandBuffer")
      .method<&Queue::command_buffer>(&MTL::CommandQueue::commandBufferWithUnretainedReferences,
                                      "commandBufferWithUnretainedReferences")
      .method<&Queue::add_residency_set>(&MTL::CommandQueue::addResidencySet, "addResidencySet:")
      .method<&Queue::remove_residency_set>(&MTL::CommandQueue::removeResidencySet, "removeResidencySet:")
      .method<&Queue::device>(&MTL::CommandQueue::device, "device");
  ClassOf<CommandBuffer>("MTLCommandBuffer")
      .label()
      .method<&CommandBuffer::encoder>(&MTL::CommandBuffer::computeCommandEncoder, "computeCommandEncoder")
      .method<&CommandBuffer::encoder_of_type>(&MTL::CommandBuffer::computeCommandEncoder,
                                               "computeCommandEncoderWithDispatchType:")
      .method<&CommandBuffer::encoder_of_pass>(&MTL::CommandBuffer::computeCommandEncoder,
                                               "computeCommandEncoderWithDescriptor:")
      .method<&CommandBuffer::add_completed_handler>(&MTL::CommandBuffer::addCompletedHandler, "addCompletedHandler:")
      .method<&CommandBuffer::add_scheduled_handler>(&MTL::CommandBuffer::addScheduledHandler, "addScheduledHandler:")
      .method<&CommandBuffer::encode_signal>(&MTL::CommandBuffer::encodeSignalEvent, "encodeSignalEvent:value:")
      .method<&CommandBuffer::encode_wait>(&MTL::CommandBuffer::encodeWait, "encodeWaitForEvent:value:")
      .method<&CommandBuffer::use_residency_set>(&MTL::CommandBuffer::useResidencySet, "useResidencySet:")
      .method<&CommandBuffer::push_debug_group>(&MTL::CommandBuffer::pushDebugGroup, "pushDebugGroup:")
      .method<&CommandBuffer::pop_debug_group>(&MTL::CommandBuffer::popDebugGroup, "popDebugGroup")
      .method<&CommandBuffer::enqueue>(&MTL::CommandBuffer::enqueue, "enqueue")
      .method<&CommandBuffer::commit>(&MTL::CommandBuffer::commit, "commit")
      .method<&CommandBuffer::wait_until_scheduled>(&MTL::CommandBuffer::waitUntilScheduled, "waitUntilScheduled")
      .method<&CommandBuffer::wait_until_completed>(&MTL::CommandBuffer::waitUntilCompleted, "waitUntilCompleted")
      .method<&CommandBuffer::status>(&MTL::CommandBuffer::status, "status")
      .method<&CommandBuffer::error>(&MTL::CommandBuffer::error, "error")
      .method<&CommandBuffer::gpu_start>(&MTL::CommandBuffer::GPUStartTime, "GPUStartTime")
      .method<&CommandBuffer::gpu_end>(&MTL::CommandBuffer::GPUEndTime, "GPUEndTime")
      .method<&CommandBuffer::command_queue>(&MTL::CommandBuffer::commandQueue, "commandQueue")
      .method<&CommandBuffer::device>(&MTL::CommandBuffer::device, "device");
}

}  // namespace softmetal
