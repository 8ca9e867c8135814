// The thread that computes. It has as many conversations as the model has sessions, gives them to tickets in the order they came, and
// plays chunks and rounds as the scheduler says. What a unit of work gave is handed on in one piece.
#pragma once

#include <array>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "decode/prefix_cache.hpp"
#include "decode/scheduler.hpp"
#include "engine/answer.hpp"
#include "serve/metrics.hpp"
#include "serve/ticket.hpp"

namespace lapidary::serve {

// What one session is about.
struct SlotStatus {
  enum class State : std::uint8_t { idle, prompt, decode, parked } state = State::idle;
  int past_tokens = 0, generated_tokens = 0;
  double age_s = 0;  // of its answer
};

// Of all units so far.
struct Work {
  std::array<std::int64_t, graph::kMaxVerifyRows + 1> rounds_by_rows{};
  std::int64_t evictions = 0;        // from the prefix cache
  std::size_t cache_bytes = 0;       // in use
  Histogram round_s{kRoundSeconds};
};

class Streams {
 public:
  using Deliver = std::function<void(std::vector<News>)>;
  // `model` must outlive it; `deliver` is called from its thread.
  Streams(engine::Model& model, std::size_t prefix_cache_bytes, Deliver deliver);
  ~Streams();

  // From any thread.
  void submit(std::shared_ptr<Ticket> ticket);
  void wake();  // a ticket was cancelled, or its client reads again
  std::vector<SlotStatus> slots() const;
  Work work() const;

 private:
  struct Stream;
  struct Entry;

  void run();
  void take_inbox();
  void settle();
  void start_all();
  bool start_next(Entry& entry);
  void begin(Stream& stream, Entry& entry, int index);
  void play(const decode::Scheduler::Unit& unit, std::span<Stream* const> texts);
  void read_chunk(Stream& stream, int most_rows);
  void drain(Stream& stream);
  void end(Stream& stream);
  void fail(Stream& stream, const std::string& why);
  void finish(Entry& entry);
  void publish();
  void deliver();
  template <class What>
  void tell(const Entry& entry, What what);

  engine::Model& model_;
  const Deliver deliver_;
  decode::PrefixCache cache_;
  decode::Scheduler scheduler_;
  std::vector<std::unique_ptr<Stream>> streams_;  // one for each session
  std::deque<std::unique_ptr<Entry>> entries_;    // tickets that are not done, in order
  std::uint64_t begun_ = 0;                       // answers so far
  std::vector<News> news_;                        // of this unit

  mutable std::mutex mutex_;  // of what follows
  std::condition_variable changed_;
  std::vector<std::shared_ptr<Ticket>> inbox_;
  bool woken_ = false, stopping_ = false;
  std::vector<SlotStatus> slots_;
  Work work_;

  std::thread thread_;  // the last: it uses all of the above
};

}  // namespace lapidary::serve
