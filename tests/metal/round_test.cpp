// round_rows, keep_draft, keep_block, keep_tap, accept and begin_run on the device.
#include <boost/ut.hpp>

#include <numeric>

#include "metal/device_memory.hpp"
#include "metal/stage.hpp"
#include "support/round_cases.hpp"

namespace lapidary::test::round_test {
namespace {

using namespace boost::ut;
using graph::Op;
using graph::Row;
using graph::RoundState;
using metal::contents;

constexpr int kHidden = 301;

// The states of all sessions on the stage. Only the one of the slot may change.
struct States {
  std::vector<RoundState> before;
  metal::Slice slice;
  int slot;

  States(Stage& stage, int slot_of_run, const RoundState& state) : slot(slot_of_run) {
    Random random(state.bonus);
    for (int i = 0; i < kRoundSlots; ++i) before.push_back(state_with(random, 7));
    before[slot] = state;
    slice = stage.bound().states = stage.hold(before);
    stage.run().slot = stage.run().seats[0].slot = slot;
    stage.run().seat_count = 1;
  }

  RoundState after() const {
    const auto* states = contents<RoundState>(slice);
    for (int i = 0; i < kRoundSlots; ++i) expect(i == slot || same(states[i], before[i])) << "the state of another session";
    return states[slot];
  }
};

std::vector<Row> verify_rows(const RoundState& state, int slot) {
  Stage stage(Op::round_rows, {}, state.drafted + 1);
  const States states(stage, slot, state);
  stage.row_table(std::vector<Row>(graph::kMaxVerifyRows, kUntouchedRow));
  stage.play();
  expect(same(states.after(), state));
  const Row* rows = contents<Row>(stage.bound().row_table);
  return {rows, rows + graph::kMaxVerifyRows};
}

Row draft_row(const RoundState& state, int slot) {
  Stage stage(Op::round_rows, {}, 1);
  stage.params().rows = metal::layout::kOneRow;
  const States states(stage, slot, state);
  stage.row_table({kUntouchedRow});
  stage.play();
  expect(same(states.after(), state));
  return contents<Row>(stage.bound().row_table)[0];
}

RoundState keep_draft(const RoundState& state, int slot, std::int32_t token) {
  Stage stage(Op::keep_draft, {}, 1);
  stage.params().rows = metal::layout::kOneRow;
  const States states(stage, slot, state);
  stage.in_ids(0, {{token}});
  stage.play();
  return states.after();
}

std::vector<Row> block_rows(const RoundState& state, int slot, int drafts, std::int32_t mask_token, std::int32_t begin) {
  Stage stage(Op::round_rows, {}, drafts + 1);
  stage.row_set(graph::RowSet::block);
  stage.params().mask_token = mask_token;
  const States states(stage, slot, state);
  stage.run().block_rows = drafts + 1;
  stage.run().seats[0].block = {.context_begin = begin, .pending_begin = 0, .pending_end = 0, .first = 0, .count = drafts + 1};
  stage.row_table(std::vector<Row>(2 * graph::kMaxVerifyRows, kUntouchedRow));
  stage.play();
  expect(same(states.after(), state));
  const Row* rows = contents<Row>(stage.bound().row_table);
  return {rows, rows + 2 * graph::kMaxVerifyRows};
}

RoundState keep_block(const RoundState& state, int slot, const Ids& chosen) {
  Stage stage(Op::keep_block, {}, count_of(chosen));
  stage.row_set(graph::RowSet::block);
  const States states(stage, slot, state);
  stage.run().block_rows = stage.run().seats[0].block.count = count_of(chosen);
  IdRows rows;
  for (const std::int32_t token : chosen) rows.push_back({token});
  stage.in_ids(0, rows);
  stage.play();
  return states.after();
}

// Without counts a run has no choice at all, or one that counts nothing; with any number of threads.
reference::Accepted accept(const Round& round, const Ids& counts, int variant) {
  Stage stage(Op::accept, {.n = {kHidden}}, count_of(round.chosen));
  stage.params().rows = metal::layout::kOutputRows;
  stage.params().vocab = kRoundVocab;
  stage.run().row_count = count_of(round.rows);
  stage.run().first_output = round.first_output;
  metal::layout::RunSeat& seat = stage.run().seats[0];
  seat.samples = !counts.empty() || variant / 2 % 2;
  seat.sampling.has_counts = !counts.empty() || !seat.samples;
  const States states(stage, round.slot, round.state);
  stage.row_table(round.rows);
  IdRows chosen_rows;
  for (const std::int32_t token : round.chosen) chosen_rows.push_back({token});
  stage.in_ids(0, chosen_rows);
  stage.in(1, round.hidden);

  constexpr int kCarryStride = kHidden + 5;
  std::vector<float> carry(kRoundSlots * kCarryStride, kUntouched);
  stage.bound().out[0] = stage.hold(carry);
  stage.params().out[0] = {kCarryStride * sizeof(float), 0, 0};
  // Without the block drafter there is neither. Its sessions have room between their rings.
  const bool keeps = variant % 2 == 0;
  constexpr int kRing = graph::kPendingRows * kFeatureWidth, kRingStride = kRing + 7;
  std::vector<float> rings(kRoundSlots * kRingStride, kUntouched);
  if (keeps) {
    stage.in(2, round.features);
    stage.bound().out[1] = stage.hold(rings);
    stage.params().out[1] = {kRingStride * sizeof(float), kFeatureWidth * sizeof(float), 0};
  }
  Ids all_counts(kRoundSlots * kRoundVocab, 5);
  std::copy(counts.begin(), counts.end(), all_counts.begin() + round.slot * kRoundVocab);
  stage.bound().counts = stage.hold(all_counts);
  const graph::RoundResult untouched{.accepted = -7, .tokens = {-7, -7, -7, -7, -7, -7, -7, -7}};
  constexpr std::size_t kSeats = metal::layout::kSeatsMax;
  std::vector<graph::RoundResult> results(3 * kSeats, untouched);
  stage.run().place = 1;
  stage.bound().results = stage.hold(results);
  stage.play(variant % 4 == 1 || variant % 4 == 2 ? 32 : 0);

  // What is of this session is the result; all else must be as it was.
  reference::Accepted after{states.after(), counts, std::vector<float>(kHidden), {}};
  const float* carried = contents<float>(stage.bound().out[0]);
  const std::int32_t* counted = contents<std::int32_t>(stage.bound().counts);
  std::copy_n(carried + round.slot * kCarryStride, kHidden, after.carry.begin());
  std::copy_n(counted + round.slot * kRoundVocab, counts.size(), after.counts.begin());
  std::copy(after.carry.begin(), after.carry.end(), carry.begin() + round.slot * kCarryStride);
  std::copy(after.counts.begin(), after.counts.end(), all_counts.begin() + round.slot * kRoundVocab);
  expect(std::equal(all_counts.begin(), all_counts.end(), counted)) << "counts of another session";
  expect(std::memcmp(carry.data(), carried, carry.size() * sizeof(float)) == 0) << "carries to another place";
  if (keeps) {
    float* kept = contents<float>(stage.bound().out[1]);
    after.features = kept_features(kept + round.slot * kRingStride);
    std::fill_n(kept + round.slot * kRingStride, kRing, kUntouched);
    expect(std::all_of(kept, kept + rings.size(), is_untouched)) << "features of another session";
  } else {
    after.features = reference::accept(round.state, round.own_rows(), round.chosen, round.hidden, round.features, counts).features;
  }
  results[kSeats].accepted = after.state.accepted;
  std::copy_n(round.chosen.begin(), after.state.accepted + 1, results[kSeats].tokens.begin());
  expect(std::memcmp(results.data(), contents<std::byte>(stage.bound().results), sizeof results[0] * results.size()) == 0)
      << "another result, or at another place";
  return after;
}

const RoundKernels kKernels{verify_rows, draft_row, keep_draft, accept, block_rows, keep_block, kHidden, 4};

suite<"rounds on the device"> round_suite = [] {
  test_round_rows(kKernels);
  test_accept(kKernels);
  test_blocks(kKernels);

  // Of sessions 2, 0 and 3, which have as many drafts.
  const int slots[] = {2, 0, 3};
  const auto seated = [=](Stage& stage, const std::vector<RoundState>& states) {
    stage.bound().states = stage.hold(states);
    metal::layout::Run& run = stage.run();
    run.seat_count = 3;
    for (int s = 0, first = 0; s < 3; first += run.seats[s++].count) {
      const int drafted = states[static_cast<std::size_t>(slots[s])].drafted;
      run.seats[s] = {.slot = slots[s], .first = first, .count = drafted + 1, .drafts = drafted, .samples = 0, .sampling = {}, .block = {}};
    }
  };
  const auto some_states = [] {
    Random random(12);
    std::vector<RoundState> states;
    for (int slot = 0; slot < kRoundSlots; ++slot) states.push_back(state_with(random, slot));
    return states;
  };

  "the rows of several sessions follow one another"_test = [=] {
    const auto states = some_states();
    Stage stage(Op::round_rows, {}, 8);
    seated(stage, states);
    stage.row_table(std::vector<Row>(8, kUntouchedRow));
    stage.play();
    const Row* row = contents<Row>(stage.bound().row_table);
    for (const int slot : slots)
      for (const Row& expected : reference::verify_rows(states[static_cast<std::size_t>(slot)], slot)) expect(same(*row++, expected));
  };

  "blocks of several sessions follow one another, and those without one have none"_test = [=] {
    const auto states = some_states();
    Stage rows(Op::round_rows, {}, 7), keep(Op::keep_block, {}, 7);
    IdRows chosen;
    for (int r = 0; r < 7; ++r) chosen.push_back({100 + r});
    for (Stage* stage : {&rows, &keep}) {
      stage->row_set(graph::RowSet::block);
      seated(*stage, states);
      stage->params().mask_token = 4;
      stage->run().block_rows = 7;
      stage->run().seats[0].block = {.context_begin = 5, .pending_begin = 0, .pending_end = 0, .first = 0, .count = 4};
      stage->run().seats[2].block = {.context_begin = 0, .pending_begin = 0, .pending_end = 0, .first = 4, .count = 3};
    }
    rows.row_table(std::vector<Row>(16, kUntouchedRow));
    rows.play();
    for (const bool causal : {false, true}) {
      const Row* row = contents<Row>(rows.bound().row_table) + (causal ? 8 : 0);
      for (const Row& expected : reference::block_rows(states[2], 2, 3, 4, 5, causal)) expect(same(*row++, expected));
      for (const Row& expected : reference::block_rows(states[3], 3, 2, 4, 0, causal)) expect(same(*row++, expected));
      expect(same(*row, kUntouchedRow));
    }
    keep.in_ids(0, chosen);
    keep.play();
    const auto* after = contents<RoundState>(keep.bound().states);
    expect(same(after[2], reference::keep_block(states[2], {100, 101, 102, 103})) && same(after[3], reference::keep_block(states[3], {104, 105, 106})));
    expect(same(after[0], states[0]) && same(after[1], states[1]));
  };

  "rows that wait are those of one session after the other, with the features from its ring"_test = [=] {
    Random random(15);
    const auto states = some_states();
    constexpr int kRingStride = graph::kPendingRows * kFeatureWidth + 7;
    const auto rings = random.floats(kRoundSlots * kRingStride, -3, 3);
    Stage stage(Op::round_rows, {}, graph::kPendingRows);
    stage.row_set(graph::RowSet::pending);
    seated(stage, states);
    stage.run().seats[0].block = {.context_begin = 0, .pending_begin = 60, .pending_end = 67, .first = 0, .count = 0};
    stage.run().seats[2].block = {.context_begin = 0, .pending_begin = 1000, .pending_end = 1064, .first = 0, .count = 0};
    stage.row_table(std::vector<Row>(graph::kPendingRows, kUntouchedRow));
    stage.out(0, kFeatureWidth);
    stage.bound().in[0] = stage.hold(rings);
    stage.params().in[0] = {kRingStride * sizeof(float), kFeatureWidth * sizeof(float), 0};
    const auto dispatches = metal::dispatches_of(stage.ready());
    for (const auto& [slot, begin, count] : {std::tuple{2, 60, 7}, std::tuple{3, 1000, 64}}) {
      run_alone(dispatches, count);
      expect(eq(contents<metal::layout::Run>(stage.bound().run)->waiting_rows, count));
      const FloatRows features = stage.floats(0);
      for (int i = 0; i < count; ++i) {
        const int position = begin + i;
        expect(same(contents<Row>(stage.bound().row_table)[i], Row{.slot = slot, .position = position, .block_end = position})) << position;
        const auto from = rings.begin() + slot * kRingStride + position % graph::kPendingRows * kFeatureWidth;
        expect(std::equal(features[static_cast<std::size_t>(i)].begin(), features[static_cast<std::size_t>(i)].end(), from)) << position;
      }
    }
  };

  "what is tapped goes to its place among the features"_test = [] {
    Random random(16);
    const FloatRows x = random_rows(random, 5, kHidden);
    Stage stage(Op::keep_tap, {.n = {kHidden}, .offset = 2 * kHidden}, 5);
    stage.in(0, x);
    stage.out(0, 4 * kHidden);
    stage.play();
    const FloatRows got = stage.floats(0);
    for (std::size_t r = 0; r < 5; ++r) {
      std::vector<float> expected(4 * kHidden, kUntouched);
      std::copy(x[r].begin(), x[r].end(), expected.begin() + 2 * kHidden);
      expect(std::memcmp(got[r].data(), expected.data(), expected.size() * sizeof(float)) == 0) << "row" << r;
    }
  };

  "a draft is made for the first session that is to have more, not for one with a block"_test = [=] {
    const auto states = some_states();
    for (int drafting = 0; drafting < 3; ++drafting) {
      Stage stage(Op::round_rows, {}, 1);
      stage.params().rows = metal::layout::kOneRow;
      seated(stage, states);
      for (int s = 0; s < 3; ++s) {
        if (s >= drafting) ++stage.run().seats[s].drafts;
        else stage.run().seats[s].block.count = ++stage.run().seats[s].drafts + 1;
      }
      stage.row_table({kUntouchedRow});
      stage.play();
      const int slot = slots[drafting];
      expect(same(contents<Row>(stage.bound().row_table)[0], reference::draft_row(states[static_cast<std::size_t>(slot)], slot)));
      const auto* run = contents<metal::layout::Run>(stage.bound().run);
      expect(eq(run->slot, slot) && eq(run->seat, drafting));
    }
  };
};

// What the host says about a run, in memory that is one row, mask and bias larger than it needs.
struct RunMemory {
  static constexpr int kRows = 300, kRowWords = sizeof(metal::layout::Row) / 4, kWords = 700, kBiases = 5;

  static metal::RunPlaces filled(Stage& stage, std::uint32_t first, const metal::layout::Run& run) {
    const auto words = [&](std::size_t count) {
      std::vector<std::uint32_t> values(count);
      std::iota(values.begin(), values.end(), first);
      return stage.hold(values);
    };
    return {stage.hold(&run, sizeof run), words(kRows * kRowWords), words(kWords), words(kBiases * 2)};
  }

  // How many words at the beginning of `to` are those of `from`, where all others must be as they were.
  static int copied(const metal::Slice& from, const metal::Slice& to, std::uint32_t first, int count) {
    const auto *source = contents<std::uint32_t>(from), *target = contents<std::uint32_t>(to);
    int same = 0;
    while (same < count && source[same] == target[same]) ++same;
    for (int i = same; i < count; ++i) expect(target[i] == first + static_cast<std::uint32_t>(i)) << "word" << i;
    return same;
  }
};

suite<"begin_run"> begin_suite = [] {
  "a run is brought to its place with the rows, masks and biases that it has"_test = [] {
    for (const int rows : {1, 8, 299})
      for (const bool samples : {false, true})
        for (const int masks : {0, 1, 3})
          for (const int biases : {0, 4}) {
            const int mask_words = masks ? 200 : 0;
            Stage stage(Op::keep_draft, {}, 1);  // for its memory
            metal::layout::Run run{};
            run.slot = run.seats[0].slot = 3;
            run.seat_count = 1;
            run.row_count = 8;
            run.host_rows = rows;
            run.first_output = 5;
            run.output_count = 3;
            run.place = 2;
            metal::layout::RunSeat& seat = run.seats[0];
            seat.samples = samples;
            seat.count = 3;
            seat.sampling.temperature = 0.5f;
            seat.sampling.stream = 77;
            seat.sampling.bias_count = biases;
            seat.sampling.mask_words = mask_words;
            seat.sampling.mask_stride_words = masks > 1 ? mask_words + 1 : 0;
            constexpr std::uint32_t kFrom = 1000, kTo = 5000000;
            const metal::RunPlaces from = RunMemory::filled(stage, kFrom, run);
            const metal::RunPlaces to = RunMemory::filled(stage, kTo, metal::layout::Run{});
            run_alone({begin_run(from, to)}, 1);
            expect(std::memcmp(contents<std::byte>(to.run), &run, sizeof run) == 0);
            expect(eq(RunMemory::copied(from.rows, to.rows, kTo, RunMemory::kRows * RunMemory::kRowWords), rows * RunMemory::kRowWords));
            const int words = !samples ? 0 : masks > 1 ? 3 * mask_words + 2 : mask_words;
            expect(eq(RunMemory::copied(from.masks, to.masks, kTo, RunMemory::kWords), words));
            expect(eq(RunMemory::copied(from.biases, to.biases, kTo, RunMemory::kBiases * 2), samples ? biases * 2 : 0));
          }
  };
};

}  // namespace
}  // namespace lapidary::test::round_test
