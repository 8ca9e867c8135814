#include "metal/executor.hpp"

#include <algorithm>
#include <cassert>
#include <deque>
#include <map>
#include <optional>

#include "checkpoint/error.hpp"
#include "link/percept.hpp"
#include "link/play.hpp"
#include "link/slots.hpp"
#include "metal/backend.hpp"
#include "metal/capture.hpp"
#include "metal/read_limit.hpp"
#include "metal/replay.hpp"
#include "metal/run_rows.hpp"
#include "metal/signpost.hpp"
#include "metal/step_clock.hpp"
#include "metal/tower.hpp"
#include "numeric/bf16.hpp"

namespace lapidary::metal {
namespace {

using graph::RoundState;
using graph::SegmentId;
using link::Play;
using link::RunId;
using link::Seat;

Work work_of(Play play) {
  if (is_prompt(play)) return Work::prefill;
  return play == Play::draft || play == Play::catch_up ? Work::draft : Work::verify;
}

class MetalExecutor final : public link::Executor {
 public:
  MetalExecutor(const link::Program& program, const CaptureOptions& capture)
      : program_(program), capture_(capture), gpu_(archive_path()), files_(gpu_, program),
        weights_(gpu_, files_, *program.graph, {program.matrices, program.vectors, program.ids}), memory_(gpu_, program),
        recorder_(gpu_, program, weights_, memory_), towers_(gpu_, program, files_), slots_(program),
        done_(NS::TransferPtr(gpu_.device()->newSharedEvent())) {
    make_resident();
    for (std::size_t i = 0; i < begins_.size(); ++i) gpu_.prepare(begins_[i] = begin_run(memory_.ring[i], memory_.now));
    for (int id = 0; id < graph::kSegmentCount; ++id)
      for (const graph::Step& step : program.graph->segments[static_cast<std::size_t>(id)].steps)
        segment_bytes_[static_cast<std::size_t>(id)] += static_cast<double>(link::weight_bytes(program, step));
    // Whatever a text may need, so that nothing is compiled in the middle of one.
    recording({SegmentId::prefill, program.plan.chunk_rows, 1});
    for (int rows = 1; rows <= program.plan.verify_rows; ++rows)
      for (const SegmentId id : {SegmentId::head, SegmentId::select}) prepare({id, rows, 1});
    for (int ranges = 1; ranges <= kv_ranges(program.plan.context_tokens); ranges *= 2) {
      for (int rows = 1; rows <= program.plan.verify_rows; ++rows) prepare({SegmentId::forward, rows, ranges});
      if (program.assistant) prepare({SegmentId::draft, 1, ranges});
      for (int rows = 2; program.dflash && rows <= program.plan.verify_rows; ++rows) prepare({SegmentId::block, rows, ranges});
    }
    if (program.dflash) {
      recording({SegmentId::extend, program.plan.chunk_rows, 1});
      recording({SegmentId::catch_up, graph::kPendingRows, 1});
      for (int rows = 1; rows <= program.plan.verify_rows; ++rows) prepare({SegmentId::catch_up, rows, 1});
    }
    gpu_.keep_pipelines();
  }

  ~MetalExecutor() override {
    if (landed_.commands) landed_.commands->waitUntilCompleted();
    for (const Flight& flight : flights_) flight.commands->waitUntilCompleted();
  }

  RunId submit(Play play, std::span<const Seat> seats, const link::Watch& watch) override {
    if (watch.cancel && watch.cancel->load(std::memory_order_relaxed)) return link::kNoRun;
    order_.follow(play, seats);
    const bool is_round = play == Play::round || play == Play::verify;
    if (capture_.path.empty() || !is_round || ++rounds_ != capture_.round) {
      this->play(play, seats, watch);
    } else {
      wait();
      const Capture capture(gpu_, capture_.path);
      this->play(play, seats, watch);
      wait();
      settle();
    }
    if (link::Legs::has_logits(play)) outputs_of_ = runs_;
    else if (std::ranges::any_of(seats, has_block)) outputs_of_ = link::kNoRun;  // a block has its logits in their place
    return runs_;
  }

  bool runs_ahead() const override { return true; }

  void await(RunId run) override {
    while (!flights_.empty() && flights_.front().run <= run) land();
    settle();
  }

  link::Outputs outputs(RunId run, int seat) const override {
    if (run != outputs_of_)
      fail(ErrorKind::usage, "outputs", "expected those of run " + std::to_string(outputs_of_) + ", got run " + std::to_string(run));
    wait();
    const std::size_t first = first_outputs_[static_cast<std::size_t>(seat)];
    const graph::Segment& segment = program_.graph->segment(SegmentId::head);
    const auto bound = [&](graph::BufferId id) { return recorder_.bind_operand(segment, segment.steps.back(), id); };
    const auto stride = [&](graph::BufferId id) { return static_cast<std::size_t>(bound(id).operand.row_bytes); };
    const auto data = [&](graph::BufferId id) { return contents<std::byte>(bound(id).slice) + stride(id) * first; };
    return {data(graph::kHidden), data(graph::kLogits), data(graph::kNext), stride(graph::kHidden), stride(graph::kLogits),
            stride(graph::kNext), static_cast<std::size_t>(program_.graph->shape.hidden),
            static_cast<std::size_t>(program_.graph->shape.vocab)};
  }

  void perceive(const link::Percept& percept, std::span<float> soft, std::span<float> tower_rows) override {
    const graph::Tower& tower = link::tower_for(program_, percept, soft.size(), tower_rows.size());
    const Pool pool;
    wait();
    towers_.take(tower, percept);
    commit({.commands = {}, .work = Work::perceive, .interval = {}}, "percept",
           [&](MTL::ComputeCommandEncoder* encoder) { towers_.encode(encoder, tower, percept); });
    wait();
    towers_.give(tower, soft, tower_rows);
  }

  RoundState& state(int slot) override {
    while (last_flight(slot)) land();
    return contents<RoundState>(memory_.states)[slot];
  }

  bool keeps(int slot, std::int32_t length) const override { return slots_.keeps(slot, length); }

  void copy_slot(int from, int to, std::int32_t length) override {
    wait();
    slots_.copy(contents<std::byte>(memory_.kv), from, to, length);
    RoundState* states = contents<RoundState>(memory_.states);
    states[to] = states[from];
  }

  link::SlotMemory slot_memory(int slot) override {
    wait();
    const std::size_t bytes = program_.plan.session_bytes;
    return {{contents<std::byte>(memory_.kv) + bytes * static_cast<std::size_t>(slot), bytes}, &slots_.marks(slot)};
  }

  void read_kv(int slot, int layer, int kv_head, int position, std::span<float> k, std::span<float> v) const override {
    wait();
    const link::KvPlacement& kv = program_.plan.kv[static_cast<std::size_t>(layer)];
    const std::byte* session = contents<std::byte>(memory_.kv) + program_.plan.session_bytes * static_cast<std::size_t>(slot);
    const auto head = static_cast<std::size_t>(kv_head * kv.capacity);
    link::read_kv(kv.stores, session + kv.k_offset_bytes + head * kv.stores.key_bytes(),
                  session + kv.v_offset_bytes + head * kv.stores.value_bytes(), position % kv.capacity,
                  kv.stores.one ? link::key_norm(program_, layer) : nullptr, k, v);
  }

  bool prompts_stand_apart() const override { return true; }

  link::ReadLimit measure_read_limit() override {
    wait();
    return {metal::measure_read_limit(gpu_)};
  }

 private:
  // Of one session in a run.
  struct Passenger {
    int slot = 0;
    int most_length = 0;                  // of the session after it: RoundState::length
    std::span<std::int32_t> counts{};     // the caller's, to be brought up to date
    link::RoundReport* report = nullptr;  // likewise
    link::SegmentSeconds parts{};         // of the time of each segment
  };
  using Passengers = std::array<Passenger, layout::kSeatsMax>;

  // A command buffer that is submitted and not known to be done yet: a run, or a single step of one.
  struct Flight {
    std::uint64_t number = 0;
    RunId run = link::kNoRun;
    Owned<MTL::CommandBuffer> commands;
    std::size_t place = 0;                // in the ring of runs
    bool whole_round = false, chooses = false;
    Passengers passengers{};
    std::size_t passenger_count = 0;
    link::SegmentSeconds shares{};        // of its time
    Work work = Work::none;
    Interval interval;                    // of Instruments: since no other was in flight before it

    std::span<const Passenger> all() const { return std::span(passengers).first(passenger_count); }
  };

  void play(Play play, std::span<const Seat> seats, const link::Watch& watch) {
    const Pool pool;
    const bool round = !is_prompt(play), whole_round = play == Play::round;
    // Here the host reads or writes what runs in flight may change. A whole round may follow another one, though, unless it has a block:
    // the host says which rows that knows.
    const bool follows = std::ranges::any_of(seats, [&](const Seat& seat) {
      const Flight* before = last_flight(seat.slot);
      return before && !(whole_round && before->whole_round && !seat.block);
    });
    if (watch.observe || watch.times || (round && follows)) wait();
    layout::Run run = run_of(play, seats, program_, slots_, [&](int slot) { return known_state(slot); });
    const std::vector<PlannedLeg> legs = plan_legs(link::Legs(play, seats, link::DraftOrder::in_turn, program_.drafters()), run);
    Flight flight{.run = ++runs_, .commands = {}, .place = next_place(), .whole_round = whole_round,
                  .chooses = link::Legs::chooses(play), .passenger_count = seats.size(), .shares = shares_of(legs),
                  .work = work_of(play), .interval = {}};
    int most_length = 0;
    for (std::size_t s = 0; s < seats.size(); ++s) {
      Passenger& passenger = flight.passengers[s] = passenger_of(seats, s, run.seats[s], legs);
      most_length = std::max(most_length, passenger.most_length);
      if (link::Legs::has_logits(play)) first_outputs_[s] = static_cast<std::size_t>(run.seats[s].first);
    }
    const int ranges = round ? kv_ranges(most_length) : 1;
    run.place = static_cast<int>(flight.place);
    write(run, seats, flight.chooses, memory_.ring[flight.place]);
    if (!seats[0].chunk.soft.empty())
      for (const PlannedLeg& leg : legs) write_soft(leg.segment, seats[0].chunk);
    const auto begin = [&, place = flight.place](MTL::ComputeCommandEncoder* encoder) { encode(encoder, begins_[place], 1); };
    const char* label = round ? "round" : "prompt";
    if (watch.observe || watch.times) {
      commit({}, label, begin);
      wait();
      if (watch.times && !clock_) clock_.emplace(gpu_, TimedPiece{"begin_run", begin});
      for (const PlannedLeg& leg : legs) {
        if (watch.observe) observe(leg, ranges, seats, *watch.observe);
        else time(leg, ranges, seats, *watch.times);
      }
      deliver(flight);
      return;
    }
    commit(std::move(flight), label, [&](MTL::ComputeCommandEncoder* encoder) {
      begin(encoder);
      for (const PlannedLeg& leg : legs) encode_segment(encoder, leg, ranges);
    });
  }

  Passenger passenger_of(std::span<const Seat> seats, std::size_t number, const layout::RunSeat& rows, std::span<const PlannedLeg> legs) const {
    const Seat& seat = seats[number];
    Passenger passenger{.slot = seat.slot, .most_length = known_state(seat.slot).length + rows.count,
                        .counts = seat.request ? seat.request->counts : std::span<std::int32_t>{}, .report = seat.report};
    for (const PlannedLeg& leg : legs)
      passenger.parts[static_cast<std::size_t>(leg.segment)] +=
          part_of(leg, seats, number) / static_cast<double>(std::ranges::count(legs, leg.segment, &PlannedLeg::segment));
    return passenger;
  }

  void make_resident() {
    const Pool pool;
    done_->setLabel(text_of("runs done"));
    NS::Error* error = nullptr;
    const auto descriptor = NS::TransferPtr(MTL::ResidencySetDescriptor::alloc()->init());
    descriptor->setLabel(text_of("lapidary"));
    resident_ = NS::TransferPtr(gpu_.device()->newResidencySet(descriptor.get(), &error));
    if (!resident_) fail(ErrorKind::io, "metal", "residency set, expected one (macOS 15), got none");
    resident_->addAllocation(memory_.heap());
    for (MTL::Buffer* buffer : files_.buffers()) resident_->addAllocation(buffer);
    for (MTL::Buffer* buffer : weights_.buffers()) resident_->addAllocation(buffer);
    resident_->commit();
    resident_->requestResidency();
    gpu_.queue()->addResidencySet(resident_.get());
  }

  // The last run of a session in flight, if there is one.
  const Flight* last_flight(int slot) const {
    for (auto flight = flights_.rbegin(); flight != flights_.rend(); ++flight)
      if (passenger_in(*flight, slot)) return &*flight;
    return nullptr;
  }

  static const Passenger* passenger_in(const Flight& flight, int slot) {
    const auto found = std::ranges::find(flight.all(), slot, &Passenger::slot);
    return found == flight.all().end() ? nullptr : &*found;
  }

  // What a round begins with, as far as the host can know: one in flight leaves no drafts, and a context at most so long.
  RoundState known_state(int slot) const {
    if (const Flight* before = last_flight(slot)) return {.length = passenger_in(*before, slot)->most_length};
    return contents<RoundState>(memory_.states)[slot];
  }

  // The next place in the ring of runs, once the run that used it last is done.
  std::size_t next_place() {
    while (!flights_.empty() && flights_.front().number + kRunsInFlight <= submitted_ + 1) land();
    return submitted_ % kRunsInFlight;
  }

  void write(layout::Run& run, std::span<const Seat> seats, bool chooses, const RunPlaces& place) {
    if (run.host_rows) std::ranges::copy(seats[0].chunk.rows, contents<graph::Row>(place.rows));
    for (std::size_t s = 0; s < seats.size(); ++s)
      if (seats[s].request) {
        write_sampling(*seats[s].request, s, place, run.seats[s]);
        if (chooses) write_masks(*seats[s].request, place, run.seats[s]);  // until then they may be those of the last round
      }
    *contents<layout::Run>(place.run) = run;
  }

  // Soft tokens to where `embed` would put those of the vocabulary: it leaves their rows as they are. The arena is everybody's.
  void write_soft(SegmentId id, const graph::Chunk& chunk) {
    const graph::Segment& segment = program_.graph->segment(id);
    const auto step = std::ranges::find(segment.steps, graph::Op::embed, &graph::Step::op);
    if (step == segment.steps.end()) return;
    wait();
    const BoundOperand bound = recorder_.bind_operand(segment, *step, step->out[0]);
    const auto hidden = static_cast<std::size_t>(program_.graph->shape.hidden);
    for (std::size_t r = 0; r < chunk.rows.size(); ++r)
      if (const std::int32_t soft = chunk.rows[r].soft; soft >= 0)
        std::ranges::copy(chunk.soft.subspan(static_cast<std::size_t>(soft) * hidden, hidden),
                          reinterpret_cast<float*>(contents<std::byte>(bound.slice) + r * bound.operand.row_bytes));
  }

  void write_sampling(const graph::Request& request, std::size_t number, const RunPlaces& place, layout::RunSeat& seat) {
    const graph::Sampling& sampling = request.sampling;
    if (sampling.bias.size() > layout::kBiasesMax)
      fail(ErrorKind::usage, "logit bias", "expected at most " + std::to_string(layout::kBiasesMax) + " tokens, got " +
                                               std::to_string(sampling.bias.size()));
    seat.samples = 1;
    seat.sampling = {.repetition = sampling.repetition, .presence = sampling.presence, .frequency = sampling.frequency,
                   .temperature = sampling.temperature, .top_k = sampling.top_k, .top_p = sampling.top_p, .min_p = sampling.min_p,
                   .seed_low = static_cast<std::uint32_t>(sampling.seed), .seed_high = static_cast<std::uint32_t>(sampling.seed >> 32),
                   .stream = sampling.stream, .bias_count = static_cast<int>(sampling.bias.size()),
                   .has_counts = !request.counts.empty(), .mask_words = 0, .mask_stride_words = 0};
    layout::LogitBias* bias = contents<layout::LogitBias>(place.biases) + layout::kBiasesMax * number;
    for (const auto& [token, value] : sampling.bias) *bias++ = {token, value};
    if (!last_flight(seat.slot)) {  // else they are up to date on the device only
      const std::size_t vocab = request.counts.size();
      std::ranges::copy(request.counts, contents<std::int32_t>(memory_.counts) + vocab * static_cast<std::size_t>(seat.slot));
    }
  }

  // What is suppressed is taken out of every mask; without masks, one that all rows of the session share.
  void write_masks(const graph::Request& request, const RunPlaces& place, layout::RunSeat& seat) {
    const std::span<const std::int32_t> suppressed = request.sampling.suppressed;
    if (request.masks.empty() && suppressed.empty()) return;
    const std::size_t words = memory_.mask_words(), masks = request.masks.empty() ? 1 : static_cast<std::size_t>(seat.count);
    assert(request.masks.empty() || request.masks.size() == masks * words);
    std::uint32_t* out = contents<std::uint32_t>(place.masks) + words * static_cast<std::size_t>(seat.first);
    if (request.masks.empty()) std::fill_n(out, words, ~std::uint32_t{0});
    else std::ranges::copy(request.masks, out);
    for (std::size_t m = 0; m < masks; ++m)
      for (const std::int32_t token : suppressed)
        if (token >= 0 && token < program_.graph->shape.vocab) out[m * words + static_cast<std::size_t>(token / 32)] &= ~(1u << token % 32);
    seat.sampling.mask_words = static_cast<int>(words);
    seat.sampling.mask_stride_words = request.masks.empty() ? 0 : static_cast<int>(words);
  }

  const std::vector<RecordedStep>& recording(const Variant& variant) {
    const auto found = recordings_.find(variant);
    return found != recordings_.end() ? found->second : recordings_.emplace(variant, recorder_.record(variant)).first->second;
  }

  const Replay& replay(const Variant& variant) {
    const auto found = replays_.find(variant);
    if (found != replays_.end()) return found->second;
    const std::string label = std::string(name_of(variant.segment)) + " of " + std::to_string(variant.rows);
    return replays_.emplace(variant, Replay(gpu_, recorder_.record(variant), variant.rows, label)).first->second;
  }

  void prepare(const Variant& variant) {
    if (gpu_.replays()) replay(variant);
    else recording(variant);
  }

  // Prompts differ in their number of rows and are encoded as they come; rounds are replayed where the device can.
  void encode_segment(MTL::ComputeCommandEncoder* encoder, const PlannedLeg& leg, int ranges) {
    encoder->memoryBarrier(MTL::BarrierScopeBuffers);
    const Variant variant = variant_of(leg, ranges);
    if (numeric_of(variant) == NumericClass::round && gpu_.replays()) return replay(variant).execute(encoder);
    for (const RecordedStep& step : recording(variant)) metal::encode(encoder, step, leg.rows.of(*step.step));
  }

  Variant variant_of(const PlannedLeg& leg, int ranges) const {
    const SegmentId id = leg.segment;
    switch (id) {
      case SegmentId::prefill:
      case SegmentId::prefill_all:
      case SegmentId::extend: return {id, program_.plan.chunk_rows, 1};
      case SegmentId::catch_up: return {id, leg.rows.pending <= program_.plan.verify_rows ? leg.rows.pending : graph::kPendingRows, 1};
      case SegmentId::head:
      case SegmentId::select: return {id, leg.rows.outputs, 1};
      case SegmentId::draft: return {id, 1, ranges};
      case SegmentId::block: return {id, leg.rows.block, ranges};
      case SegmentId::forward: break;
    }
    return {id, leg.rows.all, ranges};
  }

  // Step by step, for those who look at the results of each.
  void observe(const PlannedLeg& leg, int ranges, std::span<const Seat> seats, const link::StepObserver& observer) {
    for (const RecordedStep& step : recording(variant_of(leg, ranges))) {
      const int count = leg.rows.of(*step.step);
      if (count == 0) continue;
      if (!step.dispatches.empty()) {
        commit({}, "step", [&](MTL::ComputeCommandEncoder* encoder) { metal::encode(encoder, step, count); });
        wait();
      }
      observer(result_of(leg.segment, *step.step, count, seats[leg.seat]));
    }
  }

  // Likewise, for those who want to know how long each takes.
  void time(const PlannedLeg& leg, int ranges, std::span<const Seat> seats, std::vector<link::StepTime>& all_times) {
    std::vector<TimedPiece> pieces;
    std::vector<std::size_t> piece_of;  // by step: its own, or that of the step it went with
    for (const RecordedStep& step : recording(variant_of(leg, ranges))) {
      const int count = leg.rows.of(*step.step);
      if (count == 0) continue;
      if (!step.dispatches.empty())
        pieces.push_back({std::string(name_of(step.step->op)),
                          [&, count](MTL::ComputeCommandEncoder* encoder) { metal::encode(encoder, step, count); }});
      piece_of.push_back(pieces.size() - 1);
      all_times.push_back({leg.segment, step.step, static_cast<std::size_t>(count)});
    }
    const std::vector<Seconds> seconds = clock_->run(pieces);
    const auto times = std::span(all_times).last(piece_of.size());
    for (std::size_t i = 0; i < times.size(); ++i) {
      const Seconds& piece = seconds[piece_of[i]];
      times[i].begin_s = i > 0 && piece_of[i - 1] == piece_of[i] ? piece.end : piece.begin;
      times[i].end_s = piece.end;
    }
    if (seconds.empty()) return;
    const double spent_s = seconds.back().end - seconds.front().begin;
    for (std::size_t s = 0; s < seats.size(); ++s)
      if (seats[s].report) seats[s].report->seconds[static_cast<std::size_t>(leg.segment)] += part_of(leg, seats, s) * spent_s;
  }

  link::StepResult result_of(SegmentId id, const graph::Step& step, int rows, const Seat& seat) const {
    link::StepResult result{.step = step, .rows = static_cast<std::size_t>(rows)};
    const graph::Segment& segment = program_.graph->segment(id);
    for (std::size_t i = 0; i < step.out.size(); ++i) {
      if (step.out[i] == graph::kNone) continue;
      const BoundOperand bound = recorder_.bind_operand(segment, step, step.out[i]);
      if (!bound.slice) continue;  // of a drafter that is not there
      const std::size_t first = bound.operand.windowed ? static_cast<std::size_t>(seat.chunk.output_begin) : 0;
      result.out[i] = {contents<std::byte>(bound.slice) + bound.operand.slot_bytes * static_cast<std::size_t>(seat.slot) +
                           first * bound.operand.row_bytes,
                       static_cast<std::size_t>(segment.buffers[static_cast<std::size_t>(step.out[i])].row_bytes),
                       bound.operand.row_bytes};
    }
    return result;
  }

  template <class Encode>
  void commit(Flight flight, const char* label, Encode&& encode) {
    const Pool pool;
    host_.end();
    if (flights_.empty()) flight.interval = Interval(flight.work);
    MTL::CommandBuffer* commands = gpu_.queue()->commandBuffer();
    commands->setLabel(text_of(label));
    // Metal does not look after memory of a heap: without this, runs might overlap.
    commands->encodeWait(done_.get(), submitted_);
    MTL::ComputeCommandEncoder* encoder = commands->computeCommandEncoder(MTL::DispatchTypeConcurrent);
    encoder->setLabel(commands->label());
    encode(encoder);
    encoder->endEncoding();
    commands->encodeSignalEvent(done_.get(), ++submitted_);
    commands->commit();
    flight.number = submitted_;
    flight.commands = NS::RetainPtr(commands);
    flights_.push_back(std::move(flight));
  }

  // A device is busy reading: the time of a run is shared by the bytes of weights that its segments read.
  link::SegmentSeconds shares_of(std::span<const PlannedLeg> legs) const {
    link::SegmentSeconds shares{};
    double total = 0;
    for (const PlannedLeg& leg : legs) total += segment_bytes_[static_cast<std::size_t>(leg.segment)];
    for (const PlannedLeg& leg : legs) shares[static_cast<std::size_t>(leg.segment)] += segment_bytes_[static_cast<std::size_t>(leg.segment)] / total;
    return shares;
  }

  void wait() const {
    while (!flights_.empty()) land();
  }

  // Waits until the oldest run in flight has written its results. The event comes first; what the device says about the run itself
  // (errors, times) follows, and is taken by settle().
  void land() const {
    const Pool pool;
    Flight& flight = flights_.front();
    constexpr std::uint64_t kLookMs = 1000;  // a run that failed signals nothing
    while (!done_->waitUntilSignaledValue(flight.number, kLookMs) && flight.commands->status() != MTL::CommandBufferStatusError) {}
    if (flight.commands->status() == MTL::CommandBufferStatusError) {
      done_->setSignaledValue(submitted_);  // nobody waits for it any longer
      fail(ErrorKind::io, "metal", "run, expected it to complete, got: " + message_of(flight.commands->error()));
    }
    settle();
    landed_ = std::move(flights_.front());
    flights_.pop_front();
    landed_.interval.end();
    deliver(landed_);
    if (flights_.empty()) host_ = Interval(Work::host);
    else flights_.front().interval = Interval(flights_.front().work);
  }

  // What the callers want of a run that is done. Their sessions' counts may already be those of the next run in flight.
  void deliver(const Flight& flight) const {
    for (std::size_t s = 0; s < flight.passenger_count; ++s) {
      const Passenger& passenger = flight.passengers[s];
      const std::size_t first_count = passenger.counts.size() * static_cast<std::size_t>(passenger.slot);
      if (!last_flight(passenger.slot))
        std::copy_n(contents<std::int32_t>(memory_.counts) + first_count, passenger.counts.size(), passenger.counts.begin());
      if (passenger.report && flight.chooses)
        passenger.report->result = contents<graph::RoundResult>(memory_.results)[flight.place * layout::kSeatsMax + s];
    }
  }

  // A run may count as started while it waits for the one before it.
  void settle() const {
    if (std::ranges::none_of(landed_.all(), [](const Passenger& passenger) { return passenger.report; })) return;
    const Pool pool;
    landed_.commands->waitUntilCompleted();
    const double begin_s = std::max(landed_.commands->GPUStartTime(), settled_s_);
    settled_s_ = landed_.commands->GPUEndTime();
    for (const Passenger& passenger : landed_.all())
      for (std::size_t i = 0; passenger.report && i < landed_.shares.size(); ++i)
        passenger.report->seconds[i] += landed_.shares[i] * passenger.parts[i] * (settled_s_ - begin_s);
    landed_ = {};
  }

  const link::Program& program_;
  const CaptureOptions capture_;
  Gpu gpu_;
  MappedFiles files_;
  Weights weights_;
  DeviceMemory memory_;
  Recorder recorder_;
  Towers towers_;
  link::Slots slots_;
  link::PlayOrder order_;
  Owned<MTL::ResidencySet> resident_;
  Owned<MTL::SharedEvent> done_;
  std::array<Dispatch, kRunsInFlight> begins_;  // of a run, by its place in the ring
  std::map<Variant, std::vector<RecordedStep>> recordings_;
  std::map<Variant, Replay> replays_;
  std::array<double, graph::kSegmentCount> segment_bytes_{};
  std::optional<StepClock> clock_;       // once somebody wants to know
  int rounds_ = 0;
  std::uint64_t submitted_ = 0;          // command buffers
  RunId runs_ = 0, outputs_of_ = 0;      // the last run, the last that leaves logits
  std::array<std::size_t, layout::kSeatsMax> first_outputs_{};  // of that, by seat
  mutable std::deque<Flight> flights_;   // whoever asks for results waits for them
  mutable Flight landed_;                // its results are there, its time is not yet taken
  mutable double settled_s_ = 0;         // when the last one whose time was taken ended, by the device's clock
  mutable Interval host_;                // the device has nothing to do
};

}  // namespace

std::unique_ptr<link::Executor> make_executor(const link::Program& program, const CaptureOptions& capture) {
  assert(program.backend == &kBackend);
  check_capture(capture);
  const Interval interval(Work::load);
  return std::make_unique<MetalExecutor>(program, capture);
}

}  // namespace lapidary::metal
