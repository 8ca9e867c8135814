// The targets of the fixtures with their assistants, and pebble with its own.
#pragma once

#include <string>
#include <vector>

#include "support/cases.hpp"

namespace lapidary::test {

struct Pair {
  std::string name, target, assistant;  // folders
};

inline std::vector<Pair> fixture_pairs() {
  std::vector<Pair> pairs;
  for (const auto& [target, assistant] : {std::pair{"dense-bf16", "dense-bf16"}, {"dense-4bit", "dense-4bit"},
                                          {"moe-bf16", "moe-bf16"}, {"ple-bf16", "ple-bf16"}, {"ple-4bit", "ple-8bit"},
                                          {"unified-bf16", "unified-bf16"}})
    pairs.push_back({target, kFixtures + "/models/" + target, kFixtures + "/assistants/" + assistant});
  return pairs;
}

inline Pair pebble_pair() { return {"pebble", kRoot + "/models/pebble", kRoot + "/models/pebble-assistant"}; }

}  // namespace lapidary::test
