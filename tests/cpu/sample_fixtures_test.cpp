// sample, against golden probabilities, noise and picks.
#include <boost/ut.hpp>

#include "cpu/golden_sampling.hpp"
#include "cpu/noise.hpp"
#include "cpu/sample_rows.hpp"
#include "reference/sample.hpp"
#include "support/cases.hpp"

namespace lapidary::test {
namespace {

using namespace boost::ut;
namespace dom = simdjson::dom;

constexpr double kTolerance = 1e-6;  // also for decisions that may go either way

std::uint64_t seed_of(dom::element entry) { return std::stoull(std::string(std::string_view(entry["seed"]))); }

std::int32_t sampled(const GoldenCase& one, std::int64_t index) {
  return sample(one.logits, one.sampling, {.index = index}, one.counts);
}

// Where no decision may go either way.
template <class Check>
void for_each_case(Check&& check) {
  for_each_golden_case([&](GoldenCase& one, dom::element entry) {
    if (double(entry["edge_gap"]) >= kTolerance) check(one, entry, one.name);
  });
}

const suite<"golden sampling"> golden_sampling = [] {
  "picks are the golden ones"_test = [] {
    int picks = 0;
    for_each_case([&](GoldenCase& one, dom::element entry, const std::string& name) {
      for (const dom::element pick : entry["picks"]) {
        one.sampling.seed = seed_of(pick);
        one.sampling.stream = static_cast<std::uint32_t>(std::uint64_t(pick["stream"]));
        expect(eq(sampled(one, std::int64_t(pick["index"])), static_cast<std::int32_t>(std::int64_t(pick["token"])))) << name;
        ++picks;
      }
    });
    expect(picks > 900);
  };

  "the definition has the golden probabilities"_test = [] {
    for_each_case([](const GoldenCase& one, dom::element, const std::string& name) {
      const auto ours = reference::distribution(one.logits, {one.sampling, one.counts, {}}, {});
      double worst = 0.0;
      for (std::size_t i = 0; i < ours.probabilities.size(); ++i)
        worst = std::max(worst, std::abs(ours.probabilities[i] - one.probabilities[i]));
      expect(worst < kTolerance) << name << worst;
    });
  };

  "noise is the golden noise"_test = [] {
    dom::parser parser;
    int values = 0;
    for (const dom::element entry : parser.load(kFixtures + "/sampling/sampling.json")["noise"]) {
      const auto token = static_cast<std::int32_t>(std::int64_t(entry["token"]));
      const std::uint32_t word = reference::noise_word(seed_of(entry), std::int64_t(entry["index"]),
                                                       static_cast<std::uint32_t>(std::uint64_t(entry["stream"])), token);
      const double uniform = entry["uniform"];
      expect(std::abs((word + 0.5) * 0x1p-32 - uniform) < 1e-9);
      expect(std::abs(cpu::exponential(word) + std::log(uniform)) < 1e-6 * -std::log(uniform) + 1e-9);
      ++values;
    }
    expect(values > 100);
  };
};

}  // namespace
}  // namespace lapidary::test
