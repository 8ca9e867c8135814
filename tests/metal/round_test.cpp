// round_rows, keep_draft, accept and begin_run on the device: the state of a round, against its definition.
#include <boost/ut.hpp>

#include <numeric>

#include "metal/memory.hpp"
#include "metal/stage.hpp"
#include "reference/round.hpp"

namespace lapidary::test {
namespace {

using namespace boost::ut;
using graph::Op;
using graph::Row;
using graph::RoundState;
using metal::contents;

constexpr int kMaxDrafts = graph::kMaxVerifyRows - 1;
constexpr int kSlots = 4;
constexpr int kVocab = 1000;
constexpr int kHidden = 301;
const Row kUntouchedRow{.slot = -7, .position = -7, .token = -7, .block_end = -7};

bool same(const Row& a, const Row& b) {
  return a.slot == b.slot && a.position == b.position && a.token == b.token && a.block_end == b.block_end;
}

bool same(const RoundState& a, const RoundState& b) {
  return a.length == b.length && a.bonus == b.bonus && a.emitted == b.emitted && a.drafted == b.drafted &&
         a.drafts == b.drafts && a.accepted == b.accepted;
}

// Every place for a draft is taken, also those that do not count.
RoundState state_with(Random& random, int drafted) {
  RoundState state{.length = 1 + random.below(5000), .bonus = random.below(kVocab),
                   .emitted = 5'000'000'000 + random.below(1000), .drafted = drafted, .accepted = -1};
  for (std::int32_t& draft : state.drafts) draft = random.below(kVocab);
  return state;
}

// The states of all sessions on the stage. Only the one of the slot may change.
struct States {
  std::vector<RoundState> before;
  metal::Slice slice;
  int slot;

  States(Stage& stage, Random& random, int slot_of_run, const RoundState& state) : slot(slot_of_run) {
    for (int i = 0; i < kSlots; ++i) before.push_back(state_with(random, 7));
    before[slot] = state;
    slice = stage.bound().states = stage.hold(before);
    stage.run().slot = slot;
  }

  RoundState after() const {
    const auto* states = contents<RoundState>(slice);
    for (int i = 0; i < kSlots; ++i) expect(i == slot || same(states[i], before[i])) << "the state of another session";
    return states[slot];
  }
};

suite<"round_rows on the device"> rows_suite = [] {
  "a round has the bonus token and its drafts from the end of the K/V on"_test = [] {
    Random random(1);
    for (int k = 0; k <= kMaxDrafts; ++k)
      for (const int slot : {0, 3}) {
        const RoundState state = state_with(random, k);
        Stage stage(Op::round_rows, {}, k + 1);
        const States states(stage, random, slot, state);
        stage.row_table(std::vector<Row>(graph::kMaxVerifyRows, kUntouchedRow));
        stage.play();
        const std::vector<Row> expected = reference::verify_rows(state, slot);
        const Row* rows = contents<Row>(stage.bound().row_table);
        for (std::size_t i = 0; i < graph::kMaxVerifyRows; ++i)
          expect(same(rows[i], i < expected.size() ? expected[i] : kUntouchedRow)) << "row" << i << "of" << k + 1;
        expect(same(states.after(), state));
      }
  };

  "a draft goes on from the last token at the last position with K/V"_test = [] {
    Random random(2);
    for (int k = 0; k <= kMaxDrafts; ++k)
      for (const int slot : {0, 3}) {
        const RoundState state = state_with(random, k);
        Stage stage(Op::round_rows, {}, 1);
        stage.params().rows = metal::layout::kOneRow;
        const States states(stage, random, slot, state);
        stage.row_table(std::vector<Row>(1, kUntouchedRow));
        stage.play();
        const Row& row = contents<Row>(stage.bound().row_table)[0];
        expect(same(row, reference::draft_row(state, slot))) << "after" << k << "drafts";
        expect(same(states.after(), state));
      }
  };
};

suite<"keep_draft on the device"> keep_suite = [] {
  "drafts are kept one after the other"_test = [] {
    Random random(4);
    RoundState state = state_with(random, 0);
    for (int k = 0; k < kMaxDrafts; ++k) {
      const std::int32_t token = random.below(kVocab);
      const RoundState expected = reference::keep_draft(state, token);
      Stage stage(Op::keep_draft, {}, 1);
      stage.params().rows = metal::layout::kOneRow;
      const States states(stage, random, k % kSlots, state);
      stage.in_ids(0, {{token}});
      stage.play();
      state = states.after();
      expect(same(state, expected)) << "after" << k << "drafts";
    }
    expect(eq(state.drafted, kMaxDrafts));
  };
};

// What the rows of a round chose, and all that `accept` reads besides the state.
struct Round {
  RoundState state;
  int slot;
  std::vector<Row> rows;
  std::vector<std::int32_t> chosen;
  FloatRows hidden;
  int first_output = 0;  // row of the table that is the first of the step

  // The first `n` of k drafts are what the target chose, the next is not, and each after it as chance has it.
  Round(Random& random, int k, int n) : state(state_with(random, k)), slot(random.below(kSlots)) {
    rows = reference::verify_rows(state, slot);
    for (int i = 0; i <= k; ++i) {
      chosen.push_back(i < n || (i > n && random.chance(2)) ? state.drafts[i % kMaxDrafts] : random.below(kVocab));
      if (i == n && n < k && chosen[i] == state.drafts[i]) chosen[i] = (chosen[i] + 1) % kVocab;
      hidden.push_back(random.floats(kHidden, -3, 3));
    }
  }

  // Runs `accept`, checks that it did what is expected, and returns the state afterwards. counts: [vocab] or none
  RoundState expect_accepted(Random& random, const std::vector<std::int32_t>& counts, int threads = 0) const {
    const std::vector<Row> own_rows(rows.begin() + first_output, rows.end());
    const auto expected = reference::accept(state, own_rows, chosen, hidden, counts);
    const bool counted = !counts.empty();
    Stage stage(Op::accept, {.n = {kHidden}}, static_cast<int>(chosen.size()));
    stage.params().rows = metal::layout::kOutputRows;
    stage.params().vocab = kVocab;
    stage.run().row_count = static_cast<int>(rows.size());
    stage.run().first_output = first_output;
    stage.run().has_choice = counted || random.chance(2);
    stage.run().choice.has_counts = counted || !stage.run().has_choice;
    const States states(stage, random, slot, state);
    stage.row_table(rows);
    std::vector<std::vector<std::int32_t>> chosen_rows;
    for (const std::int32_t token : chosen) chosen_rows.push_back({token});
    stage.in_ids(0, chosen_rows);
    stage.in(1, hidden);

    constexpr int kCarryStride = kHidden + 5;
    std::vector<float> carry(kSlots * kCarryStride, kUntouched);
    stage.bound().out[0] = stage.hold(carry);
    stage.params().out[0] = {kCarryStride * sizeof(float), 0, 0};
    std::vector<std::int32_t> all_counts(kSlots * kVocab, 5);
    std::copy(counts.begin(), counts.end(), all_counts.begin() + slot * kVocab);
    stage.bound().counts = stage.hold(all_counts);
    const graph::RoundResult untouched{.accepted = -7, .tokens = {-7, -7, -7, -7, -7, -7, -7, -7}};
    std::vector<graph::RoundResult> results(3, untouched);
    stage.run().place = 1;
    stage.bound().results = stage.hold(results);
    stage.play(threads);

    const RoundState after = states.after();
    expect(same(after, expected.state)) << after.accepted << "accepted, expected" << expected.state.accepted;
    std::copy(expected.counts.begin(), expected.counts.end(), all_counts.begin() + slot * kVocab);
    expect(std::equal(all_counts.begin(), all_counts.end(), contents<std::int32_t>(stage.bound().counts))) << "counts";
    std::copy(expected.carry.begin(), expected.carry.end(), carry.begin() + slot * kCarryStride);
    expect(std::memcmp(carry.data(), contents<float>(stage.bound().out[0]), carry.size() * sizeof(float)) == 0)
        << "carries another row, or to another place";
    results[1].accepted = expected.state.accepted;
    std::copy_n(chosen.begin(), expected.state.accepted + 1, results[1].tokens.begin());
    expect(std::memcmp(results.data(), contents<std::byte>(stage.bound().results), sizeof results[0] * results.size()) == 0)
        << "another result, or at another place";
    return after;
  }
};

suite<"accept on the device"> accept_suite = [] {
  "drafts are accepted up to the first that is not what was chosen"_test = [] {
    Random random(5);
    for (int k = 0; k <= kMaxDrafts; ++k)
      for (int n = 0; n <= k; ++n)
        for (int repetition = 0; repetition < 4; ++repetition) {
          const Round round(random, k, n);
          std::vector<std::int32_t> counts(kVocab);
          for (std::int32_t& count : counts) count = random.below(3);
          const RoundState after = round.expect_accepted(random, repetition % 2 ? counts : std::vector<std::int32_t>{},
                                                         repetition < 2 ? 0 : 32);
          expect(eq(after.accepted, n)) << "of" << k;
          expect(eq(after.bonus, round.chosen[n]));
          expect(eq(after.length, round.state.length + n + 1));
          expect(eq(after.emitted, round.state.emitted + n + 1));
          expect(eq(after.drafted, 0));
        }
  };

  "drafts that match again after a mismatch do not count"_test = [] {
    Random random(6);
    for (int k = 1; k <= kMaxDrafts; ++k)
      for (int n = 0; n < k; ++n) {
        Round round(random, k, n);
        for (int i = n + 1; i < k; ++i) round.chosen[i] = round.state.drafts[i];
        expect(eq(round.expect_accepted(random, std::vector<std::int32_t>(kVocab, 1)).accepted, n)) << "of" << k;
      }
  };

  "tokens beyond the drafted ones are not drafts"_test = [] {
    Random random(7);
    for (int k = 0; k < kMaxDrafts; ++k) {
      Round round(random, k, k);
      round.chosen[k] = round.state.drafts[k];
      expect(eq(round.expect_accepted(random, std::vector<std::int32_t>(kVocab, 0)).accepted, k));
    }
  };

  "a token accepted several times is counted as often"_test = [] {
    Random random(8);
    Round round(random, kMaxDrafts, kMaxDrafts);
    round.state.drafts = {42, 42, 7, 42, 7, 9, 42};
    for (int i = 0; i < kMaxDrafts; ++i) round.chosen[i] = round.state.drafts[i];
    round.chosen[kMaxDrafts] = 9;
    expect(eq(round.expect_accepted(random, std::vector<std::int32_t>(kVocab, 3)).accepted, kMaxDrafts));
  };

  "the end of a prompt begins a round wherever its row is"_test = [] {
    Random random(9);
    for (const int position : {0, 1, 41, 4095})
      for (const int first_output : {0, 3}) {
        Round round(random, 0, 0);
        round.state.length = 0;
        round.state.emitted = 0;
        round.rows.front().position = position;
        round.rows.insert(round.rows.begin(), first_output, kUntouchedRow);
        round.first_output = first_output;
        const RoundState after = round.expect_accepted(random, std::vector<std::int32_t>(kVocab, 0));
        expect(eq(after.length, position + 1));
        expect(eq(after.emitted, std::int64_t{1}));
      }
  };

  "rows after those of the round are not looked at"_test = [] {
    Random random(10);
    Round round(random, 2, 2);
    round.chosen[2] = round.state.drafts[2];
    for (int i = 0; i < 4; ++i) {
      round.rows.push_back(kUntouchedRow);
      round.chosen.push_back(round.state.drafts[3 + i]);
      round.hidden.push_back(std::vector<float>(kHidden, 9.0f));
    }
    expect(eq(round.expect_accepted(random, std::vector<std::int32_t>(kVocab, 0)).accepted, 2));
  };
};

// What the host says about a run, in memory that is one row, mask and bias larger than it needs.
struct RunMemory {
  static constexpr int kRows = 300, kWords = 700, kBiases = 5;

  static metal::RunPlaces filled(Stage& stage, std::uint32_t first, const metal::layout::Run& run) {
    const auto words = [&](std::size_t count) {
      std::vector<std::uint32_t> values(count);
      std::iota(values.begin(), values.end(), first);
      return stage.hold(values);
    };
    return {stage.hold(&run, sizeof run), words(kRows * 4), words(kWords), words(kBiases * 2)};
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
      for (const bool has_choice : {false, true})
        for (const int masks : {0, 1, 3})
          for (const int biases : {0, 4}) {
            const int mask_words = masks ? 200 : 0;
            Stage stage(Op::keep_draft, {}, 1);  // for its memory
            metal::layout::Run run{};
            run.slot = 3;
            run.row_count = 8;
            run.host_rows = rows;
            run.first_output = 5;
            run.output_count = 3;
            run.has_choice = has_choice;
            run.place = 2;
            run.choice.temperature = 0.5f;
            run.choice.stream = 77;
            run.choice.bias_count = biases;
            run.choice.mask_words = mask_words;
            run.choice.mask_stride_words = masks > 1 ? mask_words + 1 : 0;
            constexpr std::uint32_t kFrom = 1000, kTo = 5000000;
            const metal::RunPlaces from = RunMemory::filled(stage, kFrom, run);
            const metal::RunPlaces to = RunMemory::filled(stage, kTo, metal::layout::Run{});
            run_alone({begin_run(from, to)}, 1);
            expect(std::memcmp(contents<std::byte>(to.run), &run, sizeof run) == 0);
            expect(eq(RunMemory::copied(from.rows, to.rows, kTo, RunMemory::kRows * 4), rows * 4));
            const int words = !has_choice ? 0 : masks > 1 ? 3 * mask_words + 2 : mask_words;
            expect(eq(RunMemory::copied(from.masks, to.masks, kTo, RunMemory::kWords), words));
            expect(eq(RunMemory::copied(from.biases, to.biases, kTo, RunMemory::kBiases * 2), has_choice ? biases * 2 : 0));
          }
  };
};

}  // namespace
}  // namespace lapidary::test
