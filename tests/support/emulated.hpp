// Whether an emulator runs these tests (tools/check-emulated), 10 to 50 times as slowly as a processor would. They then leave out
// all sets of instructions but the best, most sizes, what does not depend on instructions, and much of how near products are to their
// definition, for those of the best set have the bits of portable code: a processor at hand runs the same tests with all of that.
#pragma once

#include <cstdlib>

namespace lapidary::test {

inline bool is_emulated() {
  static const bool emulated = std::getenv("LAPIDARY_EMULATED") != nullptr;
  return emulated;
}

}  // namespace lapidary::test
