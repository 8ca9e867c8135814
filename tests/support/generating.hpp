#pragma once

#include <cstdint>
#include <vector>

#include "decode/generate.hpp"

namespace lapidary::test {

// All tokens of a text.
inline std::vector<std::int32_t> all_of(decode::Generation& generation) {
  std::vector<std::int32_t> tokens;
  while (const auto token = generation.next()) tokens.push_back(*token);
  return tokens;
}

}  // namespace lapidary::test
