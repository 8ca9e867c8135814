// round_rows, keep_draft, keep_block and accept of a backend: the state of a round, against its definition.
#pragma once

#include <array>

#include "reference/round.hpp"
#include "support/rows.hpp"

namespace lapidary::test {

inline constexpr int kMaxDrafts = graph::kMaxVerifyRows - 1;
inline constexpr int kRoundVocab = 1000, kRoundSlots = 4, kFeatureWidth = 83;
inline constexpr graph::Row kUntouchedRow{.slot = -7, .position = -7, .token = -7, .block_end = -7, .soft = -7, .begin = -7};

inline bool same(const graph::Row& a, const graph::Row& b) {
  return a.slot == b.slot && a.position == b.position && a.token == b.token && a.block_end == b.block_end &&
         a.soft == b.soft && a.begin == b.begin;
}

inline bool same(const graph::RoundState& a, const graph::RoundState& b) {
  return a.length == b.length && a.bonus == b.bonus && a.emitted == b.emitted && a.drafted == b.drafted &&
         a.drafts == b.drafts && a.accepted == b.accepted;
}

// Every place for a draft is taken, also those that do not count.
inline graph::RoundState state_with(Random& random, int drafted) {
  graph::RoundState state{.length = 1 + random.below(5000), .bonus = random.below(kRoundVocab),
                          .emitted = 5'000'000'000 + random.below(1000), .drafted = drafted, .accepted = -1};
  for (std::int32_t& draft : state.drafts) draft = random.below(kRoundVocab);
  return state;
}

// What the rows of a round chose, and all that `accept` reads besides the state.
struct Round {
  graph::RoundState state;
  int slot;
  std::vector<graph::Row> rows;  // the row table
  int first_output = 0;          // the first of them that is of the round
  Ids chosen;
  FloatRows hidden, features;

  // The first `n` of k drafts are what the target chose, the next is not, and each after it as chance has it.
  Round(Random& random, int k, int n, int hidden_width) : state(state_with(random, k)), slot(random.below(kRoundSlots)) {
    rows = reference::verify_rows(state, slot);
    for (int i = 0; i <= k; ++i) {
      chosen.push_back(i < n || (i > n && random.chance(2)) ? state.drafts[i % kMaxDrafts] : random.below(kRoundVocab));
      if (i == n && n < k && chosen[i] == state.drafts[i]) chosen[i] = (chosen[i] + 1) % kRoundVocab;
      hidden.push_back(random.floats(hidden_width, -3, 3));
      features.push_back(random.floats(kFeatureWidth, -3, 3));
    }
  }

  std::vector<graph::Row> own_rows() const { return {rows.begin() + first_output, rows.end()}; }
};

// What was written into a ring of features, by place. ring: [kPendingRows, kFeatureWidth]
inline std::map<std::int32_t, std::vector<float>> kept_features(const float* ring) {
  std::map<std::int32_t, std::vector<float>> rows;
  for (std::int32_t place = 0; place < graph::kPendingRows; ++place, ring += kFeatureWidth)
    if (!std::all_of(ring, ring + kFeatureWidth, is_untouched)) rows[place].assign(ring, ring + kFeatureWidth);
  return rows;
}

// What else there is must stay as it is: the functions look at that themselves.
struct RoundKernels {
  std::function<std::vector<graph::Row>(const graph::RoundState& state, int slot)> verify_rows;  // as many as there may be
  std::function<graph::Row(const graph::RoundState& state, int slot)> draft_row;
  std::function<graph::RoundState(const graph::RoundState& state, int slot, std::int32_t token)> keep_draft;
  // Numbers of `variant` stand for different ways to do the same. counts: [vocab] or none
  std::function<reference::Accepted(const Round& round, const Ids& counts, int variant)> accept;
  // Of one session with so many drafts: the rows by both tables, as many as there may be in each.
  std::function<std::vector<graph::Row>(const graph::RoundState& state, int slot, int drafts, std::int32_t mask_token, std::int32_t begin)>
      block_rows;
  std::function<graph::RoundState(const graph::RoundState& state, int slot, const Ids& chosen)> keep_block;
  int hidden_width;
  int repetitions;
};

inline void test_round_rows(const RoundKernels& kernels) {
  using namespace boost::ut;

  "a round has the bonus token and its drafts from the end of the K/V on"_test = [&] {
    Random random(1);
    for (int k = 0; k <= kMaxDrafts; ++k)
      for (const int slot : {0, 3}) {
        const graph::RoundState state = state_with(random, k);
        const auto rows = kernels.verify_rows(state, slot), expected = reference::verify_rows(state, slot);
        expect(eq(expected.size(), static_cast<std::size_t>(k + 1)) && eq(rows.size(), std::size_t{graph::kMaxVerifyRows}));
        for (std::size_t i = 0; i < rows.size(); ++i)
          expect(same(rows[i], i < expected.size() ? expected[i] : kUntouchedRow)) << "row" << i << "of" << k + 1;
      }
  };

  "a draft goes on from the last token at the last position with K/V"_test = [&] {
    Random random(2);
    for (int k = 0; k <= kMaxDrafts; ++k)
      for (const int slot : {0, 3}) {
        const graph::RoundState state = state_with(random, k);
        const graph::Row row = kernels.draft_row(state, slot);
        expect(same(row, reference::draft_row(state, slot))) << "after" << k << "drafts";
        expect(eq(row.position, state.length - 1));
      }
  };

  "drafts are kept one after the other"_test = [&] {
    Random random(4);
    graph::RoundState state = state_with(random, 0);
    for (int k = 0; k < kMaxDrafts; ++k) {
      const std::int32_t token = random.below(kRoundVocab);
      const graph::RoundState expected = reference::keep_draft(state, token);
      state = kernels.keep_draft(state, k % kRoundSlots, token);
      expect(same(state, expected)) << "after" << k << "drafts";
    }
    expect(eq(state.drafted, kMaxDrafts));
  };
}

inline void test_blocks(const RoundKernels& kernels) {
  using namespace boost::ut;

  "a block has the bonus token and masks from the end of the K/V on, which see it whole or what is before them"_test = [&] {
    Random random(13);
    for (int k = 1; k <= kMaxDrafts; ++k)
      for (const int slot : {0, 3}) {
        const graph::RoundState state = state_with(random, 0);
        const std::int32_t begin = random.below(state.length + 1);
        const auto rows = kernels.block_rows(state, slot, k, 4, begin);
        expect(fatal(eq(rows.size(), std::size_t{2 * graph::kMaxVerifyRows})));
        for (const bool causal : {false, true}) {
          const auto expected = reference::block_rows(state, slot, k, 4, begin, causal);
          for (std::size_t i = 0; i < graph::kMaxVerifyRows; ++i)
            expect(same(rows[(causal ? graph::kMaxVerifyRows : 0) + i], i < expected.size() ? expected[i] : kUntouchedRow))
                << "row" << i << "of" << k + 1;
        }
      }
  };

  "the drafts of a block are what its masks chose"_test = [&] {
    Random random(14);
    for (int k = 1; k <= kMaxDrafts; ++k) {
      const graph::RoundState state = state_with(random, 0);
      Ids chosen;
      for (int i = 0; i <= k; ++i) chosen.push_back(random.below(kRoundVocab));
      expect(same(kernels.keep_block(state, k % kRoundSlots, chosen), reference::keep_block(state, chosen))) << k << "drafts";
    }
  };
}

// `accept` does what is expected; returns the state afterwards.
inline graph::RoundState expect_accepted(const RoundKernels& kernels, const Round& round, const Ids& counts,
                                         int variant = 0) {
  using boost::ut::expect;
  const auto expected = reference::accept(round.state, round.own_rows(), round.chosen, round.hidden, round.features, counts);
  const auto got = kernels.accept(round, counts, variant);
  expect(same(got.state, expected.state)) << got.state.accepted << "accepted, expected" << expected.state.accepted;
  expect(got.counts == expected.counts) << "counts";
  expect(same_bits(got.carry, expected.carry)) << "carries the hidden row of another row";
  expect(got.features == expected.features) << "keeps the features of other rows";
  return got.state;
}

inline void test_accept(const RoundKernels& kernels) {
  using namespace boost::ut;
  const int width = kernels.hidden_width;
  const Ids zeros(kRoundVocab, 0), ones(kRoundVocab, 1), threes(kRoundVocab, 3);

  "drafts are accepted up to the first that is not what was chosen"_test = [&] {
    Random random(5);
    for (int k = 0; k <= kMaxDrafts; ++k)
      for (int n = 0; n <= k; ++n)
        for (int repetition = 0; repetition < kernels.repetitions; ++repetition) {
          const Round round(random, k, n, width);
          Ids counts(kRoundVocab);
          for (std::int32_t& count : counts) count = random.below(3);
          const auto after = expect_accepted(kernels, round, repetition % 2 ? counts : Ids{}, repetition);
          expect(eq(after.accepted, n)) << "of" << k;
          expect(eq(after.bonus, round.chosen[n]));
          expect(eq(after.length, round.state.length + n + 1));
          expect(eq(after.emitted, round.state.emitted + n + 1));
          expect(eq(after.drafted, 0));
        }
  };

  "drafts that match again after a mismatch do not count"_test = [&] {
    Random random(6);
    for (int k = 1; k <= kMaxDrafts; ++k)
      for (int n = 0; n < k; ++n) {
        Round round(random, k, n, width);
        for (int i = n + 1; i < k; ++i) round.chosen[i] = round.state.drafts[i];
        expect(eq(expect_accepted(kernels, round, ones, n).accepted, n)) << "of" << k;
      }
  };

  "tokens beyond the drafted ones are not drafts"_test = [&] {
    Random random(7);
    for (int k = 0; k < kMaxDrafts; ++k) {
      Round round(random, k, k, width);
      round.chosen[k] = round.state.drafts[k];
      expect(eq(expect_accepted(kernels, round, zeros).accepted, k));
    }
  };

  "a token accepted several times is counted as often"_test = [&] {
    Random random(8);
    for (const auto& drafts : {std::array{42, 42, 42, 42, 42, 42, 42}, {42, 42, 7, 42, 7, 9, 42}}) {
      Round round(random, kMaxDrafts, kMaxDrafts, width);
      std::copy(drafts.begin(), drafts.end(), round.state.drafts.begin());
      std::copy(drafts.begin(), drafts.end(), round.chosen.begin());
      round.chosen[kMaxDrafts] = drafts[5];
      expect(eq(expect_accepted(kernels, round, threes).accepted, kMaxDrafts));
    }
  };

  "the end of a prompt begins a round wherever its row is"_test = [&] {
    Random random(9);
    for (const int position : {0, 1, 41, 4095})
      for (const int first_output : {0, 3}) {
        Round round(random, 0, 0, width);
        round.state.length = 0;
        round.state.emitted = 0;
        round.rows.front().position = position;
        round.rows.insert(round.rows.begin(), first_output, kUntouchedRow);
        round.first_output = first_output;
        const auto after = expect_accepted(kernels, round, zeros, 2);
        expect(eq(after.length, position + 1));
        expect(eq(after.emitted, std::int64_t{1}));
      }
  };

  "rows after those of the round are not looked at"_test = [&] {
    Random random(10);
    Round round(random, 2, 2, width);
    round.chosen[2] = round.state.drafts[2];
    for (int i = 0; i < 4; ++i) {
      round.rows.push_back(kUntouchedRow);
      round.chosen.push_back(round.state.drafts[3 + i]);
      round.hidden.push_back(std::vector<float>(width, 9.0f));
      round.features.push_back(std::vector<float>(kFeatureWidth, 9.0f));
    }
    expect(eq(expect_accepted(kernels, round, zeros).accepted, 2));
  };
}

}  // namespace lapidary::test
