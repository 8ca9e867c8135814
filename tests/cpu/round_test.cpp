// round_rows, keep_draft and accept: the state of a round, against its definition.
#include <boost/ut.hpp>

#include "cpu/kernel_rows.hpp"
#include "reference/round.hpp"

namespace lapidary::test {
namespace {

using namespace boost::ut;
using graph::Row;
using graph::RoundState;

constexpr int kMaxDrafts = graph::kMaxVerifyRows - 1;
constexpr int kVocab = 1000;
constexpr int kHidden = 37;
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

suite<"round_rows"> rows_suite = [] {
  "a round has the bonus token and its drafts from the end of the K/V on"_test = [] {
    Random random(1);
    for (int k = 0; k <= kMaxDrafts; ++k)
      for (const int slot : {0, 3}) {
        const RoundState state = state_with(random, k);
        std::vector<Row> rows(graph::kMaxVerifyRows, kUntouchedRow);
        in_parts(3, [&](cpu::Part part) { cpu::verify_rows(state, slot, rows, part); });
        const std::vector<Row> expected = reference::verify_rows(state, slot);
        expect(eq(expected.size(), static_cast<std::size_t>(k + 1)));
        for (std::size_t i = 0; i < rows.size(); ++i)
          expect(same(rows[i], i < expected.size() ? expected[i] : kUntouchedRow)) << "row" << i << "of" << k + 1;
      }
  };

  "a draft goes on from the last token at the last position with K/V"_test = [] {
    Random random(2);
    for (int k = 0; k <= kMaxDrafts; ++k)
      for (const int slot : {0, 3}) {
        const RoundState state = state_with(random, k);
        Row row = kUntouchedRow;
        in_parts(3, [&](cpu::Part part) { cpu::draft_row(state, slot, row, part); });
        expect(same(row, reference::draft_row(state, slot))) << "after" << k << "drafts";
        expect(eq(row.position, state.length - 1));
      }
  };

  "only the first part makes rows"_test = [] {
    Random random(3);
    const RoundState state = state_with(random, 5);
    std::vector<Row> rows(graph::kMaxVerifyRows, kUntouchedRow);
    for (const cpu::Part part : {cpu::Part{1, 2}, cpu::Part{1, 3}, cpu::Part{2, 3}}) {
      cpu::verify_rows(state, 0, rows, part);
      cpu::draft_row(state, 0, rows[7], part);
    }
    for (const Row& row : rows) expect(same(row, kUntouchedRow));
  };
};

suite<"keep_draft"> keep_suite = [] {
  "drafts are kept one after the other, by the first part alone"_test = [] {
    Random random(4);
    RoundState state = state_with(random, 0);
    for (int k = 0; k < kMaxDrafts; ++k) {
      const std::int32_t token = random.below(kVocab);
      const RoundState expected = reference::keep_draft(state, token);
      in_parts(3, [&](cpu::Part part) { cpu::keep_draft(token, state, part); });
      expect(same(state, expected)) << "after" << k << "drafts";
    }
    expect(eq(state.drafted, kMaxDrafts));
  };
};

// What the rows of a round chose, and all that `accept` reads besides the state.
struct Round {
  RoundState state;
  std::vector<Row> rows;
  std::vector<std::int32_t> chosen;
  FloatRows hidden;

  // The first `n` of k drafts are what the target chose, the next is not, and each after it as chance has it.
  Round(Random& random, int k, int n) : state(state_with(random, k)) {
    rows = reference::verify_rows(state, random.below(3));
    for (int i = 0; i <= k; ++i) {
      chosen.push_back(i < n || (i > n && random.chance(2)) ? state.drafts[i % kMaxDrafts] : random.below(kVocab));
      if (i == n && n < k && chosen[i] == state.drafts[i]) chosen[i] = (chosen[i] + 1) % kVocab;
      hidden.push_back(random.floats(kHidden, -3, 3));
    }
  }

  // Runs `accept`, checks that it did what is expected, and returns the state afterwards.
  RoundState expect_accepted(const std::vector<std::int32_t>& counts_before, int parts) const {
    const auto expected = reference::accept(state, rows, chosen, hidden, counts_before);
    std::vector<std::vector<std::int32_t>> chosen_rows;
    for (const std::int32_t token : chosen) chosen_rows.push_back({token});
    const IdBuffer in_chosen(chosen_rows);
    const RowBuffer in_hidden(hidden);
    std::vector<float> carry(kHidden + 1, kUntouched);
    std::vector<std::int32_t> counts = counts_before;
    RoundState after = state;
    in_parts(parts, [&](cpu::Part part) {
      cpu::accept(rows, in_chosen.in(), in_hidden.in(), kHidden, after, counts, carry.data(), part);
    });
    expect(same(after, expected.state)) << after.accepted << "accepted, expected" << expected.state.accepted;
    expect(counts == expected.counts);
    expect(is_untouched(carry.back()));
    carry.pop_back();
    expect(same_bits(carry, expected.carry)) << "carries the hidden row of another row";
    return after;
  }
};

suite<"accept"> accept_suite = [] {
  "drafts are accepted up to the first that is not what was chosen"_test = [] {
    Random random(5);
    for (int k = 0; k <= kMaxDrafts; ++k)
      for (int n = 0; n <= k; ++n)
        for (int repetition = 0; repetition < 20; ++repetition) {
          const Round round(random, k, n);
          std::vector<std::int32_t> counts(kVocab);
          for (std::int32_t& count : counts) count = random.below(3);
          const RoundState after = round.expect_accepted(repetition % 2 ? counts : std::vector<std::int32_t>{}, 1 + k % 3);
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
        expect(eq(round.expect_accepted(std::vector<std::int32_t>(kVocab, 1), 2).accepted, n)) << "of" << k;
      }
  };

  "tokens beyond the drafted ones are not drafts"_test = [] {
    Random random(7);
    for (int k = 0; k < kMaxDrafts; ++k) {
      Round round(random, k, k);
      round.chosen[k] = round.state.drafts[k];
      expect(eq(round.expect_accepted(std::vector<std::int32_t>(kVocab, 0), 1).accepted, k));
    }
  };

  "a token accepted several times is counted as often"_test = [] {
    Random random(8);
    Round round(random, kMaxDrafts, kMaxDrafts);
    round.state.drafts.fill(42);
    for (std::int32_t& token : round.chosen) token = 42;
    round.expect_accepted(std::vector<std::int32_t>(kVocab, 3), 1);
  };

  "the end of a prompt begins a round wherever its row is"_test = [] {
    Random random(9);
    for (const int position : {0, 1, 41, 4095}) {
      Round round(random, 0, 0);
      round.state.length = 0;
      round.state.emitted = 0;
      round.rows.front().position = position;
      const RoundState after = round.expect_accepted(std::vector<std::int32_t>(kVocab, 0), 3);
      expect(eq(after.length, position + 1));
      expect(eq(after.emitted, std::int64_t{1}));
    }
  };

  "rows after those of the round are not looked at"_test = [] {
    Random random(10);
    Round round(random, 2, 2);
    for (int i = 0; i < 4; ++i) {
      round.rows.push_back(kUntouchedRow);
      round.chosen.push_back(round.state.drafts[3 + i]);
      round.hidden.push_back(std::vector<float>(kHidden, 9.0f));
    }
    expect(eq(round.expect_accepted(std::vector<std::int32_t>(kVocab, 0), 1).accepted, 2));
  };

  "only the first part accepts and keeps drafts"_test = [] {
    Random random(11);
    const Round round(random, 4, 2);
    RoundState state = round.state;
    const IdBuffer chosen(std::vector<std::vector<std::int32_t>>(5, {7}));
    const RowBuffer hidden(round.hidden);
    std::vector<std::int32_t> counts(kVocab, 1);
    std::vector<float> carry(kHidden, kUntouched);
    for (const cpu::Part part : {cpu::Part{1, 2}, cpu::Part{1, 3}, cpu::Part{2, 3}}) {
      cpu::keep_draft(7, state, part);
      cpu::accept(round.rows, chosen.in(), hidden.in(), kHidden, state, counts, carry.data(), part);
    }
    expect(same(state, round.state));
    expect(counts == std::vector<std::int32_t>(kVocab, 1));
    expect(std::all_of(carry.begin(), carry.end(), is_untouched));
  };
};

}  // namespace
}  // namespace lapidary::test
