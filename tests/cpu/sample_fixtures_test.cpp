// sample, against golden probabilities, noise and picks.
#include <boost/ut.hpp>

#include "cpu/sample_rows.hpp"
#include "numeric/noise.hpp"
#include "support/sample_list_cases.hpp"

namespace lapidary::test::sample_fixtures_test {
namespace {

using namespace boost::ut;
namespace dom = simdjson::dom;

std::uint64_t seed_of(dom::element entry) { return std::stoull(std::string(std::string_view(entry["seed"]))); }

const suite<"golden sampling"> golden_sampling = [] {
  test_golden_picks(choose_on_cpu);

  "the definition has the golden probabilities"_test = [] {
    for_each_golden_case([](const GoldenCase& one, dom::element entry) {
      if (double(entry["edge_gap"]) < kGoldenTolerance) return;
      const auto ours = reference::distribution(one.logits, {one.sampling, one.counts, {}}, {});
      double worst = 0.0;
      for (std::size_t i = 0; i < ours.probabilities.size(); ++i)
        worst = std::max(worst, std::abs(ours.probabilities[i] - one.probabilities[i]));
      expect(worst < kGoldenTolerance) << one.name << worst;
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
      expect(std::abs(numeric::exponential(word) + std::log(uniform)) < 1e-6 * -std::log(uniform) + 1e-9);
      ++values;
    }
    expect(values > 100);
  };
};

}  // namespace
}  // namespace lapidary::test::sample_fixtures_test
