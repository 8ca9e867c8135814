// The targets of the fixtures with their drafters, and pebble with its own.
#pragma once

#include <string>
#include <vector>

#include "support/cases.hpp"

namespace lapidary::test {

struct Pair {
  std::string name, target, assistant, dflash;  // folders
};

inline std::vector<Pair> fixture_pairs() {
  std::vector<Pair> pairs;
  for (const auto& [target, assistant] : {std::pair{"dense-bf16", "dense-bf16"}, {"dense-4bit", "dense-4bit"},
                                          {"moe-bf16", "moe-bf16"}, {"ple-bf16", "ple-bf16"}, {"ple-4bit", "ple-8bit"},
                                          {"unified-bf16", "unified-bf16"}})
    pairs.push_back({target, kFixtures + "/models/" + target, kFixtures + "/assistants/" + assistant,
                     kFixtures + "/dflash/" + std::string(target).substr(0, std::string_view(target).find('-')) + "-bf16"});
  return pairs;
}

inline Pair pebble_pair() { return {"pebble", kRoot + "/models/pebble", kRoot + "/models/pebble-assistant", kRoot + "/models/pebble-dflash"}; }

}  // namespace lapidary::test
