// The numbers of a step as C++ has them.
#pragma once

#include <array>
#include <cstdint>

#include "graph/dims.h"

namespace lapidary::graph {

#define LAPIDARY_NUMBER(name) std::int32_t name = 0;
#define LAPIDARY_NUMBERS(name, count) std::array<std::int32_t, count> name{};
#define LAPIDARY_REAL(name) float name = 0.0f;
#define LAPIDARY_FLAG(name) bool name = false;
struct Dims {
  LAPIDARY_DIMS(LAPIDARY_NUMBER, LAPIDARY_NUMBERS, LAPIDARY_REAL, LAPIDARY_FLAG)
};
#undef LAPIDARY_NUMBER
#undef LAPIDARY_NUMBERS
#undef LAPIDARY_REAL
#undef LAPIDARY_FLAG

// Calls visit("k", dims.k...) and so on for every member. `dims`: Dims, or whatever else has members of these names.
template <class Visit, class... Structs>
constexpr void for_each_dim(Visit visit, Structs&... dims) {
#define LAPIDARY_VISIT(name) visit(#name, dims.name...);
#define LAPIDARY_VISIT_ALL(name, count) LAPIDARY_VISIT(name)
  LAPIDARY_DIMS(LAPIDARY_VISIT, LAPIDARY_VISIT_ALL, LAPIDARY_VISIT, LAPIDARY_VISIT)
#undef LAPIDARY_VISIT
#undef LAPIDARY_VISIT_ALL
}

}  // namespace lapidary::graph
