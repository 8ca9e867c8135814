#include "cpu/executor.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cpu/attention_bf16.hpp"
#include "cpu/attention_coded.hpp"
#include "cpu/bound_steps.hpp"
#include "cpu/dflash_rows.hpp"
#include "cpu/kernels.hpp"
#include "cpu/linear_q8.hpp"
#include "cpu/maxima.hpp"
#include "cpu/product_limit.hpp"
#include "cpu/q8_steps.hpp"
#include "cpu/read_limit.hpp"
#include "cpu/team.hpp"
#include "cpu/tower.hpp"
#include "cpu/tower_kernels.hpp"
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

// A session of the run, and its rows among those that choose a token: of a round, of a prompt's output window, or of the drafts that
// are being made.
struct Guest {
  const link::Seat* seat = nullptr;
  RoundState* state = nullptr;
  std::size_t first = 0, count = 0;
  link::Slots::Positions pending{};    // that the DFlash drafter gets its context of
  bool chooses = false;                // otherwise the largest logit
  graph::Selection selection{};
};

// The rows of a step, the first of them as it counts in the row table, and whose they are.
struct Now {
  Rows rows{};
  std::size_t first = 0;
  std::span<Guest> guests{};          // of a draft those that make one
  const Q8Tile* quantised = nullptr;  // its rows, where all threads have quantised them together
};

// Where a run is. Changes between steps alone.
struct Progress {
  link::Legs legs;
  const link::Watch& watch;
  Now now{};
  std::size_t leg = 0, step = 0;      // the one that comes next
  const CpuStep* bound = nullptr;   // the one that is on
  bool quantises = false;             // its rows, before it
  Q8Tile quantised{};
  std::array<graph::SelectRow, graph::kMaxVerifyRows> select_rows{};
  double segment_begin_s = 0, step_begin_s = 0;
  bool cancelled = false;
};

// Carried rows of all that may draft in a round.
std::size_t carry_stride(std::size_t row_bytes) { return static_cast<std::size_t>(graph::row_stride(static_cast<std::int64_t>(row_bytes))); }
std::size_t carries_bytes(const link::Program& program) {
  return program.assistant ? link::kMaxDrafters * carry_stride(static_cast<std::size_t>(program.graph->shape.hidden) * sizeof(float)) : 0;
}

// Where threads may attend together.
bool has_attention_room(const link::Program& program) { return program.plan.kv_format != link::kKvF32; }

double now_s() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

class CpuExecutor final : public link::Executor {
 public:
  CpuExecutor(const link::Program& program, const Instructions& instructions)
      : program_(program), instructions_(instructions), team_(program.plan.threads, program.backend_options.pin_threads),
        steps_(program, instructions, team_), towers_(program, instructions, team_), slots_(program), states_(static_cast<std::size_t>(program.plan.sessions)),
        maxima_(static_cast<std::size_t>(program.plan.verify_rows) * kMaxStretches),
        carries_(std::make_unique<std::byte[]>(carries_bytes(program))) {
    if (has_attention_room(program)) attention_room_ = std::make_unique<AttentionRoom>();
  }

  RunId submit(Play play, std::span<const link::Seat> seats, const link::Watch& watch) override {
    order_.follow(play, seats);
    seat(play, seats);
    Progress progress{.legs = {play, seats, link::DraftOrder::together, program_.drafters()}, .watch = watch};
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
    return cpu::measure_product_limit(team_, program_.numeric == link::Numeric::fast ? instructions_.tower_products : nullptr);
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

  // Carried rows lie with their sessions; those of several are brought together for a step, and back.
  void gather(const BoundOperand& operand, const Now& now) {
    if (now.guests.size() == 1) return;
    for (const Guest& guest : now.guests)
      std::memcpy(row_data(operand, now) + guest.first * stride_of(operand), carried(operand, guest), operand.row_bytes);
  }

  void scatter(const BoundOperand& operand, const Now& now) {
    if (now.guests.size() == 1) return;
    for (const Guest& guest : now.guests)
      std::memcpy(carried(operand, guest), row_data(operand, now) + guest.first * stride_of(operand), operand.row_bytes);
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
      } else if (is_for_one(bound.step->op, progress.now.rows.size())) {
        execute(bound, progress.now, Part{});
      } else if (bound.q8) {
        const int n = static_cast<int>(progress.now.rows.size());
        progress.quantises = quantises_together(n, matrices_of(bound), Part{0, team_.size()});
        const Q8Weights w = matrices_of(bound)[0].weights();
        const Q8Room& room = steps_.room(0);
        progress.quantised = {.form = w.format.form(), .rows = n, .cols = w.cols, .q = room.q, .factors = room.factors};
        progress.now.quantised = progress.quantises ? &progress.quantised : nullptr;
        return Turn::shared;
      } else {
        return attends_with_all(bound, progress.now) ? Turn::everyone : Turn::shared;
      }
    }
  }

  // A row is the work of one thread in these, or all rows are.
  static bool is_for_one(Op op, std::size_t rows) {
    switch (op) {
      case Op::keep_draft:
      case Op::keep_block:
      case Op::accept: return true;
      case Op::keep_tap:
      case Op::add_norm:
      case Op::embed:
      case Op::embed_pair:
      case Op::rope_angles:
      case Op::rms_norm:
      case Op::residual_norm:
      case Op::route:
      case Op::moe_combine:
      case Op::top:
      case Op::sample: return rows == 1;
      default: return false;
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
          if (progress.bound->step->op == Op::embed_pair) gather(progress.bound->in[0], progress.now);
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
    if (bound.step->rows == RowSet::draft && bound.out[0].region == Region::session) scatter(bound.out[0], progress.now);
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
      dflash_rows_.fetch_pending(guest.seat->slot, guest.pending, carried(progress.bound->in[0], guest), progress.bound->out[0]);
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
    if (progress.quantises)
      quantise_together(static_cast<int>(progress.now.rows.size()), rows<const float>(bound.in[0], progress.now), matrices_of(bound)[0],
                        steps_.room(0), part);
    else execute(bound, progress.now, part);
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
      if (operand.data) result.out[i] = {row_data(operand, now), operand.row_bytes, stride_of(operand)};
    }
    return result;
  }

  std::byte* row_data(const BoundOperand& operand, const Now& now) const {
    if (operand.region == Region::rows || operand.region == Region::features) return operand.data + now.first * operand.stride_bytes;
    if (operand.region == Region::session) return now.guests.size() > 1 ? carries_.get() : carried(operand, now.guests.front());
    return operand.data;
  }

  static std::size_t stride_of(const BoundOperand& operand) {
    return operand.region == Region::session ? carry_stride(operand.row_bytes) : operand.stride_bytes;
  }

  std::byte* carried(const BoundOperand& operand, const Guest& guest) const {
    return operand.data + guest.seat->slot * program_.plan.session_bytes;
  }

  template <class T>
  RowsOf<T> rows(const BoundOperand& operand, const Now& now) const {
    if (!operand.data) return {};
    return {reinterpret_cast<T*>(row_data(operand, now)), stride_of(operand) / sizeof(T)};
  }

  template <class T>
  const T* output_row(BufferId id, std::size_t output) const {
    const BoundOperand at = steps_.bind(program_.graph->segment(SegmentId::head), id);
    return reinterpret_cast<const T*>(at.data + at.stride_bytes * output);
  }

  void execute(const CpuStep& bound, const Now& now, Part part) {
    const Step& step = *bound.step;
    const graph::Dims& d = *step.dims;
    const Rows rows_now = now.rows;
    const int n = static_cast<int>(rows_now.size());
    const auto in = [&](int i) { return rows<const float>(bound.in[i], now); };
    const auto out = [&](int i) { return rows<float>(bound.out[i], now); };
    const auto in_ids = [&](int i) { return rows<const std::int32_t>(bound.in[i], now); };
    const auto out_ids = [&](int i) { return rows<std::int32_t>(bound.out[i], now); };
    const auto matrix = [&](int i) -> const link::Matrix& { return *bound.matrices[i]; };
    const auto& w = bound.vectors;
    const HeadShape heads{d.heads, d.kv_heads, d.head_dim};
    const FloatProducts& products = *instructions_.float_products;

    if (bound.q8) return execute_q8(bound, now, part);
    switch (step.op) {
      case Op::round_rows: return;  // made before anything goes by them
      case Op::embed: {
        const In soft{chunk_ ? chunk_->soft.data() : nullptr, static_cast<std::size_t>(matrix(0).cols)};
        return embed(rows_now, soft, matrix(0), d.scale, out(0), part);
      }
      case Op::embed_pair: return embed_pair(rows_now, matrix(0), d.scale, in(0), out(0), part);
      case Op::rope_angles: return rope_angles(rows_now, bound.constants, out(0), part);
      case Op::rms_norm: return rms_norm(n, in(0), w[0], d.n[0], d.epsilon, out(0), part);
      case Op::linear:
        return linear(products, n, in(0), std::span(bound.matrices).first(bound.matrix_count), out(0), part);
      case Op::linear_gelu_mul: return linear_gelu_mul(products, n, in(0), matrix(0), matrix(1), out(0), part);
      case Op::linear_silu_mul: return linear_silu_mul(products, n, in(0), matrix(0), matrix(1), out(0), part);
      case Op::linear_gelu_gate: {
        In factor = in(1);
        factor.data += d.offset;
        return linear_gelu_gate(products, n, in(0), matrix(0), factor, out(0), part);
      }
      case Op::linear_softcap: return linear_softcap(products, n, in(0), matrix(0), d.scale, out(0), part);
      case Op::qkv_norm_rope:
        if (bound.cache_coded)
          return qkv_norm_rope_coded(rows_now, in(0), in(1), w[0], w[1], heads, d.values_are_keys, d.epsilon, *bound.cache_coded,
                                     out(0), part);
        if (program_.numeric == link::Numeric::fast)
          return qkv_norm_rope_bf16(rows_now, in(0), in(1), w[0], w[1], heads, d.values_are_keys, d.epsilon, bound.cache_bf16,
                                    out(0), part);
        return qkv_norm_rope(rows_now, in(0), in(1), w[0], w[1], heads, d.values_are_keys, d.epsilon, bound.cache, out(0),
                             part);
      case Op::block_qkv:
        if (bound.cache_bf16)
          return block_qkv_bf16(rows_now, in(0), in(1), w[0], w[1], heads, d.scale, d.epsilon, *bound.cache_bf16, out(0), part);
        return block_qkv(rows_now, in(0), in(1), w[0], w[1], heads, d.scale, d.epsilon, *bound.cache, out(0), part);
      case Op::attention:
        if (bound.cache_coded) return attend_coded(rows_now, in(0), *bound.cache_coded, heads, d.window, out(0), part);
        if (bound.cache_bf16) return attend_bf16(rows_now, in(0), *bound.cache_bf16, heads, d.window, out(0), part);
        return attention(rows_now, in(0), *bound.cache, heads, d.window, out(0), part);
      case Op::residual_norm: {
        std::array<NormOutput, 3> outputs;
        std::size_t count = 0;
        for (; count < outputs.size() && bound.out[count + 1].data; ++count)
          outputs[count] = {w[count + 2], d.scaled_output == static_cast<int>(count) + 1 ? d.scale : 1.0f,
                            out(static_cast<int>(count) + 1)};
        return residual_norm(n, out(0), in(1), w[0], w[1], d.n[0], d.epsilon, std::span(outputs).first(count), part);
      }
      case Op::ple_inputs:
        return ple_inputs(rows_now, in(0), matrix(0), w[1], d.n[1], d.n[0], d.scale, d.scale2, d.epsilon, out(0), part);
      case Op::route: return route(n, in(0), w[0], d.experts, d.experts_used, out_ids(0), out(1), part);
      case Op::expert_gelu_mul:
        return expert_gelu_mul(products, n, in(0), in_ids(1), d.experts_used, matrix(0), matrix(1), out(0), part);
      case Op::expert_linear: return expert_linear(products, n, in(0), in_ids(1), d.experts_used, matrix(0), out(0), part);
      case Op::moe_combine:
        return moe_combine(n, out(0), in(1), in(2), in(3), d.experts_used, {w[0], w[1], w[2], w[3], w[4]}, d.n[0], d.epsilon,
                           out(1), part);
      case Op::top: return top(n, in(0), d.experts, d.experts_used, out_ids(0), part);
      case Op::cluster_logits:
        return cluster_logits(products, n, in(0), in_ids(1), d.experts_used, d.n[0], matrix(0), bound.ids[1], out(0), out_ids(1), part);
      case Op::sample: {
        const In maxima = bound.has_maxima ? In{maxima_.data(), kMaxStretches} : In{};
        for (const Guest& guest : now.guests)
          sample(static_cast<int>(guest.count), in(0).from(guest.first), in_ids(1).from(guest.first), d.n[0], maxima.from(guest.first),
                 guest.chooses ? &guest.selection : nullptr, out_ids(0).from(guest.first), out(1).from(guest.first),
                 out_ids(2).from(guest.first), part);
        return;
      }
      case Op::keep_draft:
        for (const Guest& guest : now.guests) keep_draft(in_ids(0)[static_cast<int>(guest.first)][0], *guest.state, part);
        return;
      case Op::accept:
        for (const Guest& guest : now.guests)
          accept(rows_now.subspan(guest.first, guest.count), in_ids(0).from(guest.first), in(1).from(guest.first), d.n[0], *guest.state,
                 guest.seat->request ? guest.seat->request->counts : std::span<std::int32_t>{},
                 reinterpret_cast<float*>(carried(bound.out[0], guest)), part);
        if (program_.dflash)
          for (const Guest& guest : now.guests)
            keep_features(rows_now.subspan(guest.first, guest.count), in(2).from(guest.first), static_cast<int>(bound.in[2].row_bytes / sizeof(float)),
                          *guest.state, reinterpret_cast<float*>(carried(bound.out[1], guest)), part);
        return;
      case Op::keep_tap: return keep_tap(n, in(0), d.n[0], d.offset, out(0), part);
      case Op::keep_block:
        for (const Guest& guest : now.guests) keep_block(static_cast<int>(guest.count), in_ids(0).from(guest.first), *guest.state, part);
        return;
      case Op::add_norm: return add_norm(n, out(0), in(1), w[0], d.n[0], d.epsilon, out(1), part);
      default: assert(false && "no step of a text");
    }
  }

  bool attends_with_all(const CpuStep& bound, const Now& now) const {
    const graph::Dims& d = *bound.step->dims;
    const bool can = bound.cache_coded || (bound.cache_bf16 && instructions_.attention->together);
    return bound.step->op == Op::attention && can &&
           attends_together(now.rows, {d.heads, d.kv_heads, d.head_dim}, d.window, Part{0, team_.size()});
  }

  void attend_coded(Rows rows, In q, const KvCacheCoded& cache, HeadShape shape, int window, Out out, Part part) {
    const CodedAttentionKernels& kernels =
        program_.numeric == link::Numeric::exact ? kExactCodedAttention : *instructions_.coded_attention;
    if (!attends_together(rows, shape, window, part)) return attention_coded(rows, q, cache, shape, window, out, part, kernels);
    for_each_job(rows, q, shape, window, out, {0, pairs_of_heads(rows, shape)}, [&](const AttentionJob& job) {
      AttentionState state;
      kernels.together.begin(job, cache, state, *attention_room_, part);
      for_each_chunk(job, [&](Range chunk) {
        team_.sync();
        kernels.together.score(job, cache, chunk, state, *attention_room_, part);
        team_.sync();
        kernels.together.weigh(job, cache, chunk, state, *attention_room_, part);
        team_.sync();
        kernels.together.mix(job, cache, chunk, state, *attention_room_, part);
      });
      team_.sync();
      kernels.together.finish(job, cache, state, *attention_room_, part);
    });
  }

  void attend_bf16(Rows rows, In q, const link::KvCacheBf16& cache, HeadShape shape, int window, Out out, Part part) {
    const AttendTogether* const together = instructions_.attention->together;
    if (!together || !attends_together(rows, shape, window, part))
      return attention_bf16(rows, q, cache, shape, window, out, part, *instructions_.attention);
    bool begun = false;
    for_each_job(rows, q, shape, window, out, {0, pairs_of_heads(rows, shape)}, [&](const AttentionJob& job) {
      AttentionState state;
      for_each_chunk(job, [&](Range chunk) {
        if (std::exchange(begun, true)) team_.sync();
        together->score(job, cache, chunk, state, *attention_room_, part);
        team_.sync();
        together->weigh(job, cache, chunk, state, *attention_room_, part);
        team_.sync();
        together->mix(job, cache, chunk, state, *attention_room_, part);
      });
    });
  }

  static std::span<const Q8Matrix> matrices_of(const CpuStep& bound) {
    return std::span(bound.q8_matrices).first(bound.matrix_count);
  }

  void execute_q8(const CpuStep& bound, const Now& now, Part part) {
    const Step& step = *bound.step;
    const graph::Dims& d = *step.dims;
    const int n = static_cast<int>(now.rows.size());
    const In in = rows<const float>(bound.in[0], now);
    const Out out = rows<float>(bound.out[0], now);
    const auto w = matrices_of(bound);
    Q8Room room = steps_.room(part.index);
    room.ready = now.quantised;
    switch (step.op) {
      case Op::linear: return linear_q8(n, in, w, out, room, part);
      case Op::linear_gelu_mul: return linear_gelu_mul_q8(n, in, w[0], w[1], out, room, part);
      case Op::linear_silu_mul: return linear_silu_mul_q8(n, in, w[0], w[1], out, room, part);
      case Op::linear_gelu_gate: {
        In factor = rows<const float>(bound.in[1], now);
        factor.data += d.offset;
        return linear_gelu_gate_q8(n, in, w[0], factor, out, room, part);
      }
      case Op::linear_softcap: return linear_softcap_q8(n, in, w[0], d.scale, out, {maxima_.data(), kMaxStretches}, room, part);
      case Op::expert_gelu_mul:
        return expert_gelu_mul_q8(n, in, rows<const std::int32_t>(bound.in[1], now), d.experts_used, w[0], w[1], out, room, part);
      case Op::expert_linear:
        return expert_linear_q8(n, in, rows<const std::int32_t>(bound.in[1], now), d.experts_used, w[0], out, room, part);
      default: assert(false && "no such product");
    }
  }

  const link::Program& program_;
  const Instructions& instructions_;
  Team team_;
  BoundSteps steps_;
  Towers towers_;
  std::unique_ptr<AttentionRoom> attention_room_;                       // where K/V are not float32
  link::Slots slots_;
  std::vector<RoundState> states_;                                      // by session slot
  std::vector<float> maxima_;                                           // [verify_rows, kMaxStretches], of the logits computed last
  std::array<graph::Row, graph::kMaxVerifyRows> round_rows_{};
  std::size_t round_count_ = 0;
  std::array<graph::Row, link::kMaxDrafters> draft_rows_{};
  DFlashRows dflash_rows_;
  std::array<Guest, link::kMaxDrafters> drafters_{};                    // that make drafts now
  std::size_t drafter_count_ = 0;
  std::unique_ptr<std::byte[]> carries_;                                // what drafts of several continue from, side by side
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

std::size_t room_bytes(const link::Program& program) {
  const std::size_t attention_bytes = has_attention_room(program) ? sizeof(AttentionRoom) : 0;
  return attention_bytes + program.plan.verify_rows * kMaxStretches * sizeof(float) + carries_bytes(program);
}

}  // namespace lapidary::cpu
