// What the decoder knows of a backend.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "graph/graph.hpp"
#include "graph/row.hpp"

namespace lapidary::link {

// What a step has just written: row r of output i is `row_bytes` long and begins at data + r * stride_bytes.
struct StepResult {
  struct Output {
    const std::byte* data = nullptr;  // null: no such output
    std::size_t row_bytes = 0, stride_bytes = 0;

    const std::byte* row(std::size_t r) const { return data + r * stride_bytes; }
    const float* floats(std::size_t r) const { return reinterpret_cast<const float*>(row(r)); }
  };
  const graph::Step& step;
  std::size_t rows = 0;
  std::array<Output, 4> out{};
};

// Sees every step of a run, after it.
using Tap = std::function<void(const StepResult&)>;

// When a step was at work, by a clock that all runs of a backend share. Its device's clock, where that has one.
struct StepTime {
  graph::SegmentId segment{};
  const graph::Step* step = nullptr;
  std::size_t rows = 0;
  double begin_s = 0, end_s = 0;
};

// How long each segment took.
using SegmentSeconds = std::array<double, graph::kSegmentCount>;

struct RoundReport {
  graph::RoundResult result{};
  SegmentSeconds seconds{};
};

struct Run {
  std::int32_t slot = 0;                      // session
  graph::Chunk chunk{};                       // rows of a prompt; none in a round, whose rows follow from its state
  const graph::Request* request = nullptr;    // null = the largest logit
  const Tap* tap = nullptr;
  std::vector<StepTime>* times = nullptr;     // one is added for each step; the run may take longer for it
  const std::atomic<bool>* cancel = nullptr;  // once true, no further segment begins
  RoundReport* report = nullptr;              // of the round that the run is all or part of: see await()
};

// What was read stays allocated as long as `memory` is there: a virtual machine gives memory that was freed back to its host some
// seconds later, and everything stops meanwhile.
struct ReadLimit {
  double bytes_per_s = 0;
  std::shared_ptr<void> memory{};
};

class Executor {
 public:
  virtual ~Executor() = default;

  // Replays recorded segments, one after the other. It may return before they are done: await() waits for some runs, all
  // that is below it for all of them. Returns false when it was cancelled before the last segment began.
  virtual bool run(std::span<const graph::SegmentId> segments, const Run& run) = 0;

  // Whether a round that needs nothing of the host (one run, no given drafts, no masks, the same request) may be submitted
  // behind another one of its session, before that has been awaited.
  virtual bool runs_ahead() const { return false; }

  // Waits for the runs that this was given to as their report, and fills it; runs behind them go on.
  virtual void await(const RoundReport& report) = 0;

  virtual graph::RoundState& state(int slot) = 0;

  // Results of the last run, by row of the output window.
  virtual std::span<const float> hidden(int output) const = 0;  // [hidden], after the final norm
  virtual std::span<const float> logits(int output) const = 0;  // [vocab]
  virtual std::int32_t next(int output) const = 0;

  // Whether rows of a prompt and rows of a round are computed by different kernels, so that the K/V of a token depend on which it was.
  virtual bool prompts_stand_apart() const { return false; }

  // K and V of one position as stored; k, v: [head_dim]
  virtual void read_kv(int slot, int layer, int kv_head, int position, std::span<float> k, std::span<float> v) const = 0;

  // How fast its device reads memory: what decoding is measured against. Takes a moment.
  virtual ReadLimit measure_read_limit() = 0;
};

}  // namespace lapidary::link
