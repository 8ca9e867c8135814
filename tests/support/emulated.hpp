// Whether an emulator runs these tests (tools/check-emulated), 10 to 50 times as slowly as a processor would. They then leave out
// all sets of instructions but the best, and most sizes: a processor at hand runs the same tests with all sizes and the lesser sets.
#pragma once

#include <cstdlib>

namespace lapidary::test {

inline bool is_emulated() {
  static const bool emulated = std::getenv("LAPIDARY_EMULATED") != nullptr;
  return emulated;
}

}  // namespace lapidary::test
