// Races and bounds of checked shader libraries: the compiler calls for each access to memory.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shim/abi.h"

namespace softmetal::checker {

// Memory that a dispatch may touch.
struct Range {
  std::uintptr_t begin = 0, end = 0;
  bool writable = false;
  bool tracked = true;    // Metal orders passes over it by itself
  std::string name;
};

void set_ranges(std::vector<Range> ranges);

// What comes after is ordered after all that came before: a barrier inside a pass; a new pass, which orders tracked memory
// alone; or the host, or an event, waited for everything before.
enum class Order { barrier, pass, all };
void order(Order order);

// What was found since the last call, with places in the source; "" = nothing.
std::string take_reports();

}  // namespace softmetal::checker
