// What threads do in a step: its kernel, over the rows that it has now.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "cpu/attention_bf16.hpp"
#include "cpu/bound_steps.hpp"
#include "cpu/instructions.hpp"
#include "cpu/kernels.hpp"
#include "cpu/team.hpp"
#include "graph/row.hpp"
#include "link/executor.hpp"
#include "link/slots.hpp"

namespace lapidary::cpu {

// A session of the run, and its rows among those that choose a token: of a round, of a prompt's output window, or of the drafts that
// are being made.
struct Guest {
  const link::Seat* seat = nullptr;
  graph::RoundState* state = nullptr;
  std::size_t first = 0, count = 0;
  link::Slots::Positions pending{};  // that the DFlash drafter gets its context of
  bool chooses = false;              // otherwise the largest logit
  graph::Selection selection{};
};

// The rows of a step, the first of them as it counts in the row table, and whose they are.
struct Now {
  Rows rows{};
  std::size_t first = 0;
  std::span<Guest> guests{};            // of a draft those that make one
  const graph::Chunk* chunk = nullptr;  // of a prompt
  const Q8Tile* quantised = nullptr;    // its rows, where all threads have quantised them together
};

class StepRunner {
 public:
  // Allocates room_bytes. All of these must outlive it.
  StepRunner(const link::Program& program, const Instructions& instructions, const BoundSteps& steps, Team& team);

  static std::size_t room_bytes(const link::Program& program);

  // Whether one thread does a step alone, or all do it together and meet within it.
  static bool is_for_one(graph::Op op, std::size_t rows);
  bool is_for_all(const CpuStep& bound, const Now& now) const;

  // The part of one thread: in a step, and in quantising its rows before it.
  void run(const CpuStep& bound, const Now& now, Part part);
  void quantise(const CpuStep& bound, const Now& now, Part part);

  // Carried rows lie with their sessions; those of several are brought together for a step, and back.
  void gather(const BoundOperand& operand, const Now& now);
  void scatter(const BoundOperand& operand, const Now& now);

  // Where the rows of an operand lie, and where those that a session carries do.
  std::byte* data(const BoundOperand& operand, const Now& now) const;
  static std::size_t stride(const BoundOperand& operand);
  std::byte* carried(const BoundOperand& operand, const Guest& guest) const;

 private:
  template <class T>
  RowsOf<T> rows(const BoundOperand& operand, const Now& now) const;
  void run_q8(const CpuStep& bound, const Now& now, Part part);
  void attend_coded(Rows rows, In q, const KvCacheCoded& cache, HeadShape shape, int window, Out out, Part part);
  void attend_bf16(Rows rows, In q, const link::KvCacheBf16& cache, HeadShape shape, int window, Out out, Part part);

  const link::Program& program_;
  const Instructions& instructions_;
  const BoundSteps& steps_;
  Team& team_;
  std::unique_ptr<AttentionRoom> attention_room_;  // where K/V are not float32
  std::vector<float> maxima_;                      // [verify_rows, kMaxStretches], of the logits computed last
  std::unique_ptr<std::byte[]> carries_;           // what drafts of several continue from, side by side
};

}  // namespace lapidary::cpu
