// What is checked: every kernel of the library, on small data of its own.
#pragma once

#include "metal/check/trial.hpp"

namespace lapidary::metal::check {

struct Case {
  std::string name;
  std::function<Finding(Workbench&)> examine;
};

std::vector<Case> product_cases();    // products, experts, lookups: every storage
std::vector<Case> row_cases();        // norms, rotary positions, mixtures of experts
std::vector<Case> attention_cases();
std::vector<Case> tower_cases();      // what pictures and sounds become soft tokens by
std::vector<Case> choice_cases();     // sampling, the state of a round
std::vector<Case> read_cases();       // what bench measures with

using Doubles = std::vector<double>;

inline Doubles doubles(const std::vector<float>& x) { return {x.begin(), x.end()}; }

}  // namespace lapidary::metal::check
