#include "cpu/executor.hpp"

#include <array>
#include <cassert>
#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cpu/attention_bf16.hpp"
#include "cpu/kernels.hpp"
#include "cpu/linear_q8.hpp"
#include "cpu/maxima.hpp"
#include "cpu/memory.hpp"
#include "cpu/q8_steps.hpp"
#include "cpu/read_limit.hpp"
#include "cpu/team.hpp"
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

// A buffer at its place in the arena.
struct Place {
  std::byte* data = nullptr;
  std::size_t row_bytes = 0, stride_bytes = 0;
  Region region = Region::rows;
};

struct BoundStep {
  const Step* step = nullptr;
  std::array<Place, 4> in{}, out{};
  std::array<const link::Matrix*, 3> matrices{};  // the matrices among the weights, in order
  int matrix_count = 0;
  std::array<const float*, 5> vectors{};          // by position in Step::weights
  std::array<const std::int32_t*, 5> ids{};       // likewise
  std::span<const float> constants{};
  const link::KvCache* cache = nullptr;           // of float32 or
  const link::KvCacheBf16* cache_bf16 = nullptr;  // of bfloat16
  bool q8 = false;
  std::array<Q8Matrix, 3> q8_matrices{};          // as `matrices`
  bool has_maxima = false;                        // sample: of its logits, by the step that computed them
};

// A session of the run, and its rows among those that choose a token: of a round, or of a prompt's output window.
struct Guest {
  const link::Seat* seat = nullptr;
  RoundState* state = nullptr;
  std::size_t first = 0, count = 0;
  bool chooses = false;                // otherwise the largest logit
  graph::Selection selection{};
};

// The rows of a step, the first of them as it counts in the row table, and whose they are.
struct Now {
  Rows rows{};
  std::size_t first = 0;
  std::span<Guest> guests{};          // of a draft the one whose it is
  const Q8Tile* quantised = nullptr;  // its rows, where all threads have quantised them together
};

// Where a run is. Changes between steps alone.
struct Progress {
  link::Legs legs;
  const link::Watch& watch;
  Now now{};
  std::size_t leg = 0, step = 0;      // the one that comes next
  const BoundStep* bound = nullptr;   // the one that is on
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
      : program_(program), instructions_(instructions), arena_(program.plan.arena_bytes), kv_(program.plan.kv_bytes),
        scales_(q8_scale_bytes(program, *instructions.products)), rooms_(q8_room_size(program).bytes() * program.plan.threads),
        slots_(program), states_(program.plan.sessions), maxima_(program.plan.verify_rows * kMostStretches), team_(program.plan.threads, program.backend_options.pin_threads) {
    prepare_memory();
    lay_out_caches();
    repack_scales();
    lay_out_rooms();
    if (program.plan.kv_format == link::kKvBf16) attention_room_ = std::make_unique<AttentionRoom>();
    bool finds_maxima = false;
    for (int id = 0; id < graph::kSegmentCount; ++id)
      if (static_cast<SegmentId>(id) != SegmentId::draft || program.assistant) record(static_cast<SegmentId>(id), finds_maxima);
  }

  RunId submit(Play play, std::span<const link::Seat> seats, const link::Watch& watch) override {
    order_.follow(play, seats);
    seat(play, seats);
    Progress progress{.legs = {play, seats}, .watch = watch};
    team_.run([&] { return next_turn(progress); }, [&](Part part) { work(progress, part); });
    if (progress.cancelled) return link::kNoRun;
    ++submitted_;
    if (link::Legs::has_logits(play)) {
      outputs_of_ = submitted_;
      for (std::size_t s = 0; s < guests().size(); ++s) first_outputs_[s] = guests_[s].first;
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
    const auto stride = [&](BufferId id) { return place(head, id).stride_bytes; };
    return {output_row<const std::byte>(graph::kHidden, first), output_row<const std::byte>(graph::kLogits, first),
            output_row<const std::byte>(graph::kNext, first), stride(graph::kHidden), stride(graph::kLogits), stride(graph::kNext),
            static_cast<std::size_t>(program_.graph->shape.hidden), static_cast<std::size_t>(program_.graph->shape.vocab)};
  }

  RoundState& state(int slot) override { return states_[slot]; }

  bool keeps(int slot, std::int32_t length) const override { return slots_.keeps(slot, length); }

  void copy_slot(int from, int to, std::int32_t length) override {
    slots_.copy(kv_.data(), from, to, length);
    states_[to] = states_[from];
  }

  link::SlotMemory slot_memory(int slot) override {
    const std::size_t bytes = program_.plan.session_bytes;
    return {{kv_.data() + bytes * static_cast<std::size_t>(slot), bytes}, &slots_.written(slot)};
  }

  void read_kv(int slot, int layer, int kv_head, int position, std::span<float> k, std::span<float> v) const override {
    if (program_.plan.kv_format == link::kKvF32) {
      const link::KvCache& cache = caches_[layer];
      std::copy_n(cache.k + cache.index(slot, kv_head, position), k.size(), k.data());
      std::copy_n(cache.v + cache.index(slot, kv_head, position), v.size(), v.data());
      return;
    }
    const link::KvCacheBf16& cache = caches_bf16_[layer];
    for (std::size_t i = 0; i < k.size(); ++i) {
      k[i] = numeric::from_bf16(cache.k[cache.key_index(slot, kv_head, position, static_cast<int>(i))]);
      v[i] = numeric::from_bf16(cache.v[cache.value_index(slot, kv_head, position, static_cast<int>(i))]);
    }
  }

  link::ReadLimit measure_read_limit() override { return cpu::measure_read_limit(program_.plan.threads); }

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
      const std::int32_t rows = guest.state->drafted + seats[s].drafts + 1;
      if (play == Play::round || play == Play::verify)
        slots_.write(seats[s].slot, guest.state->length, guest.state->length + rows);
    }
    if (!chunk_) return;
    assert(chunk_->output_count <= program_.plan.verify_rows);
    guests_[0].first = 0;
    guests_[0].count = static_cast<std::size_t>(chunk_->output_count);
    slots_.write(seats[0].slot, chunk_->rows.front().position, chunk_->rows.back().position + 1);
  }

  // What a team does in a run: everything between the steps, and those that are too small to share.
  Turn next_turn(Progress& progress) {
    if (std::exchange(progress.quantises, false)) return Turn::shared;  // the products are next
    for (;;) {
      if (progress.bound) finish_step(progress);
      if (!begin_step(progress)) return Turn::end;
      const BoundStep& bound = *progress.bound;
      if (bound.step->op == Op::round_rows) {
        make_rows(progress);
      } else if (is_for_one(bound.step->op, progress.now.rows.size())) {
        execute(bound, progress.now, Part{});
      } else if (bound.q8) {
        const int n = static_cast<int>(progress.now.rows.size());
        progress.quantises = quantises_together(n, matrices_of(bound), Part{0, team_.size()});
        const Q8Weights w = matrices_of(bound)[0].weights();
        const Q8Room& room = thread_rooms_[0];
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
      case Op::accept: return true;
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

  // The next step that has rows. False: there is none, or the run was cancelled.
  bool begin_step(Progress& progress) {
    for (; progress.leg < progress.legs.size(); ++progress.leg, progress.step = 0) {
      const link::Leg& leg = progress.legs[progress.leg];
      if (progress.step == 0) {
        progress.cancelled = progress.watch.cancel && progress.watch.cancel->load(std::memory_order_relaxed);
        if (progress.cancelled) return false;
        progress.segment_begin_s = progress.step_begin_s = now_s();
        progress.now.guests = leg.segment == SegmentId::draft ? guests().subspan(static_cast<std::size_t>(leg.seat), 1) : guests();
      }
      for (const auto& steps = segments_[static_cast<std::size_t>(leg.segment)]; progress.step < steps.size();) {
        progress.bound = &steps[progress.step++];
        progress.now.first = 0;
        progress.now.rows = rows_of(*progress.bound->step, progress.now.first);
        if (progress.bound->step->op == Op::round_rows || !progress.now.rows.empty()) {
          if (progress.bound->step->op == Op::sample) fill_selections(progress);
          return true;
        }
      }
      const double spent_s = now_s() - progress.segment_begin_s;
      for (const Guest& guest : progress.now.guests)
        if (guest.seat->report) guest.seat->report->seconds[static_cast<std::size_t>(leg.segment)] += spent_s;
    }
    return false;
  }

  void finish_step(Progress& progress) {
    const BoundStep& bound = *progress.bound;
    const link::Watch& watch = progress.watch;
    if (watch.tap && bound.step->op != Op::round_rows) (*watch.tap)(result_of(bound, progress.now));
    if (!watch.times) return;
    const double end_s = now_s();
    watch.times->push_back({progress.legs[progress.leg].segment, bound.step, progress.now.rows.size(),
                            std::exchange(progress.step_begin_s, end_s), end_s});
  }

  void make_rows(Progress& progress) {
    const Step& step = *progress.bound->step;
    if (step.rows == RowSet::draft) {
      const Guest& guest = progress.now.guests.front();
      draft_row(*guest.state, guest.seat->slot, draft_row_, Part{});
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
    const BoundStep& bound = *progress.bound;
    if (progress.quantises)
      quantise_together(static_cast<int>(progress.now.rows.size()), rows<const float>(bound.in[0], progress.now), matrices_of(bound)[0],
                        thread_rooms_[0], part);
    else execute(bound, progress.now, part);
  }

  // `first`: the number of the first of them in the row table
  Rows rows_of(const Step& step, std::size_t& first) const {
    if (step.rows == RowSet::draft) return {&draft_row_, 1};
    const Rows all = chunk_ ? chunk_->rows : Rows(round_rows_).first(round_count_);
    if (!chunk_ || step.rows != RowSet::last) return all;
    first = chunk_->output_begin;
    return all.subspan(first, chunk_->output_count);
  }

  // Row r of a session's round chooses the token after r drafts; a draft comes after those that are there.
  static void fill_selections(Progress& progress) {
    const bool draft = progress.bound->step->rows == RowSet::draft;
    for (Guest& guest : progress.now.guests) {
      guest.chooses = guest.seat->request != nullptr;
      if (!guest.chooses) continue;
      const graph::Request& request = *guest.seat->request;
      const RoundState& state = *guest.state;
      const std::size_t first = draft ? 0 : guest.first, count = draft ? 1 : guest.count, words = request.masks.size() / count;
      for (std::size_t r = 0; r < count; ++r) {
        const std::size_t drafts = draft ? static_cast<std::size_t>(state.drafted) : r;
        graph::SelectRow& row = progress.select_rows[first + r];
        row = {.index = state.emitted + static_cast<std::int64_t>(drafts), .drafted = std::span(state.drafts).first(drafts)};
        if (!draft && !request.masks.empty()) row.mask = request.masks.subspan(r * words, words);
      }
      guest.selection = {request.sampling, request.counts, std::span(progress.select_rows).subspan(first, count)};
    }
  }

  link::StepResult result_of(const BoundStep& bound, const Now& now) const {
    link::StepResult result{.step = *bound.step, .rows = now.rows.size()};
    for (std::size_t i = 0; i < bound.out.size(); ++i) {
      const Place& place = bound.out[i];
      if (place.data) result.out[i] = {row_data(place, now), place.row_bytes, place.stride_bytes};
    }
    return result;
  }

  // Before anything is written to it: pages are as large as they were when they were first touched.
  void prepare_memory() {
    const link::BackendOptions& options = program_.backend_options;
    for (Memory* memory : {&arena_, &kv_, &scales_, &rooms_}) {
      if (options.huge_pages) memory->use_huge_pages();
      if (options.lock_memory) lock(memory->bytes());
    }
    arena_.commit();
    if (options.warm_up) kv_.commit();
    for (const Checkpoint* checkpoint : {&program_.checkpoint, program_.assistant ? &*program_.assistant : nullptr}) {
      if (!checkpoint) continue;
      for (const std::span<const std::byte> file : checkpoint->mappings()) {
        if (options.lock_memory) lock(file);
        if (options.warm_up) touch(file);
      }
    }
  }

  void lay_out_caches() {
    for (int l = 0; l < program_.graph->shape.layer_count; ++l) {
      const link::KvPlacement& kv = program_.plan.kv[l];
      const graph::LayerShape& layer = program_.graph->shape.layers[l];
      const auto lay_out = [&](auto& cache) {
        using Element = std::remove_pointer_t<decltype(cache.k)>;
        cache = {reinterpret_cast<Element*>(kv_.data() + kv.k_offset_bytes),
                 reinterpret_cast<Element*>(kv_.data() + kv.v_offset_bytes), layer.kv_heads, layer.head_dim,
                 kv.capacity, program_.plan.session_bytes / sizeof(Element)};
      };
      if (program_.plan.kv_format == link::kKvBf16) lay_out(caches_bf16_.emplace_back());
      else lay_out(caches_.emplace_back());
    }
  }

  // Every thread does some rows of the list of matrices and experts.
  void repack_scales() {
    struct Job {
      const link::Matrix* matrix;
      int expert;
      std::uint32_t* scales;
    };
    std::vector<Job> jobs;
    auto* at = reinterpret_cast<std::uint32_t*>(scales_.data());
    q8_matrices_.resize(program_.matrices.size());
    for (const graph::Segment& segment : program_.graph->segments)
      for (const Step& step : segment.steps) {
        if (!is_q8(program_, step)) continue;
        for (const graph::WeightId id : step.weights) {
          if (id == graph::kNone || q8_matrices_[id].matrix) continue;
          const link::Matrix& matrix = program_.matrices[id];
          q8_matrices_[id] = Q8Matrix(*instructions_.products, matrix, at);
          for (int expert = 0; expert < std::max(1, matrix.experts); ++expert, at += scale_words(*instructions_.products, matrix))
            jobs.push_back({&matrix, expert, at});
        }
      }
    if (jobs.empty()) return;
    team_.run([&](Part part) {
      for (std::size_t i = static_cast<std::size_t>(part.index); i < jobs.size(); i += static_cast<std::size_t>(part.count))
        interleave_scales(*instructions_.products, *jobs[i].matrix, jobs[i].expert, jobs[i].scales);
    });
  }

  void lay_out_rooms() {
    const Q8RoomSize room = q8_room_size(program_);
    if (!room.bytes()) return;
    for (int thread = 0; thread < program_.plan.threads; ++thread) {
      std::byte* at = rooms_.data() + room.bytes() * static_cast<std::size_t>(thread);
      thread_rooms_.push_back({.q = reinterpret_cast<std::int8_t*>(at),
                               .factors = reinterpret_cast<float*>(at + room.quantised_bytes()),
                               .products = reinterpret_cast<float*>(at + room.quantised_bytes() + room.factor_bytes()),
                               .output_stride = room.outputs});
    }
  }

  Place place(const graph::Segment& segment, BufferId id) const {
    if (id == graph::kNone) return {};
    const graph::Buffer& buffer = segment.buffers[id];
    Place place{.row_bytes = static_cast<std::size_t>(buffer.row_bytes),
                .stride_bytes = static_cast<std::size_t>(row_stride(buffer)), .region = buffer.region};
    std::byte* rows = arena_.data() + program_.plan.output_region_bytes;
    switch (buffer.region) {
      case Region::outputs: place.data = arena_.data() + buffer.offset * program_.plan.verify_rows; break;
      case Region::rows: place.data = rows + buffer.offset * row_capacity(); break;
      case Region::draft: place.data = rows + buffer.offset; break;
      case Region::session:
        place.data = kv_.data() + program_.plan.carry_offset_bytes + buffer.offset;
        place.stride_bytes = 0;
        break;
    }
    return place;
  }

  std::size_t row_capacity() const { return std::max(program_.plan.chunk_rows, program_.plan.verify_rows); }

  // finds_maxima: does the last head in the list? Heads come before those who choose by their logits.
  void record(SegmentId id, bool& finds_maxima) {
    const graph::Segment& segment = program_.graph->segment(id);
    auto& list = segments_[static_cast<std::size_t>(id)];
    for (const Step& step : segment.steps) {
      BoundStep& bound = list.emplace_back();
      bound.step = &step;
      for (std::size_t i = 0; i < step.in.size(); ++i) bound.in[i] = place(segment, step.in[i]);
      for (std::size_t i = 0; i < step.out.size(); ++i) bound.out[i] = place(segment, step.out[i]);
      for (std::size_t i = 0; i < step.weights.size(); ++i) {
        const graph::WeightId weight = step.weights[i];
        if (weight == graph::kNone) continue;
        bound.vectors[i] = program_.vectors[weight];
        bound.ids[i] = program_.ids[weight];
        if (!program_.matrices[weight].values) continue;
        bound.q8_matrices[bound.matrix_count] = q8_matrices_[weight];
        bound.matrices[bound.matrix_count++] = &program_.matrices[weight];
      }
      bound.q8 = is_q8(program_, step);
      if (step.op == Op::linear_softcap) finds_maxima = bound.q8;
      bound.has_maxima = step.op == Op::sample && finds_maxima && step.in[1] == graph::kNone;
      if (step.constants != graph::kNone) bound.constants = program_.graph->constants[step.constants];
      if (step.op == Op::attention || step.dims.owns_kv) {
        if (program_.plan.kv_format == link::kKvBf16) bound.cache_bf16 = &caches_bf16_[step.dims.kv_layer];
        else bound.cache = &caches_[step.dims.kv_layer];
      }
    }
  }

  std::byte* row_data(const Place& place, const Now& now) const {
    if (place.region == Region::rows) return place.data + now.first * place.stride_bytes;
    if (place.region == Region::session) return carried(place, now.guests.front());
    return place.data;
  }

  std::byte* carried(const Place& place, const Guest& guest) const {
    return place.data + guest.seat->slot * program_.plan.session_bytes;
  }

  template <class T>
  RowsOf<T> rows(const Place& place, const Now& now) const {
    if (!place.data) return {};
    return {reinterpret_cast<T*>(row_data(place, now)), place.stride_bytes / sizeof(T)};
  }

  template <class T>
  const T* output_row(BufferId id, std::size_t output) const {
    const Place at = place(program_.graph->segment(SegmentId::head), id);
    return reinterpret_cast<const T*>(at.data + at.stride_bytes * output);
  }

  void execute(const BoundStep& bound, const Now& now, Part part) {
    const Step& step = *bound.step;
    const graph::Dims& d = step.dims;
    const Rows rows_now = now.rows;
    const int n = static_cast<int>(rows_now.size());
    const auto in = [&](int i) { return rows<const float>(bound.in[i], now); };
    const auto out = [&](int i) { return rows<float>(bound.out[i], now); };
    const auto in_ids = [&](int i) { return rows<const std::int32_t>(bound.in[i], now); };
    const auto out_ids = [&](int i) { return rows<std::int32_t>(bound.out[i], now); };
    const auto matrix = [&](int i) -> const link::Matrix& { return *bound.matrices[i]; };
    const auto& w = bound.vectors;
    const HeadShape heads{d.heads, d.kv_heads, d.head_dim};

    if (bound.q8) return execute_q8(bound, now, part);
    switch (step.op) {
      case Op::round_rows: return;  // made before anything goes by them
      case Op::embed: return embed(rows_now, matrix(0), d.scale, out(0), part);
      case Op::embed_pair: return embed_pair(rows_now, matrix(0), d.scale, in(0), out(0), part);
      case Op::rope_angles: return rope_angles(rows_now, bound.constants, out(0), part);
      case Op::rms_norm: return rms_norm(n, in(0), w[0], d.n[0], d.epsilon, out(0), part);
      case Op::linear:
        return linear(n, in(0), std::span(bound.matrices).first(bound.matrix_count), out(0), part);
      case Op::linear_gelu_mul: return linear_gelu_mul(n, in(0), matrix(0), matrix(1), out(0), part);
      case Op::linear_gelu_gate: {
        In factor = in(1);
        factor.data += d.offset;
        return linear_gelu_gate(n, in(0), matrix(0), factor, out(0), part);
      }
      case Op::linear_softcap: return linear_softcap(n, in(0), matrix(0), d.scale, out(0), part);
      case Op::qkv_norm_rope:
        if (program_.plan.kv_format == link::kKvBf16)
          return qkv_norm_rope_bf16(rows_now, in(0), in(1), w[0], w[1], heads, d.values_are_keys, d.epsilon, bound.cache_bf16,
                                    out(0), part);
        return qkv_norm_rope(rows_now, in(0), in(1), w[0], w[1], heads, d.values_are_keys, d.epsilon, bound.cache, out(0),
                             part);
      case Op::attention:
        if (program_.plan.kv_format == link::kKvBf16) return attend_bf16(rows_now, in(0), *bound.cache_bf16, heads, d.window, out(0), part);
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
        return expert_gelu_mul(n, in(0), in_ids(1), d.experts_used, matrix(0), matrix(1), out(0), part);
      case Op::expert_linear: return expert_linear(n, in(0), in_ids(1), d.experts_used, matrix(0), out(0), part);
      case Op::moe_combine:
        return moe_combine(n, out(0), in(1), in(2), in(3), d.experts_used, {w[0], w[1], w[2], w[3], w[4]}, d.n[0], d.epsilon,
                           out(1), part);
      case Op::top: return top(n, in(0), d.experts, d.experts_used, out_ids(0), part);
      case Op::cluster_logits:
        return cluster_logits(n, in(0), in_ids(1), d.experts_used, d.n[0], matrix(0), bound.ids[1], out(0), out_ids(1), part);
      case Op::sample: {
        const In maxima = bound.has_maxima ? In{maxima_.data(), kMostStretches} : In{};
        for (const Guest& guest : now.guests) {
          const bool draft = step.rows == RowSet::draft;
          const std::size_t from = draft ? 0 : guest.first;
          sample(draft ? 1 : static_cast<int>(guest.count), in(0).from(from), in_ids(1).from(from), d.n[0], maxima.from(from),
                 guest.chooses ? &guest.selection : nullptr, out_ids(0).from(from), out(1).from(from), out_ids(2).from(from), part);
        }
        return;
      }
      case Op::keep_draft: return keep_draft(in_ids(0)[0][0], *now.guests.front().state, part);
      case Op::accept:
        for (const Guest& guest : now.guests)
          accept(rows_now.subspan(guest.first, guest.count), in_ids(0).from(guest.first), in(1).from(guest.first), d.n[0], *guest.state,
                 guest.seat->request ? guest.seat->request->counts : std::span<std::int32_t>{},
                 reinterpret_cast<float*>(carried(bound.out[0], guest)), part);
        return;
    }
  }

  bool attends_with_all(const BoundStep& bound, const Now& now) const {
    const graph::Dims& d = bound.step->dims;
    return bound.step->op == Op::attention && program_.plan.kv_format == link::kKvBf16 && instructions_.attention->together &&
           attends_together(now.rows, {d.heads, d.kv_heads, d.head_dim}, d.window, Part{0, team_.size()});
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

  static std::span<const Q8Matrix> matrices_of(const BoundStep& bound) {
    return std::span(bound.q8_matrices).first(bound.matrix_count);
  }

  void execute_q8(const BoundStep& bound, const Now& now, Part part) {
    const Step& step = *bound.step;
    const graph::Dims& d = step.dims;
    const int n = static_cast<int>(now.rows.size());
    const In in = rows<const float>(bound.in[0], now);
    const Out out = rows<float>(bound.out[0], now);
    const auto w = matrices_of(bound);
    Q8Room room = thread_rooms_[part.index];
    room.ready = now.quantised;
    switch (step.op) {
      case Op::linear: return linear_q8(n, in, w, out, room, part);
      case Op::linear_gelu_mul: return linear_gelu_mul_q8(n, in, w[0], w[1], out, room, part);
      case Op::linear_gelu_gate: {
        In factor = rows<const float>(bound.in[1], now);
        factor.data += d.offset;
        return linear_gelu_gate_q8(n, in, w[0], factor, out, room, part);
      }
      case Op::linear_softcap: return linear_softcap_q8(n, in, w[0], d.scale, out, {maxima_.data(), kMostStretches}, room, part);
      case Op::expert_gelu_mul:
        return expert_gelu_mul_q8(n, in, rows<const std::int32_t>(bound.in[1], now), d.experts_used, w[0], w[1], out, room, part);
      case Op::expert_linear:
        return expert_linear_q8(n, in, rows<const std::int32_t>(bound.in[1], now), d.experts_used, w[0], out, room, part);
      default: assert(false && "no such product");
    }
  }

  const link::Program& program_;
  const Instructions& instructions_;
  Memory arena_;
  Memory kv_;
  Memory scales_, rooms_;
  std::vector<Q8Matrix> q8_matrices_;                                   // by WeightId
  std::vector<Q8Room> thread_rooms_;
  std::vector<link::KvCache> caches_;                                   // by layer, or
  std::vector<link::KvCacheBf16> caches_bf16_;
  std::unique_ptr<AttentionRoom> attention_room_;                       // where K/V are bfloat16
  std::array<std::vector<BoundStep>, graph::kSegmentCount> segments_{};
  link::Slots slots_;
  std::vector<RoundState> states_;                                      // by session slot
  std::vector<float> maxima_;                                           // [verify_rows, kMostStretches], of the logits computed last
  std::array<graph::Row, graph::kMaxVerifyRows> round_rows_{};
  std::size_t round_count_ = 0;
  graph::Row draft_row_{};
  std::array<Guest, graph::kMaxVerifyRows> guests_{};                   // of the run
  std::size_t guest_count_ = 0;
  const graph::Chunk* chunk_ = nullptr;                                 // of a prompt
  link::PlayOrder order_;
  RunId submitted_ = 0, outputs_of_ = 0;                                // the last run, the last that left logits
  std::array<std::size_t, graph::kMaxVerifyRows> first_outputs_{};      // of that, by seat
  Team team_;
};

}  // namespace

std::unique_ptr<link::Executor> make_executor(const link::Program& program, const Instructions& instructions) {
  return std::make_unique<CpuExecutor>(program, instructions);
}

std::size_t room_bytes(const link::Program& program) {
  const std::size_t attention_bytes = program.plan.kv_format == link::kKvBf16 ? sizeof(AttentionRoom) : 0;
  return attention_bytes + program.plan.verify_rows * kMostStretches * sizeof(float);
}

}  // namespace lapidary::cpu
