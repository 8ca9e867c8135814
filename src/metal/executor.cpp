#include "metal/executor.hpp"

#include <algorithm>
#include <cassert>
#include <deque>
#include <map>
#include <optional>

#include "checkpoint/error.hpp"
#include "metal/backend.hpp"
#include "metal/capture.hpp"
#include "metal/read_limit.hpp"
#include "metal/replay.hpp"
#include "metal/signpost.hpp"
#include "metal/step_clock.hpp"
#include "numeric/bf16.hpp"

namespace lapidary::metal {
namespace {

using graph::RoundState;
using graph::RowSet;
using graph::SegmentId;

// Nothing for single steps.
Work work_of(std::span<const SegmentId> segments, const link::Run& run) {
  if (segments.empty()) return Work::none;
  if (!run.chunk.rows.empty()) return Work::prefill;
  return segments.back() == SegmentId::draft ? Work::draft : Work::verify;
}

class MetalExecutor final : public link::Executor {
 public:
  MetalExecutor(const link::Program& program, const CaptureOptions& capture)
      : program_(program), capture_(capture), gpu_(archive_path()), weights_(gpu_, program), memory_(gpu_, program),
        recorder_(gpu_, program, weights_, memory_), done_(NS::TransferPtr(gpu_.device()->newSharedEvent())) {
    make_resident();
    for (std::size_t i = 0; i < begins_.size(); ++i) gpu_.prepare(begins_[i] = begin_run(memory_.ring[i], memory_.now));
    for (int id = 0; id < graph::kSegmentCount; ++id)
      for (const graph::Step& step : program.graph->segments[static_cast<std::size_t>(id)].steps)
        segment_bytes_[static_cast<std::size_t>(id)] += static_cast<double>(link::weight_bytes(program, step));
    // Everything for short contexts now; what longer ones need is recorded when they are reached.
    recording({SegmentId::prefill, program.plan.chunk_rows, 1});
    for (int rows = 1; rows <= program.plan.verify_rows; ++rows)
      for (const SegmentId id : {SegmentId::forward, SegmentId::head, SegmentId::select}) prepare({id, rows, 1});
    if (program.assistant) prepare({SegmentId::draft, 1, 1});
    gpu_.keep_pipelines();
  }

  ~MetalExecutor() override {
    if (landed_.commands) landed_.commands->waitUntilCompleted();
    for (const Flight& flight : flights_) flight.commands->waitUntilCompleted();
  }

  bool run(std::span<const SegmentId> segments, const link::Run& run) override {
    if (run.cancel && run.cancel->load(std::memory_order_relaxed)) return false;
    const bool is_round = std::ranges::count(segments, SegmentId::forward) > 0;
    if (capture_.path.empty() || !is_round || ++rounds_ != capture_.round) {
      play(segments, run);
      return true;
    }
    wait();
    const Capture capture(gpu_, capture_.path);
    play(segments, run);
    wait();
    settle();
    return true;
  }

  bool runs_ahead() const override { return true; }

  void await(const link::RoundReport& report) override {
    while (std::ranges::count(flights_, &report, &Flight::report)) land();
    settle();
  }

  RoundState& state(int slot) override {
    wait();
    return contents<RoundState>(memory_.states)[slot];
  }

  std::span<const float> hidden(int output) const override {
    return {output_row<float>(graph::kHidden, output), static_cast<std::size_t>(program_.graph->shape.hidden)};
  }
  std::span<const float> logits(int output) const override {
    return {output_row<float>(graph::kLogits, output), static_cast<std::size_t>(program_.graph->shape.vocab)};
  }
  std::int32_t next(int output) const override { return *output_row<std::int32_t>(graph::kNext, output); }

  void read_kv(int slot, int layer, int kv_head, int position, std::span<float> k, std::span<float> v) const override {
    wait();
    const link::KvPlacement& kv = program_.plan.kv[static_cast<std::size_t>(layer)];
    const std::size_t row = static_cast<std::size_t>(kv_head) * kv.capacity + position % kv.capacity;
    const std::byte* session = contents<std::byte>(memory_.kv) + program_.plan.session_bytes * static_cast<std::size_t>(slot);
    const auto read = [&](std::size_t offset_bytes, std::span<float> out) {
      for (std::size_t i = 0; i < out.size(); ++i) {
        const std::size_t element = row * out.size() + i;
        if (program_.plan.bf16_kv) out[i] = numeric::from_bf16(reinterpret_cast<const std::uint16_t*>(session + offset_bytes)[element]);
        else out[i] = reinterpret_cast<const float*>(session + offset_bytes)[element];
      }
    };
    read(kv.k_offset_bytes, k);
    read(kv.v_offset_bytes, v);
  }

  bool prompts_stand_apart() const override { return true; }

  link::ReadLimit measure_read_limit() override {
    wait();
    return {metal::measure_read_limit(gpu_)};
  }

 private:
  // A run that is submitted and not known to be done yet.
  struct Flight {
    std::uint64_t number = 0;
    Owned<MTL::CommandBuffer> commands;
    int slot = 0;
    std::size_t place = 0;                // in the ring of runs
    bool whole_round = false;
    int most_length = 0;                  // of the session after it: RoundState::length
    std::span<std::int32_t> counts{};     // the caller's, to be brought up to date
    link::RoundReport* report = nullptr;  // likewise
    link::SegmentSeconds shares{};        // of its time
    Work work = Work::none;
    Interval interval;                    // of Instruments: since no other was in flight before it
  };

  void play(std::span<const SegmentId> segments, const link::Run& run) {
    const Pool pool;
    const bool round = run.chunk.rows.empty();
    const bool whole_round =
        round && segments.back() == SegmentId::select && std::ranges::count(segments, SegmentId::forward) > 0;
    // Here the host reads or writes what runs in flight may change. A whole round may follow another one, though.
    const Flight* before = last_flight(run.slot);
    if (run.tap || run.times || (round && before && !(whole_round && before->whole_round))) wait();
    const RoundState begins = known_state(run.slot);
    const RowCounts rows = row_counts(segments, run, begins);
    const int most_length = begins.length + rows.all, ranges = round ? kv_ranges(most_length) : 1;
    const std::size_t place = next_place();
    write(run, rows, place);
    const auto begin = [&](MTL::ComputeCommandEncoder* encoder) { encode(encoder, begins_[place], 1); };
    Flight flight{.commands = {}, .slot = run.slot, .place = place, .whole_round = whole_round, .most_length = most_length,
                  .counts = run.request ? run.request->counts : std::span<std::int32_t>{}, .report = run.report,
                  .shares = shares_of(segments), .work = work_of(segments, run), .interval = {}};
    if (run.tap || run.times) {
      submit({}, run, begin);
      wait();
      if (run.times && !clock_) clock_.emplace(gpu_, TimedPiece{"begin_run", begin});
      for (const SegmentId id : segments) run.tap ? observe(id, rows, ranges, run) : time(id, rows, ranges, run);
      deliver(flight);
      return;
    }
    submit(std::move(flight), run, [&](MTL::ComputeCommandEncoder* encoder) {
      begin(encoder);
      for (const SegmentId id : segments) encode_segment(encoder, id, rows, ranges);
    });
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
    for (MTL::Buffer* buffer : weights_.buffers()) resident_->addAllocation(buffer);
    resident_->commit();
    resident_->requestResidency();
    gpu_.queue()->addResidencySet(resident_.get());
  }

  // The last run of a session in flight, if there is one.
  const Flight* last_flight(int slot) const {
    for (auto flight = flights_.rbegin(); flight != flights_.rend(); ++flight)
      if (flight->slot == slot) return &*flight;
    return nullptr;
  }

  // What a round begins with, as far as the host can know: one in flight leaves no drafts, and a context at most so long.
  RoundState known_state(int slot) const {
    if (const Flight* before = last_flight(slot)) return {.length = before->most_length};
    return contents<RoundState>(memory_.states)[slot];
  }

  // The rows of a round: the drafts that are there, those that the run adds, and the bonus token.
  RowCounts row_counts(std::span<const SegmentId> segments, const link::Run& run, const RoundState& begins) const {
    if (!run.chunk.rows.empty()) return {static_cast<int>(run.chunk.rows.size()), run.chunk.output_count};
    const int rows = begins.drafted + static_cast<int>(std::ranges::count(segments, SegmentId::draft)) + 1;
    return {rows, rows};
  }

  // A round's full attention is split into ranges of positions: at least as many as its longest row has, a power of two.
  static int kv_ranges(int most_length) {
    int ranges = 1;
    while (ranges * kKvRange < most_length) ranges *= 2;
    return ranges;
  }

  // The next place in the ring of runs, once the run that used it last is done.
  std::size_t next_place() {
    while (!flights_.empty() && flights_.front().number + kRunsInFlight <= submitted_ + 1) land();
    return submitted_ % kRunsInFlight;
  }

  void write(const link::Run& run, const RowCounts& rows, std::size_t number) {
    const RunPlaces& place = memory_.ring[number];
    layout::Run& out = *contents<layout::Run>(place.run);
    out = {.slot = run.slot, .row_count = rows.all, .first_output = run.chunk.output_begin, .output_count = rows.outputs,
           .host_rows = static_cast<int>(run.chunk.rows.size()), .has_choice = run.request != nullptr,
           .place = static_cast<int>(number), .choice = {}};
    std::ranges::copy(run.chunk.rows, contents<graph::Row>(place.rows));
    if (run.request) write_choice(*run.request, run.slot, rows.outputs, place, out.choice);
  }

  void write_choice(const graph::Request& request, int slot, int rows, const RunPlaces& place, layout::Choice& choice) {
    const graph::Sampling& sampling = request.sampling;
    if (sampling.bias.size() > kMaxLogitBiases)
      fail(ErrorKind::usage, "logit bias", "expected at most " + std::to_string(kMaxLogitBiases) + " tokens, got " +
                                               std::to_string(sampling.bias.size()));
    choice = {.repetition = sampling.repetition, .presence = sampling.presence, .frequency = sampling.frequency,
              .temperature = sampling.temperature, .top_k = sampling.top_k, .top_p = sampling.top_p, .min_p = sampling.min_p,
              .seed_low = static_cast<std::uint32_t>(sampling.seed), .seed_high = static_cast<std::uint32_t>(sampling.seed >> 32),
              .stream = sampling.stream, .bias_count = static_cast<int>(sampling.bias.size()),
              .has_counts = !request.counts.empty(), .mask_words = 0, .mask_stride_words = 0};
    layout::LogitBias* bias = contents<layout::LogitBias>(place.biases);
    for (const auto& [token, value] : sampling.bias) *bias++ = {token, value};
    if (!last_flight(slot)) {  // else they are up to date on the device only
      const std::size_t vocab = request.counts.size();
      std::ranges::copy(request.counts, contents<std::int32_t>(memory_.counts) + vocab * static_cast<std::size_t>(slot));
    }
    write_masks(request, rows, place, choice);
  }

  // What is suppressed is taken out of every mask; without masks, one that all rows share.
  void write_masks(const graph::Request& request, int rows, const RunPlaces& place, layout::Choice& choice) {
    const std::span<const std::int32_t> suppressed = request.sampling.suppressed;
    if (request.masks.empty() && suppressed.empty()) return;
    const std::size_t words = memory_.mask_words(), masks = request.masks.empty() ? 1 : static_cast<std::size_t>(rows);
    assert(request.masks.empty() || request.masks.size() == masks * words);
    std::uint32_t* out = contents<std::uint32_t>(place.masks);
    if (request.masks.empty()) std::fill_n(out, words, ~std::uint32_t{0});
    else std::ranges::copy(request.masks, out);
    for (std::size_t m = 0; m < masks; ++m)
      for (const std::int32_t token : suppressed)
        if (token >= 0 && token < program_.graph->shape.vocab) out[m * words + static_cast<std::size_t>(token / 32)] &= ~(1u << token % 32);
    choice.mask_words = static_cast<int>(words);
    choice.mask_stride_words = request.masks.empty() ? 0 : static_cast<int>(words);
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
  void encode_segment(MTL::ComputeCommandEncoder* encoder, SegmentId id, const RowCounts& rows, int ranges) {
    encoder->memoryBarrier(MTL::BarrierScopeBuffers);
    if (!is_prompt(id) && gpu_.replays()) return replay(variant_of(id, rows, ranges)).execute(encoder);
    for (const RecordedStep& step : recording(variant_of(id, rows, ranges))) metal::encode(encoder, step, rows);
  }

  Variant variant_of(SegmentId id, const RowCounts& rows, int ranges) const {
    if (is_prompt(id)) return {id, program_.plan.chunk_rows, ranges};
    if (id == SegmentId::head || id == SegmentId::select) return {id, rows.outputs, 1};
    return {id, id == SegmentId::draft ? 1 : rows.all, ranges};
  }

  // Step by step, for those who look at the results of each.
  void observe(SegmentId id, const RowCounts& rows, int ranges, const link::Run& run) {
    for (const RecordedStep& step : recording(variant_of(id, rows, ranges))) {
      const int count = rows.of(*step.step);
      if (count == 0) continue;
      if (!step.dispatches.empty()) {
        submit({}, run, [&](MTL::ComputeCommandEncoder* encoder) { metal::encode(encoder, step, rows); });
        wait();
      }
      (*run.tap)(result_of(id, *step.step, count, run));
    }
  }

  // Likewise, for those who want to know how long each takes.
  void time(SegmentId id, const RowCounts& rows, int ranges, const link::Run& run) {
    std::vector<TimedPiece> pieces;
    std::vector<std::size_t> piece_of;  // by step: its own, or that of the step it went with
    for (const RecordedStep& step : recording(variant_of(id, rows, ranges))) {
      const int count = rows.of(*step.step);
      if (count == 0) continue;
      if (!step.dispatches.empty())
        pieces.push_back({std::string(name_of(step.step->op)),
                          [&](MTL::ComputeCommandEncoder* encoder) { metal::encode(encoder, step, rows); }});
      piece_of.push_back(pieces.size() - 1);
      run.times->push_back({id, step.step, static_cast<std::size_t>(count)});
    }
    const std::vector<Seconds> seconds = clock_->run(pieces);
    const auto times = std::span(*run.times).last(piece_of.size());
    for (std::size_t i = 0; i < times.size(); ++i) {
      const Seconds& piece = seconds[piece_of[i]];
      times[i].begin_s = i > 0 && piece_of[i - 1] == piece_of[i] ? piece.end : piece.begin;
      times[i].end_s = piece.end;
    }
    if (run.report && !seconds.empty())
      run.report->seconds[static_cast<std::size_t>(id)] += seconds.back().end - seconds.front().begin;
  }

  link::StepResult result_of(SegmentId id, const graph::Step& step, int rows, const link::Run& run) const {
    link::StepResult result{.step = step, .rows = static_cast<std::size_t>(rows)};
    const graph::Segment& segment = program_.graph->segment(id);
    for (std::size_t i = 0; i < step.out.size(); ++i) {
      if (step.out[i] == graph::kNone) continue;
      const Recorder::Place place = recorder_.place(segment, step, step.out[i]);
      const std::size_t first = place.operand.windowed ? static_cast<std::size_t>(run.chunk.output_begin) : 0;
      result.out[i] = {contents<std::byte>(place.slice) + place.operand.slot_bytes * static_cast<std::size_t>(run.slot) +
                           first * place.operand.row_bytes,
                       static_cast<std::size_t>(segment.buffers[static_cast<std::size_t>(step.out[i])].row_bytes),
                       place.operand.row_bytes};
    }
    return result;
  }

  template <class Encode>
  void submit(Flight flight, const link::Run& run, Encode&& encode) {
    const Pool pool;
    host_.end();
    if (flights_.empty()) flight.interval = Interval(flight.work);
    MTL::CommandBuffer* commands = gpu_.queue()->commandBuffer();
    commands->setLabel(text_of(run.chunk.rows.empty() ? "round" : "prompt"));
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
  link::SegmentSeconds shares_of(std::span<const SegmentId> segments) const {
    link::SegmentSeconds shares{};
    double total = 0;
    for (const SegmentId id : segments) total += segment_bytes_[static_cast<std::size_t>(id)];
    for (const SegmentId id : segments) shares[static_cast<std::size_t>(id)] += segment_bytes_[static_cast<std::size_t>(id)] / total;
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

  // What the caller wants of a run that is done. Its session's counts may already be those of the next run in flight.
  void deliver(const Flight& flight) const {
    const std::size_t first_count = flight.counts.size() * static_cast<std::size_t>(flight.slot);
    if (!last_flight(flight.slot))
      std::copy_n(contents<std::int32_t>(memory_.counts) + first_count, flight.counts.size(), flight.counts.begin());
    if (flight.report) flight.report->result = contents<graph::RoundResult>(memory_.results)[flight.place];
  }

  // A run may count as started while it waits for the one before it.
  void settle() const {
    if (!landed_.report) return;
    const Pool pool;
    landed_.commands->waitUntilCompleted();
    const double begin_s = std::max(landed_.commands->GPUStartTime(), settled_s_);
    settled_s_ = landed_.commands->GPUEndTime();
    for (std::size_t i = 0; i < landed_.shares.size(); ++i)
      landed_.report->seconds[i] += landed_.shares[i] * (settled_s_ - begin_s);
    landed_ = {};
  }

  template <class T>
  const T* output_row(graph::BufferId id, int output) const {
    wait();
    const graph::Segment& segment = program_.graph->segment(SegmentId::head);
    const Recorder::Place place = recorder_.place(segment, segment.steps.back(), id);
    return reinterpret_cast<const T*>(contents<std::byte>(place.slice) + place.operand.row_bytes * static_cast<std::size_t>(output));
  }

  const link::Program& program_;
  const CaptureOptions capture_;
  Gpu gpu_;
  Weights weights_;
  Memory memory_;
  Recorder recorder_;
  Owned<MTL::ResidencySet> resident_;
  Owned<MTL::SharedEvent> done_;
  std::array<Dispatch, kRunsInFlight> begins_;  // of a run, by its place in the ring
  std::map<Variant, std::vector<RecordedStep>> recordings_;
  std::map<Variant, Replay> replays_;
  std::array<double, graph::kSegmentCount> segment_bytes_{};
  std::optional<StepClock> clock_;       // once somebody wants to know
  int rounds_ = 0;
  std::uint64_t submitted_ = 0;
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
