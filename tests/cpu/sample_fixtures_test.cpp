// sample, against golden probabilities, noise and picks.
#include <boost/ut.hpp>

#include "cpu/noise.hpp"
#include "cpu/sample_rows.hpp"
#include "reference/sample.hpp"
#include "support/cases.hpp"

namespace lapidary::test {
namespace {

using namespace boost::ut;
namespace dom = simdjson::dom;

constexpr double kTolerance = 1e-6;  // also for decisions that may go either way

float number_or(dom::element from, const char* key, float otherwise) {
  double value = 0;
  return from[key].get(value) ? otherwise : static_cast<float>(value);
}

std::vector<std::int32_t> ids_in(dom::element from, const char* key) {
  std::vector<std::int32_t> ids;
  dom::array list;
  if (!from[key].get(list))
    for (const std::int64_t id : list) ids.push_back(static_cast<std::int32_t>(id));
  return ids;
}

std::uint64_t seed_of(dom::element entry) { return std::stoull(std::string(std::string_view(entry["seed"]))); }

struct GoldenCase {
  std::vector<float> logits;
  std::vector<double> probabilities;
  std::vector<std::int32_t> suppressed, counts;
  std::vector<std::pair<std::int32_t, float>> bias;
  graph::Sampling sampling;

  GoldenCase(dom::element vectors, dom::element entry) {
    for (const dom::element value : dom::array(vectors[std::string_view(entry["vector"])]))
      logits.push_back(value.is_null() ? -INFINITY : static_cast<float>(double(value)));
    for (const double value : dom::array(entry["probabilities"])) probabilities.push_back(value);
    const dom::element parameters = entry["parameters"];
    suppressed = ids_in(parameters, "suppress");
    if (dom::object biases; !parameters["bias"].get(biases))
      for (const auto& field : biases)
        bias.emplace_back(std::stoi(std::string(field.key)), static_cast<float>(double(field.value)));
    counts.assign(logits.size(), 0);
    for (const std::int32_t token : ids_in(parameters, "history")) ++counts[token];
    sampling.suppressed = suppressed;
    sampling.bias = bias;
    sampling.repetition = number_or(parameters, "repetition_penalty", 1.0f);
    sampling.presence = number_or(parameters, "presence_penalty", 0.0f);
    sampling.frequency = number_or(parameters, "frequency_penalty", 0.0f);
    sampling.temperature = number_or(parameters, "temperature", 1.0f);
    sampling.top_k = static_cast<std::int32_t>(number_or(parameters, "top_k", 0.0f));
    sampling.top_p = number_or(parameters, "top_p", 1.0f);
    sampling.min_p = number_or(parameters, "min_p", 0.0f);
  }
  GoldenCase(const GoldenCase&) = delete;

  std::int32_t sampled(std::int64_t index) const { return sample(logits, sampling, {.index = index}, counts); }
};

template <class Check>
void for_each_case(Check&& check) {
  dom::parser parser;
  const dom::element golden = parser.load(kFixtures + "/sampling/sampling.json");
  for (const dom::element entry : golden["cases"]) {
    if (double(entry["edge_gap"]) < kTolerance) continue;
    GoldenCase one(golden["vectors"], entry);
    check(one, entry, std::string(std::string_view(entry["vector"])) + " " + simdjson::to_string(entry["parameters"]));
  }
}

const suite<"golden sampling"> golden_sampling = [] {
  "picks are the golden ones"_test = [] {
    int picks = 0;
    for_each_case([&](GoldenCase& one, dom::element entry, const std::string& name) {
      for (const dom::element pick : entry["picks"]) {
        one.sampling.seed = seed_of(pick);
        one.sampling.stream = static_cast<std::uint32_t>(std::uint64_t(pick["stream"]));
        expect(eq(one.sampled(std::int64_t(pick["index"])), static_cast<std::int32_t>(std::int64_t(pick["token"])))) << name;
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

  "tokens come as often as their golden probabilities say"_test = [] {
    constexpr int kDraws = 2000;
    for_each_case([](GoldenCase& one, dom::element, const std::string& name) {
      one.sampling.seed = 12345;
      std::vector<int> times(one.logits.size(), 0);
      for (int index = 0; index < kDraws; ++index) ++times[one.sampled(index)];
      // Pearson's statistic; rare tokens together count as one kind.
      double statistic = 0.0, rare = 0.0;
      int kinds = 0, rare_times = 0;
      for (std::size_t i = 0; i < times.size(); ++i) {
        const double mean = one.probabilities[i] * kDraws;
        if (mean == 0.0) expect(times[i] == 0) << name << "token" << i << "is excluded";
        if (mean < 5.0) {
          rare += mean;
          rare_times += times[i];
        } else {
          statistic += (times[i] - mean) * (times[i] - mean) / mean;
          ++kinds;
        }
      }
      if (rare > 0.5) statistic += (rare_times - rare) * (rare_times - rare) / rare;
      expect(statistic < kinds + 5.0 * std::sqrt(2.0 * kinds) + 5.0) << name << statistic << "of" << kinds;
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
