// The cases of fixtures/sampling: logits, settings, and the probabilities that follow from them.
#pragma once

#include <boost/ut.hpp>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "graph/row.hpp"
#include "support/cases.hpp"

namespace lapidary::test {

inline constexpr double kGoldenTolerance = 1e-6;  // also for decisions that may go either way

struct GoldenCase {
  int number = 0;
  std::string name;
  std::vector<float> logits;
  std::vector<double> probabilities;
  std::vector<std::int32_t> suppressed, counts;
  std::vector<std::pair<std::int32_t, float>> bias;
  graph::Sampling sampling;  // refers to the lists above

  GoldenCase(int number_of_case, simdjson::dom::element vectors, simdjson::dom::element entry) : number(number_of_case) {
    const simdjson::dom::element parameters = entry["parameters"];
    name = std::string(std::string_view(entry["vector"])) + " " + simdjson::to_string(parameters);
    for (const simdjson::dom::element value : simdjson::dom::array(vectors[std::string_view(entry["vector"])]))
      logits.push_back(value.is_null() ? -INFINITY : static_cast<float>(double(value)));
    for (const double value : simdjson::dom::array(entry["probabilities"])) probabilities.push_back(value);
    counts.assign(logits.size(), 0);
    for (const auto& [key, value] : simdjson::dom::object(parameters)) {
      if (key == "suppress") {
        for (const std::int64_t token : simdjson::dom::array(value)) suppressed.push_back(static_cast<std::int32_t>(token));
      } else if (key == "history") {
        for (const std::int64_t token : simdjson::dom::array(value)) ++counts[static_cast<std::size_t>(token)];
      } else if (key == "bias") {
        for (const auto& [token, change] : simdjson::dom::object(value))
          bias.emplace_back(std::stoi(std::string(token)), static_cast<float>(double(change)));
      } else {
        set(key, static_cast<float>(double(value)));
      }
    }
    sampling.suppressed = suppressed;
    sampling.bias = bias;
  }
  GoldenCase(const GoldenCase&) = delete;

  void set(std::string_view key, float value) {
    if (key == "temperature") sampling.temperature = value;
    else if (key == "top_k") sampling.top_k = static_cast<std::int32_t>(value);
    else if (key == "top_p") sampling.top_p = value;
    else if (key == "min_p") sampling.min_p = value;
    else if (key == "repetition_penalty") sampling.repetition = value;
    else if (key == "presence_penalty") sampling.presence = value;
    else if (key == "frequency_penalty") sampling.frequency = value;
    else boost::ut::expect(false) << "unknown parameter" << key;
  }
};

// Calls check(case, its entry in the file) for every case.
template <class Check>
void for_each_golden_case(Check&& check) {
  simdjson::dom::parser parser;
  const simdjson::dom::element golden = parser.load(kFixtures + "/sampling/sampling.json");
  int number = 0;
  for (const simdjson::dom::element entry : golden["cases"]) {
    GoldenCase one(number++, golden["vectors"], entry);
    check(one, entry);
  }
}

}  // namespace lapidary::test
