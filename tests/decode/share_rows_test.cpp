// Which sessions of a round get the rows that are left for drafts.
#include <boost/ut.hpp>

#include <cmath>
#include <functional>
#include <vector>

#include "decode/policy.hpp"

namespace lapidary::test::share_rows_test {
namespace {

using namespace boost::ut;
using decode::Offer;
using decode::RoundCosts;

// Offers of so many drafts, each accepted as likely.
Offer offer_of(int count, double acceptance, bool fixed = false) {
  Offer offer{.source = 0, .count = count, .fixed = fixed};
  double chance = 1;
  for (int i = 0; i < count; ++i) offer.tokens[static_cast<std::size_t>(i)] = chance *= acceptance;
  return offer;
}

// Costs of rounds of 1 to 8 rows, in seconds, as far as `known`.
RoundCosts costs_of(const std::function<double(int)>& round_s, int known) {
  RoundCosts costs(std::vector<decode::SourceCost>{{.run_steps = 0.0}});
  for (int width = 1; width <= known; ++width)
    for (int i = 0; i < 2; ++i) costs.observe_round(width, round_s(width));
  return costs;
}

const suite<"shared rounds"> shared_rounds = [] {
  const auto flat = [](int) { return 1.0; };
  const auto by_row = [](int width) { return 1.0 * width; };

  "where rows cost nothing, all are used, by those who are likeliest to gain"_test = [=] {
    const Offer offers[] = {offer_of(7, 0.9), offer_of(7, 0.6), offer_of(7, 0.1)};
    const auto shares = share_rows(offers, costs_of(flat, 8), 8);
    expect(eq(shares[0], 4) && eq(shares[1], 1) && eq(shares[2], 0)) << shares[0] << shares[1] << shares[2];
  };

  "where every row costs as much as the first, none is used"_test = [=] {
    const Offer offers[] = {offer_of(7, 0.9), offer_of(7, 0.5)};
    const auto shares = share_rows(offers, costs_of(by_row, 8), 8);
    expect(shares[0] == 0 && shares[1] == 0);
  };

  "a step in the costs is not gone over, but gone up to"_test = [] {
    const auto stairs = [](int width) { return width <= 4 ? 1.0 : 3.0; };
    const Offer offers[] = {offer_of(7, 0.9), offer_of(7, 0.9)};
    const auto shares = share_rows(offers, costs_of(stairs, 8), 8);
    expect(eq(shares[0] + shares[1], 2));
  };

  "a block is paid for once"_test = [=] {
    Offer offer = offer_of(7, 0.9);
    offer.run_s = 0.5;
    const auto one_by_one = share_rows({&offer, 1}, costs_of(flat, 8), 8);
    offer.block = true;
    const auto at_once = share_rows({&offer, 1}, costs_of(flat, 8), 8);
    expect(eq(one_by_one[0], 3) && eq(at_once[0], 7));
  };

  "what a round costs without drafts is learnt first"_test = [=] {
    const Offer offers[] = {offer_of(7, 0.9), offer_of(7, 0.9)};
    const auto shares = share_rows(offers, costs_of(flat, 1), 8);
    expect(shares[0] == 0 && shares[1] == 0);
    const auto later = share_rows(offers, costs_of(flat, 2), 8);
    expect(later[0] + later[1] > 0);
  };

  "drafts that are wanted anyway come first, as far as there are rows"_test = [=] {
    const Offer offers[] = {offer_of(7, 0.99), offer_of(3, 0.1, true), offer_of(2, 0.2, true)};
    for (const int known : {0, 8}) {
      const auto shares = share_rows(offers, costs_of(by_row, known), 8);
      expect(shares[0] == 0 && shares[1] == 3 && shares[2] == 2) << known;
    }
    const auto shares = share_rows(offers, costs_of(by_row, 8), 5);
    expect(eq(shares[1] + shares[2], 2));
  };

  "texts of one engine know what each of them has learnt of costs, and not what the other accepts"_test = [] {
    const decode::PolicyOptions options{.sources = {{.draft_steps = 0.1, .acceptance = 0.7}}};
    RoundCosts costs(std::vector<decode::SourceCost>{{.run_steps = 0.1}});
    decode::Policy one(options, costs), two(options, costs);
    for (int i = 0; i < 4; ++i) one.observe({.verify_s = 1.0});
    for (int i = 0; i < 4; ++i) one.observe({.source = 0, .drafted = 1, .accepted = 0, .draft_s = 0.2, .verify_s = 1.5});
    expect(std::abs(costs.verify_s(2) - 1.5) < 0.002 && std::abs(costs.run_s(0) - 0.2) < 0.002);
    expect(one.acceptance(0, 1) < 0.3 && two.acceptance(0, 1) == 0.7_d);
    // Of a round that several share, one says what it cost.
    for (int i = 0; i < 2; ++i) {
      one.observe({.verify_s = 2.0, .other_rows = 3});
      two.observe({.source = 0, .drafted = 2, .accepted = 2, .draft_s = 0.4, .verify_s = 2.0, .other_rows = 1, .measures = false});
    }
    expect(costs.known(4) && std::abs(costs.verify_s(4) - 2.0) < 0.002 && two.acceptance(0, 2) > 0.7);
  };
};

}  // namespace
}  // namespace lapidary::test::share_rows_test
