// Command queues, command buffers, events.
#pragma once

#include <Metal/Metal.hpp>

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <random>
#include <thread>

#include "metal/bindings.hpp"

namespace softmetal {

struct CommandBuffer;

// What a queue has to do and has done. Its thread shares it, and may outlive the queue by a moment.
struct QueueWork {
  std::mutex lock;
  std::condition_variable changed;
  std::deque<CommandBuffer*> waiting;
  std::uint64_t committed = 0, observed = 0;  // command buffers; the host knows that the observed ones have run
  bool ending = false;

  void observe(std::uint64_t number);
};

// The host and the device tell each other how far they are.
struct Event : Implements<Event, MTL::SharedEvent> {
  Ref<NS::String> label;

  std::uint64_t value() const;
  void set_value(std::uint64_t value);
  bool wait(std::uint64_t value, std::uint64_t milliseconds);
  MTL::Device* device() const;

  void signal_from(std::shared_ptr<QueueWork> queue, std::uint64_t number, std::uint64_t value);  // by that command buffer
  void wait_on_device(std::uint64_t value);

 private:
  void saw(std::uint64_t value) const;  // the host knows that everything up to that signal has run

  struct Signal {
    std::uint64_t value;
    std::shared_ptr<QueueWork> queue;
    std::uint64_t number;
  };
  mutable std::mutex lock_;
  mutable std::condition_variable changed_;
  std::uint64_t value_ = 0;
  std::uint64_t signalled_ = 0;  // by the device
  std::vector<Signal> signals_;
};

// The state of a queue while it plays a command buffer: dispatches with no barrier between them may run in any order.
class Playback {
 public:
  explicit Playback(Residents residents);

  const Residents& residents() const { return residents_; }
  void add(const Bindings& bindings, const Grid& grid, std::shared_ptr<const Residents> more);
  void barrier();
  void begin_pass();

 private:
  struct Work {
    Bindings bindings;
    Grid grid;
    std::shared_ptr<const Residents> residents;
  };
  void flush();

  Residents residents_;
  std::vector<Work> waiting_;
  std::mt19937_64 random_;
};

using Command = std::function<void(Playback&)>;

struct CommandBuffer : Implements<CommandBuffer, MTL::CommandBuffer> {
  Ref<NS::String> label;
  Ref<MTL::CommandQueue> queue;
  std::vector<Command> commands;
  bool encoding = false;
  int debug_groups = 0;
  std::uint64_t number = 0;            // in the queue, from 1
  bool fails = false;                  // as a test wants it
  bool alone = false;                  // when it was committed, the host knew that all before it had run
  std::vector<std::function<void()>> at_commit, at_end;

  ~CommandBuffer();
  void keep(const void* object);       // until the command buffer is gone

  MTL::ComputeCommandEncoder* encoder();
  MTL::ComputeCommandEncoder* encoder_of_type(MTL::DispatchType type);
  MTL::ComputeCommandEncoder* encoder_of_pass(const MTL::ComputePassDescriptor* pass);
  void add_completed_handler(const MTL::CommandBufferHandler handler);
  void add_scheduled_handler(const MTL::CommandBufferHandler handler);
  void encode_signal(const MTL::Event* event, std::uint64_t value);
  void encode_wait(const MTL::Event* event, std::uint64_t value);
  void use_residency_set(const MTL::ResidencySet* set);
  void push_debug_group(const NS::String* name);
  void pop_debug_group();
  void enqueue();
  void commit();
  void wait_until_scheduled();
  void wait_until_completed();
  MTL::CommandBufferStatus status() const;
  NS::Error* error() const;
  CFTimeInterval gpu_start() const { return time(start_s_); }
  CFTimeInterval gpu_end() const { return time(end_s_); }
  MTL::CommandQueue* command_queue() const { return queue.get(); }
  MTL::Device* device() const;

  void play();                         // by the queue

 private:
  bool is_complete() const;
  CFTimeInterval time(double seconds) const;
  Residents residents() const;
  void must_be_open(const char* what) const;

  mutable std::mutex lock_;
  mutable std::condition_variable changed_;
  MTL::CommandBufferStatus status_ = MTL::CommandBufferStatusNotEnqueued;
  bool handled_ = false;               // its handlers have run
  double start_s_ = 0, end_s_ = 0;
  Ref<NS::Error> error_;
  std::vector<const void*> kept_;
  std::vector<MTL::CommandBufferHandler> handlers_, scheduled_handlers_;
  std::vector<Ref<MTL::ResidencySet>> residency_sets_;
};

struct Queue : Implements<Queue, MTL::CommandQueue> {
  Ref<NS::String> label;
  std::map<const void*, Ref<MTL::ResidencySet>> residency_sets;

  Queue();
  ~Queue();
  MTL::CommandBuffer* command_buffer();
  void add_residency_set(const MTL::ResidencySet* set);
  void remove_residency_set(const MTL::ResidencySet* set);
  MTL::Device* device() const;

  void commit(CommandBuffer* commands);
  const std::shared_ptr<QueueWork>& work() const { return work_; }

 private:
  std::shared_ptr<QueueWork> work_ = std::make_shared<QueueWork>();
  std::thread thread_;
};

double now_s();

void register_queue();

}  // namespace softmetal
