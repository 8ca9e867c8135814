// From a format known at load to one known to the compiler. Files that are compiled for instructions of their own include this,
// so nothing here may have a name that the linker sees.
#pragma once

#include "cpu/q8.hpp"

namespace lapidary::cpu {
namespace {

// Calls f.operator()<Bits, Group>().
template <class F>
void with_format(Q8Format format, F f) {
  const auto by_group = [&]<int Bits>() {
    switch (format.group) {
      case 32: return f.template operator()<Bits, 32>();
      case 64: return f.template operator()<Bits, 64>();
      default: return f.template operator()<Bits, 128>();
    }
  };
  if (format.bits == 4) by_group.template operator()<4>();
  else by_group.template operator()<8>();
}

}  // namespace
}  // namespace lapidary::cpu
