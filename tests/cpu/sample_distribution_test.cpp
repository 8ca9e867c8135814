// sample draws from the golden distributions, whichever part of the noise's key varies: chi-square tests of single picks
// and of neighbouring pairs, and the proof that they notice a sampler that is a little wrong.
#include <boost/ut.hpp>

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <functional>
#include <numeric>
#include <vector>

#include "cpu/kernels.hpp"
#include "reference/sample.hpp"
#include "support/cases.hpp"
#include "support/golden_sampling.hpp"
#include "support/slow_build.hpp"

namespace lapidary::test::sample_distribution_test {
namespace {

using namespace boost::ut;

constexpr int kDraws = kSlowBuild ? 400 : 4000;  // of each case along each axis
constexpr double kLimit = 5.0;  // standard deviations; a right sampler is at most 3.3 off here, chance allows 4

// Calls check(case) for every case with a temperature, until one returns false.
void for_each_case(const std::function<bool(const GoldenCase&)>& check) {
  bool go_on = true;
  for_each_golden_case([&](const GoldenCase& one, simdjson::dom::element) {
    if (go_on && one.sampling.temperature > 0.0f) go_on = check(one);
  });
}

// What chooses a token of a case: the kernel, or something that is wrong. The sampling has the seed and stream of the draw.
using Sampler = std::function<std::int32_t(const GoldenCase&, const graph::Sampling&, std::int64_t index)>;

std::int32_t kernel(const GoldenCase& one, const graph::Sampling& sampling, std::int64_t index) {
  std::array<float, 64> weights;
  std::array<std::int32_t, 64> candidates;
  assert(one.logits.size() <= weights.size());
  const graph::SelectRow row{.index = index};
  const graph::Selection selection{sampling, one.counts, {&row, 1}};
  std::int32_t token = -1;
  const auto n = one.logits.size();
  cpu::sample(1, {one.logits.data(), n}, {}, static_cast<int>(n), {}, &selection, {&token, 1}, {weights.data(), n},
              {candidates.data(), n}, {});
  return token;
}

// The part of the noise's key that varies from draw to draw.
enum class Axis { seed, upper_seed, index, stream };
constexpr Axis kAxes[] = {Axis::seed, Axis::upper_seed, Axis::index, Axis::stream};

std::vector<std::int32_t> draws_along(Axis axis, const GoldenCase& one, const Sampler& sampler) {
  std::vector<std::int32_t> tokens;
  for (std::uint32_t draw = 0; draw < kDraws; ++draw) {
    graph::Sampling sampling = one.sampling;
    std::int64_t index = 5;
    sampling.seed = 1000003u * static_cast<std::uint64_t>(one.number);  // so that no two cases see the same noise
    if (axis == Axis::seed) sampling.seed += draw;
    if (axis == Axis::upper_seed) sampling.seed += static_cast<std::uint64_t>(draw + 1) << 32;
    if (axis == Axis::index) index += 1 + draw;
    if (axis == Axis::stream) sampling.stream = 1 + draw;
    tokens.push_back(sampler(one, sampling, index));
  }
  return tokens;
}

// How far Pearson's statistic is from its mean, in standard deviations (after Wilson and Hilferty). Cells that are too rare
// to count alone are counted together. Infinite where something impossible occurred.
double deviation(const std::vector<int>& times, const std::vector<double>& probabilities) {
  const int all = std::accumulate(times.begin(), times.end(), 0);
  double statistic = 0.0, rare_mean = 0.0;
  int cells = 0, rare_times = 0;
  const auto add = [&](int count, double mean) {
    statistic += (count - mean) * (count - mean) / mean;
    ++cells;
  };
  for (std::size_t i = 0; i < times.size(); ++i) {
    const double mean = probabilities[i] * all;
    if (mean == 0.0 && times[i] > 0) return INFINITY;
    if (mean >= 5.0) {
      add(times[i], mean);
    } else {
      rare_mean += mean;
      rare_times += times[i];
    }
  }
  if (rare_mean >= 5.0) add(rare_times, rare_mean);
  else if (rare_times > 25) return INFINITY;
  const double freedom = cells - 1;
  if (freedom < 1.0) return 0.0;
  return (std::cbrt(statistic / freedom) - (1.0 - 2.0 / (9.0 * freedom))) / std::sqrt(2.0 / (9.0 * freedom));
}

double deviation_of_picks(const GoldenCase& one, const std::vector<std::int32_t>& tokens) {
  std::vector<int> times(one.probabilities.size(), 0);
  for (const std::int32_t token : tokens) ++times[static_cast<std::size_t>(token)];
  return deviation(times, one.probabilities);
}

// Each pick of an even number with the next one. Tokens are put into few classes, for enough of every pair of them.
double deviation_of_pairs(const GoldenCase& one, const std::vector<std::int32_t>& tokens) {
  constexpr std::size_t kClasses = 4;
  std::vector<std::size_t> class_of;
  std::vector<double> share(kClasses, 0.0), expected;
  double before = 0.0;
  for (const double p : one.probabilities) {
    class_of.push_back(std::min(kClasses - 1, static_cast<std::size_t>((before + p / 2) * kClasses)));
    share[class_of.back()] += p;
    before += p;
  }
  for (const double first : share)
    for (const double second : share) expected.push_back(first * second);
  std::vector<int> times(kClasses * kClasses, 0);
  for (std::size_t i = 0; i + 1 < tokens.size(); i += 2)
    ++times[class_of[static_cast<std::size_t>(tokens[i])] * kClasses + class_of[static_cast<std::size_t>(tokens[i + 1])]];
  return deviation(times, expected);
}

// Of the picks of all axes together, then of the picks and of the pairs along each.
std::vector<double> deviations(const GoldenCase& one, const Sampler& sampler) {
  std::vector<double> all(1);
  std::vector<std::int32_t> tokens;
  for (const Axis axis : kAxes) {
    const auto along = draws_along(axis, one, sampler);
    all.push_back(deviation_of_picks(one, along));
    all.push_back(deviation_of_pairs(one, along));
    tokens.insert(tokens.end(), along.begin(), along.end());
  }
  all.front() = deviation_of_picks(one, tokens);
  return all;
}

// Whether any case tells it from a right one.
bool is_rejected(const Sampler& sampler) {
  bool rejected = false;
  for_each_case([&](const GoldenCase& one) {
    rejected = std::ranges::max(deviations(one, sampler)) > kLimit;
    return !rejected;
  });
  return rejected;
}

const suite<"sampled distributions"> sampled_distributions = [] {
  "picks and pairs of neighbours come as often as they should, along every part of the key"_test = [] {
    int cases = 0, compared = 0;
    double sum = 0.0;
    for_each_case([&](const GoldenCase& one) {
      ++cases;
      const std::vector<double> all = deviations(one, kernel);
      for (std::size_t i = 0; i < all.size(); ++i) expect(std::abs(all[i]) < kLimit) << one.name << "at" << i << all[i];
      compared += all.front() != 0.0;
      sum += all.front();
      return true;
    });
    expect(cases >= 100 && compared > 60) << cases << compared;
    // Together the cases tell smaller errors.
    expect(std::abs(sum) < kLimit * std::sqrt(compared)) << sum / std::sqrt(compared);
  };
};

const suite<"wrong samplers"> wrong_samplers = [] {
  if (kSlowBuild) return;  // with too few draws to tell

  // The kernel with other settings than the case asks for.
  const auto with = [](auto&& change) -> Sampler {
    return [change](const GoldenCase& one, graph::Sampling sampling, std::int64_t index) {
      change(one, sampling, index);
      return kernel(one, sampling, index);
    };
  };
  // That many tokens more than survive top-p.
  const auto with_longer_nucleus = [with](int more) {
    return with([more](const GoldenCase& one, graph::Sampling& sampling, std::int64_t&) {
      const auto kept = std::ranges::count_if(one.probabilities, [](double p) { return p > 0.0; });
      if (sampling.top_p == 1.0f || kept + more < 1) return;
      sampling.top_p = 1.0f;
      sampling.top_k = static_cast<std::int32_t>(kept) + more;
    });
  };

  "a temperature that is off by 5 % is noticed, even where it does not change who survives"_test = [with] {
    for (const float factor : {0.95f, 1.05f})
      expect(is_rejected(with([factor](auto&, graph::Sampling& sampling, auto&) {
        if (sampling.top_p == 1.0f && sampling.min_p == 0.0f) sampling.temperature *= factor;
      }))) << factor;
  };

  "a top-p that is off by one token is noticed"_test = [with_longer_nucleus] {
    for (const int more : {-1, 1}) expect(is_rejected(with_longer_nucleus(more))) << more;
  };

  "noise without its logarithm is noticed"_test = [] {
    expect(is_rejected([](const GoldenCase& one, const graph::Sampling& sampling, std::int64_t index) {
      std::int32_t best = 0;
      double least = INFINITY;
      for (std::int32_t token = 0; token < static_cast<std::int32_t>(one.logits.size()); ++token) {
        const double p = one.probabilities[static_cast<std::size_t>(token)];
        const std::uint32_t word = reference::noise_word(sampling.seed, index, sampling.stream, token);
        const double cost = (1.0 - (word + 0.5) * 0x1p-32) / p;
        if (p > 0.0 && cost < least) best = token, least = cost;
      }
      return best;
    }));
  };

  "a part of the key that is ignored is noticed"_test = [with] {
    const Sampler ignoring[] = {
        with([](auto&, graph::Sampling& sampling, auto&) { sampling.seed = 1; }),
        with([](auto&, graph::Sampling& sampling, auto&) { sampling.seed &= 0xffffffffu; }),
        with([](auto&, graph::Sampling& sampling, auto&) { sampling.stream = 0; }),
        with([](auto&, auto&, std::int64_t& index) { index = 0; }),
        with([](auto&, auto&, std::int64_t& index) { index /= 2; }),  // neighbours share their noise
    };
    for (const Sampler& sampler : ignoring) expect(is_rejected(sampler)) << &sampler - ignoring;
  };
};

}  // namespace
}  // namespace lapidary::test::sample_distribution_test
