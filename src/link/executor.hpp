// What the decoder knows of a backend: runs of one or more sessions over one arena.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "checkpoint/error.hpp"
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
using StepObserver = std::function<void(const StepResult&)>;

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
  graph::RoundResult result{};  // of a round, or of the end of a prompt
  SegmentSeconds seconds{};     // of the session's own drafts; of all sessions in the run for what they share
};

// What a run is. A prompt is played chunk by chunk by one session; a round by one or more, whose rows go through the model together.
enum class Play : std::uint8_t {
  prompt,        // a chunk: its K/V
  prompt_end,    // the last chunk: then the logits of its output window and the token after it
  prompt_all,    // a chunk with every layer for every row
  head,          // logits of an output window of the prompt_all before it
  head_select,   // the same, and the token after it
  round,         // drafts, their verification, the choice
  draft,         // a round in three parts: the drafts,
  verify,        // then the logits of its rows,
  select,        // then the choice. No other run may come between these two
  catch_up,      // the DFlash drafter's context of all rows so far
};
constexpr bool is_prompt(Play play) { return play < Play::round; }

// One of the sessions in a run.
struct Seat {
  std::int32_t slot = 0;
  graph::Chunk chunk{};                     // rows of a prompt; none in a round, whose rows follow from its state
  std::int32_t drafts = 0;                  // that a drafter adds to those of the state: round, draft
  bool block = false;                       // it is the DFlash drafter, and they are the first
  const graph::Request* request = nullptr;  // null = the largest logit
  RoundReport* report = nullptr;            // filled by await(); must stay until then, like what `request` points to
};

// Who looks on, and who may call it off.
struct Watch {
  const StepObserver* observe = nullptr;
  std::vector<StepTime>* times = nullptr;     // one is added for each step; the run may take longer for it
  const std::atomic<bool>* cancel = nullptr;  // once true, no further segment begins
};

// Runs are counted from 1.
using RunId = std::uint64_t;
inline constexpr RunId kNoRun = 0;

// What a run has left of one session, by row: of a round its rows, of a prompt its output window.
struct Outputs {
  const std::byte* hidden_data = nullptr;
  const std::byte* logits_data = nullptr;
  const std::byte* next_data = nullptr;
  std::size_t hidden_stride_bytes = 0, logits_stride_bytes = 0, next_stride_bytes = 0;
  std::size_t hidden_size = 0, vocab = 0;

  // [hidden], after the final norm
  std::span<const float> hidden(int row) const {
    return {reinterpret_cast<const float*>(hidden_data + hidden_stride_bytes * static_cast<std::size_t>(row)), hidden_size};
  }
  // [vocab]
  std::span<const float> logits(int row) const {
    return {reinterpret_cast<const float*>(logits_data + logits_stride_bytes * static_cast<std::size_t>(row)), vocab};
  }
  std::int32_t next(int row) const {
    return *reinterpret_cast<const std::int32_t*>(next_data + next_stride_bytes * static_cast<std::size_t>(row));
  }
};

// How far a session's block has been written.
struct SlotMarks {
  std::int32_t written = 0;                          // the furthest position that may ever have been is before this
  std::int32_t context_begin = 0, context_end = 0;   // positions that the DFlash drafter has K/V of
  std::int32_t kept_begin = 0, kept_end = 0;         // of the rounds' rows: their features are there, as far as they were accepted
};

// A session's block of memory: for_each_run() and for_each_dflash_run() say what lies where.
struct SlotMemory {
  std::span<std::byte> bytes{};
  SlotMarks* marks = nullptr;
};

// What was read stays allocated as long as `memory` is there: a virtual machine gives memory that was freed back to its host some
// seconds later, and everything stops meanwhile.
struct ReadLimit {
  double bytes_per_s = 0;
  std::shared_ptr<void> memory{};
};

// A picture or a sound as its tower takes it. values: [rows * columns, input width of the tower], row by row; a sound has one column.
struct Percept {
  graph::Sense sense{};
  std::int32_t rows = 0, columns = 0;
  std::span<const float> values{};
};

class Executor {
 public:
  virtual ~Executor() = default;

  // Plays a run for up to as many sessions as a round has rows. It may return before the run is done. Returns kNoRun when it was
  // cancelled before its last segment began. A run that throws has changed no state but what the caller can set back: drafts.
  virtual RunId submit(Play play, std::span<const Seat> seats, const Watch& watch = {}) = 0;

  // Waits for a run and fills its reports; runs behind it go on.
  virtual void await(RunId run) = 0;

  // Waits for a run; what it left is there until the next one that computes logits is submitted.
  virtual Outputs outputs(RunId run, int seat) const = 0;

  // The soft tokens of a picture or a sound. The tower's weights are bound at its first; no run may be in flight.
  // soft: [tokens, hidden]; tower: [tokens, tower width], the rows before the projector, or empty where nobody wants them
  virtual void perceive(const Percept& percept, std::span<float> soft, std::span<float> tower = {}) = 0;

  // Whether a round that needs nothing of the host (one run, no given drafts, no masks, the same request) may be submitted
  // behind another one of its sessions, before that has been awaited.
  virtual bool runs_ahead() const { return false; }

  // Read and written by the host while no run of the session is in flight.
  virtual graph::RoundState& state(int slot) = 0;

  // Whether all that a session sees from `length` on is still there: a sliding layer's ring keeps little more than a window.
  virtual bool keeps(int slot, std::int32_t length) const = 0;

  // The first `length` positions of a session to another one, with its state: what goes on there is what would have gone on here.
  // Refused where from does not keep them.
  virtual void copy_slot(int from, int to, std::int32_t length) = 0;

  // To save a session, and to put a saved one there. Used by the host while no run of the session is in flight.
  virtual SlotMemory slot_memory(int slot) = 0;

  // Whether rows of a prompt and rows of a round are computed by different kernels, so that the K/V of a token depend on which it was.
  virtual bool prompts_stand_apart() const { return false; }

  // K and V of one position as stored; k, v: [head_dim]
  virtual void read_kv(int slot, int layer, int kv_head, int position, std::span<float> k, std::span<float> v) const = 0;

  // How fast its device reads memory: what decoding is measured against. Takes a moment.
  virtual ReadLimit measure_read_limit() = 0;

  // How many numbers its device multiplies in a second: what towers are measured against. 0 where nobody knows.
  virtual double measure_product_limit() { return 0; }
};

}  // namespace lapidary::link
