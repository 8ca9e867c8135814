#include "cpu/executor.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cpu/bound_steps.hpp"
#include "cpu/dflash_rows.hpp"
#include "cpu/kernels.hpp"
#include "cpu/product_limit.hpp"
#include "cpu/read_limit.hpp"
#include "cpu/step_runner.hpp"
#include "cpu/team.hpp"
#include "cpu/tower.hpp"
#include "link/play.hpp"
#include "link/slots.hpp"

namespace lapidary::cpu {
namespace {

using graph::BufferId;
using graph::Op;
using graph::Region;
using graph::RowSet;
using graph::RoundState;
using graph::SegmentId;
using graph::Step;
using link::Play;
using link::RunId;

// Where a run is. Changes between steps alone.
struct Progress {
  link::Legs legs;
  const link::Watch& watch;
  Now now{};
  std::size_t leg = 0, step = 0;      // the one that comes next
  const CpuStep* bound = nullptr;     // the one that is on
  bool quantises = false;             // its rows, before it
  Q8Tile quantised{};
  std::array<graph::SelectRow, graph::kMaxVerifyRows> select_rows{};
  double segment_begin_s = 0, step_begin_s = 0;
  bool cancelled = false;
};

double now_s() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

class CpuExecutor final : public link::Executor {
 public:
  CpuExecutor(const link::Program& program, const Instructions& instructions)
      : program_(program), instructions_(instructions), team_(program.plan.threads, program.backend_options.pin_threads),
        steps_(program, instructions, team_), runner_(program, instructions, steps_, team_), towers_(program, instructions, team_),
        slots_(program), states_(static_cast<std::size_t>(program.plan.sessions)) {}

  RunId submit(Play play, std::span<const link::Seat> seats, const link::Watch& watch) override {
    order_.follow(play, seats);
    seat(play, seats);
    Progress progress{.legs = {play, seats, link::DraftOrder::together, program_.drafters()}, .watch = watch, .now = {.chunk = chunk_}};
    team_.run([&] { return next_turn(progress); }, [&](Part part) { work(progress, part); });
    if (progress.cancelled) return link::kNoRun;
    ++submitted_;
    if (link::Legs::has_logits(play)) {
      outputs_of_ = submitted_;
      for (std::size_t s = 0; s < guests().size(); ++s) first_outputs_[s] = guests_[s].first;
    } else if (std::ranges::any_of(progress.legs, [](const link::Leg& leg) { return leg.segment == SegmentId::block; })) {
      outputs_of_ = link::kNoRun;  // a block has its logits in their place
    }
    if (link::Legs::chooses(play))
      for (const Guest& guest : guests())
        if (link::RoundReport* report = guest.seat->report) {
          report->result.accepted = guest.state->accepted;
          for (std::size_t i = 0; i <= static_cast<std::size_t>(guest.state->accepted); ++i)
            report->result.tokens[i] = *output_row<const std::int32_t>(graph::kNext, guest.first + i);
        }
    return submitted_;
  }

  void await(RunId) override {}  // a run is done when it has been submitted

  link::Outputs outputs(RunId run, int seat) const override {
    if (run != outputs_of_)
      fail(ErrorKind::usage, "outputs", "expected those of run " + std::to_string(outputs_of_) + ", got run " + std::to_string(run));
    const std::size_t first = first_outputs_[static_cast<std::size_t>(seat)];
    const graph::Segment& head = program_.graph->segment(SegmentId::head);
    const auto stride = [&](BufferId id) { return steps_.bind(head, id).stride_bytes; };
    return {output_row<const std::byte>(graph::kHidden, first), output_row<const std::byte>(graph::kLogits, first),
            output_row<const std::byte>(graph::kNext, first), stride(graph::kHidden), stride(graph::kLogits), stride(graph::kNext),
            static_cast<std::size_t>(program_.graph->shape.hidden), static_cast<std::size_t>(program_.graph->shape.vocab)};
  }

  void perceive(const link::Percept& percept, std::span<float> soft, std::span<float> tower) override {
    towers_.perceive(percept, soft, tower);
  }

  RoundState& state(int slot) override { return states_[slot]; }

  bool keeps(int slot, std::int32_t length) const override { return slots_.keeps(slot, length); }

  void copy_slot(int from, int to, std::int32_t length) override {
    slots_.copy(steps_.kv(), from, to, length);
    states_[to] = states_[from];
  }

  link::SlotMemory slot_memory(int slot) override {
    const std::size_t bytes = program_.plan.session_bytes;
    return {{steps_.kv() + bytes * static_cast<std::size_t>(slot), bytes}, &slots_.marks(slot)};
  }

  void read_kv(int slot, int layer, int kv_head, int position, std::span<float> k, std::span<float> v) const override {
    steps_.read_kv(slot, layer, kv_head, position, k, v);
  }

  link::ReadLimit measure_read_limit() override { return cpu::measure_read_limit(program_.plan.threads); }

  double measure_product_limit() override {
    return cpu::measure_product_limit(team_, instructions_, program_.numeric == link::Numeric::fast);
  }

 private:
  std::span<Guest> guests() { return std::span(guests_).first(guest_count_); }

  // Who is in the run, and which rows of the round or of the output window are whose. The rows of a round are known once its drafts
  // are; in the last of its three parts they are as before.
  void seat(Play play, std::span<const link::Seat> seats) {
    assert(!seats.empty() && seats.size() <= static_cast<std::size_t>(program_.plan.verify_rows) && (!is_prompt(play) || seats.size() == 1));
    guest_count_ = seats.size();
    chunk_ = is_prompt(play) ? &seats[0].chunk : nullptr;
    for (std::size_t s = 0; s < seats.size(); ++s) {
      Guest& guest = guests_[s];
      guest.seat = &seats[s];
      guest.state = &states_[seats[s].slot];
      const int slot = seats[s].slot;
      const std::int32_t length = guest.state->length, rows = guest.state->drafted + seats[s].drafts + 1;
      if (seats[s].block || play == Play::catch_up) guest.pending = slots_.catch_up(slot, length);
      if (play == Play::round || play == Play::verify) slots_.write_round(slot, length, length + rows);
    }
    if (!chunk_) return;
    assert(chunk_->output_count <= program_.plan.verify_rows);
    guests_[0].first = 0;
    guests_[0].count = static_cast<std::size_t>(chunk_->output_count);
    if (play == Play::head || play == Play::head_select) return;
    const std::int32_t begin = chunk_->rows.front().position;
    guests_[0].pending = slots_.catch_up(seats[0].slot, begin);
    slots_.write_prompt(seats[0].slot, begin, chunk_->rows.back().position + 1);
  }

  // Those that have a block made, with the rows of their drafts: the bonus token's comes before.
  std::span<Guest> blocks() {
    drafter_count_ = 0;
    std::size_t rows = 0;
    for (const Guest& guest : guests()) {
      if (!guest.seat->block || guest.seat->drafts == 0) continue;
      assert(drafter_count_ < drafters_.size());
      drafters_[drafter_count_++] = {.seat = guest.seat, .state = guest.state, .first = rows + 1, .count = static_cast<std::size_t>(guest.seat->drafts)};
      rows += static_cast<std::size_t>(guest.seat->drafts) + 1;
    }
    return std::span(drafters_).first(drafter_count_);
  }

  // Those that have more drafts to make than `draft`, a row for each.
  std::span<Guest> drafters_of(int draft) {
    drafter_count_ = 0;
    for (const Guest& guest : guests()) {
      if (guest.seat->block || guest.seat->drafts <= draft) continue;
      assert(drafter_count_ < drafters_.size());
      drafters_[drafter_count_] = {.seat = guest.seat, .state = guest.state, .first = drafter_count_, .count = 1};
      ++drafter_count_;
    }
    return std::span(drafters_).first(drafter_count_);
  }

  // What a team does in a run: everything between the steps, and those that are too small to share.
  Turn next_turn(Progress& progress) {
    if (std::exchange(progress.quantises, false)) return Turn::shared;  // the products are next
    for (;;) {
      if (progress.bound) finish_step(progress);
      if (!begin_step(progress)) return Turn::end;
      const CpuStep& bound = *progress.bound;
      if (bound.step->op == Op::round_rows) {
        make_rows(progress);
      } else if (StepRunner::is_for_one(bound.step->op, progress.now.rows.size())) {
        runner_.run(bound, progress.now, Part{});
      } else if (bound.q8) {
        const int n = static_cast<int>(progress.now.rows.size());
        progress.quantises = quantises_together(n, bound.products(), Part{0, team_.size()});
        const Q8Weights w = bound.products()[0].weights();
        const Q8Room& room = steps_.room(0);
        progress.quantised = {.form = w.format.form(), .rows = n, .cols = w.cols, .q = room.q, .factors = room.factors};
        progress.now.quantised = progress.quantises ? &progress.quantised : nullptr;
        return Turn::shared;
      } else {
        return runner_.is_for_all(bound, progress.now) ? Turn::everyone : Turn::shared;
      }
    }
  }

  std::span<Guest> guests_of(const link::Leg& leg) {
    switch (leg.segment) {
      case SegmentId::draft: return drafters_of(leg.draft);
      case SegmentId::block: return blocks();
      case SegmentId::catch_up: return guests().subspan(static_cast<std::size_t>(leg.seat), 1);
      default: return guests();
    }
  }

  // The next step that has rows. False: there is none, or the run was cancelled.
  bool begin_step(Progress& progress) {
    for (; progress.leg < progress.legs.size(); ++progress.leg, progress.step = 0) {
      const link::Leg& leg = progress.legs[progress.leg];
      if (progress.step == 0) {
        progress.cancelled = progress.watch.cancel && progress.watch.cancel->load(std::memory_order_relaxed);
        if (progress.cancelled) return false;
        progress.segment_begin_s = progress.step_begin_s = now_s();
        progress.now.guests = guests_of(leg);
      }
      for (const auto steps = steps_.of(leg.segment); progress.step < steps.size();) {
        progress.bound = &steps[progress.step++];
        progress.now.first = 0;
        progress.now.rows = rows_of(*progress.bound->step, progress.now.first);
        if (progress.bound->step->op == Op::round_rows || !progress.now.rows.empty()) {
          if (progress.bound->step->op == Op::sample) fill_selections(progress);
          if (progress.bound->step->op == Op::embed_pair) runner_.gather(progress.bound->in[0], progress.now);
          return true;
        }
      }
      const bool drafts = leg.segment == SegmentId::draft || leg.segment == SegmentId::block;
      const auto shared = drafts ? static_cast<double>(progress.now.guests.size()) : 1.0;
      const double spent_s = (now_s() - progress.segment_begin_s) / shared;
      for (const Guest& guest : progress.now.guests)
        if (guest.seat->report) guest.seat->report->seconds[static_cast<std::size_t>(leg.segment)] += spent_s;
    }
    return false;
  }

  void finish_step(Progress& progress) {
    const CpuStep& bound = *progress.bound;
    const link::Watch& watch = progress.watch;
    if (bound.step->rows == RowSet::draft && bound.out[0].region == Region::session) runner_.scatter(bound.out[0], progress.now);
    if (watch.observe && bound.step->op != Op::round_rows) (*watch.observe)(result_of(bound, progress.now));
    if (!watch.times) return;
    const double end_s = now_s();
    watch.times->push_back({progress.legs[progress.leg].segment, bound.step, progress.now.rows.size(),
                            std::exchange(progress.step_begin_s, end_s), end_s});
  }

  void make_rows(Progress& progress) {
    const Step& step = *progress.bound->step;
    if (step.rows == RowSet::draft) {
      for (const Guest& guest : progress.now.guests) draft_row(*guest.state, guest.seat->slot, draft_rows_[guest.first], Part{});
    } else if (step.rows == RowSet::block) {
      for (const Guest& guest : progress.now.guests)  // the bonus token's row comes before those of the drafts
        dflash_rows_.add_block(*guest.state, guest.seat->slot, program_.graph->dflash->mask_token,
                               slots_.marks(guest.seat->slot).context_begin, guest.first - 1, guest.count + 1);
    } else if (step.rows == RowSet::pending) {
      const Guest& guest = progress.now.guests.front();
      dflash_rows_.fetch_pending(guest.seat->slot, guest.pending, runner_.carried(progress.bound->in[0], guest), progress.bound->out[0]);
    } else {
      round_count_ = 0;
      for (Guest& guest : progress.now.guests) {
        guest.first = round_count_;
        guest.count = static_cast<std::size_t>(guest.state->drafted) + 1;
        verify_rows(*guest.state, guest.seat->slot, std::span(round_rows_).subspan(guest.first, guest.count), Part{});
        round_count_ += guest.count;
      }
    }
    progress.now.rows = rows_of(step, progress.now.first);
  }

  // The part of one thread in the step that is on.
  void work(const Progress& progress, Part part) {
    const CpuStep& bound = *progress.bound;
    if (progress.quantises) runner_.quantise(bound, progress.now, part);
    else runner_.run(bound, progress.now, part);
  }

  // `first`: the number of the first of them in the row table
  Rows rows_of(const Step& step, std::size_t& first) const {
    switch (step.rows) {
      case RowSet::draft: return Rows(draft_rows_).first(drafter_count_);
      case RowSet::pending: return dflash_rows_.pending();
      case RowSet::block: return dflash_rows_.block();
      case RowSet::block_causal: return dflash_rows_.block_causal();
      default: break;
    }
    const Rows all = chunk_ ? chunk_->rows : Rows(round_rows_).first(round_count_);
    if (!chunk_ || step.rows != RowSet::last) return all;
    first = chunk_->output_begin;
    return all.subspan(first, chunk_->output_count);
  }

  // Row r of a session's round chooses the token after r drafts; a draft comes after those that are there. The drafts of a block do
  // not know each other.
  static void fill_selections(Progress& progress) {
    const bool draft = progress.bound->step->rows == RowSet::draft, block = progress.bound->step->rows == RowSet::block;
    for (Guest& guest : progress.now.guests) {
      guest.chooses = guest.seat->request != nullptr;
      if (!guest.chooses) continue;
      const graph::Request& request = *guest.seat->request;
      const RoundState& state = *guest.state;
      const std::size_t words = request.masks.size() / guest.count;
      for (std::size_t r = 0; r < guest.count; ++r) {
        const std::size_t drafts = draft ? static_cast<std::size_t>(state.drafted) : r;
        graph::SelectRow& row = progress.select_rows[guest.first + r];
        row = {.index = state.emitted + static_cast<std::int64_t>(drafts), .drafted = std::span(state.drafts).first(block ? 0 : drafts)};
        if (!draft && !block && !request.masks.empty()) row.mask = request.masks.subspan(r * words, words);
      }
      guest.selection = {request.sampling, request.counts, std::span(progress.select_rows).subspan(guest.first, guest.count)};
    }
  }

  link::StepResult result_of(const CpuStep& bound, const Now& now) const {
    link::StepResult result{.step = *bound.step, .rows = now.rows.size()};
    for (std::size_t i = 0; i < bound.out.size(); ++i) {
      const BoundOperand& operand = bound.out[i];
      if (operand.data) result.out[i] = {runner_.data(operand, now), operand.row_bytes, StepRunner::stride(operand)};
    }
    return result;
  }

  template <class T>
  const T* output_row(BufferId id, std::size_t output) const {
    const BoundOperand at = steps_.bind(program_.graph->segment(SegmentId::head), id);
    return reinterpret_cast<const T*>(at.data + at.stride_bytes * output);
  }

  const link::Program& program_;
  const Instructions& instructions_;
  Team team_;
  BoundSteps steps_;
  StepRunner runner_;
  Towers towers_;
  link::Slots slots_;
  std::vector<RoundState> states_;                                      // by session slot
  std::array<graph::Row, graph::kMaxVerifyRows> round_rows_{};
  std::size_t round_count_ = 0;
  std::array<graph::Row, link::kMaxDrafters> draft_rows_{};
  DFlashRows dflash_rows_;
  std::array<Guest, link::kMaxDrafters> drafters_{};                    // that make drafts now
  std::size_t drafter_count_ = 0;
  std::array<Guest, graph::kMaxVerifyRows> guests_{};                   // of the run
  std::size_t guest_count_ = 0;
  const graph::Chunk* chunk_ = nullptr;                                 // of a prompt
  link::PlayOrder order_;
  RunId submitted_ = 0, outputs_of_ = 0;                                // the last run, the last that left logits
  std::array<std::size_t, graph::kMaxVerifyRows> first_outputs_{};      // of that, by seat
};

}  // namespace

std::unique_ptr<link::Executor> make_executor(const link::Program& program, const Instructions& instructions) {
  return std::make_unique<CpuExecutor>(program, instructions);
}

std::size_t room_bytes(const link::Program& program) { return StepRunner::room_bytes(program); }

}  // namespace lapidary::cpu
