// round_rows, keep_draft, keep_block and accept on the CPU.
#include <boost/ut.hpp>

#include "cpu/kernel_rows.hpp"
#include "support/round_cases.hpp"

namespace lapidary::test::round_test {
namespace {

using namespace boost::ut;
using graph::Row;
using graph::RoundState;

constexpr int kHidden = 37;

std::vector<Row> verify_rows(const RoundState& state, int slot) {
  std::vector<Row> rows(graph::kMaxVerifyRows, kUntouchedRow);
  in_parts(3, [&](cpu::Part part) { cpu::verify_rows(state, slot, rows, part); });
  return rows;
}

Row draft_row(const RoundState& state, int slot) {
  Row row = kUntouchedRow;
  in_parts(3, [&](cpu::Part part) { cpu::draft_row(state, slot, row, part); });
  return row;
}

RoundState keep_draft(RoundState state, int, std::int32_t token) {
  in_parts(3, [&](cpu::Part part) { cpu::keep_draft(token, state, part); });
  return state;
}

std::vector<Row> block_rows(const RoundState& state, int slot, int drafts, std::int32_t mask_token, std::int32_t begin) {
  std::vector<Row> rows(2 * graph::kMaxVerifyRows, kUntouchedRow);
  const auto count = static_cast<std::size_t>(drafts) + 1;
  in_parts(3, [&](cpu::Part part) {
    cpu::block_rows(state, slot, mask_token, begin, std::span(rows).first(count), std::span(rows).subspan(graph::kMaxVerifyRows, count), part);
  });
  return rows;
}

RoundState keep_block(RoundState state, int, const Ids& chosen) {
  IdRows rows;
  for (const std::int32_t token : chosen) rows.push_back({token});
  const IdBuffer tokens(rows);
  in_parts(3, [&](cpu::Part part) { cpu::keep_block(count_of(chosen) - 1, tokens.in().from(1), state, part); });
  return state;
}

reference::Accepted accept(const Round& round, const Ids& counts, int variant) {
  IdRows chosen_rows;
  for (const std::int32_t token : round.chosen) chosen_rows.push_back({token});
  const IdBuffer chosen(chosen_rows);
  const RowBuffer hidden(round.hidden);
  const RowBuffer features(round.features);
  reference::Accepted after{round.state, counts, std::vector<float>(kHidden + 1, kUntouched), {}};
  std::vector<float> ring(graph::kPendingRows * kFeatureWidth, kUntouched);
  in_parts(1 + variant % 3, [&](cpu::Part part) {
    cpu::accept(round.own_rows(), chosen.in(), hidden.in(), kHidden, after.state, after.counts, after.carry.data(), part);
  });
  in_parts(1 + variant % 3, [&](cpu::Part part) {
    cpu::keep_features(round.own_rows(), features.in(), kFeatureWidth, after.state, ring.data(), part);
  });
  after.features = kept_features(ring.data());
  expect(is_untouched(after.carry.back()));
  after.carry.pop_back();
  return after;
}

const RoundKernels kKernels{verify_rows, draft_row, keep_draft, accept, block_rows, keep_block, kHidden, 20};

suite<"rounds"> round_suite = [] {
  test_round_rows(kKernels);
  test_accept(kKernels);
  test_blocks(kKernels);

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

  "only the first part accepts and keeps drafts"_test = [] {
    Random random(11);
    const Round round(random, 4, 2, kHidden);
    RoundState state = round.state;
    const IdBuffer chosen(IdRows(5, {7}));
    const RowBuffer hidden(round.hidden);
    Ids counts(kRoundVocab, 1);
    std::vector<float> carry(kHidden, kUntouched);
    for (const cpu::Part part : {cpu::Part{1, 2}, cpu::Part{1, 3}, cpu::Part{2, 3}}) {
      cpu::keep_draft(7, state, part);
      cpu::accept(round.rows, chosen.in(), hidden.in(), kHidden, state, counts, carry.data(), part);
    }
    expect(same(state, round.state));
    expect(counts == Ids(kRoundVocab, 1));
    expect(std::all_of(carry.begin(), carry.end(), is_untouched));
  };
};

}  // namespace
}  // namespace lapidary::test::round_test
