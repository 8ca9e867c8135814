// How fast this machine multiplies: what towers are measured against.
#pragma once

#include "cpu/instructions.hpp"
#include "cpu/team.hpp"

namespace lapidary::cpu {

// Products a second of all threads, of numbers that are in registers already. packed: by matrices of bfloat16 where there are such
// instructions; else of floats.
double measure_product_limit(Team& team, const Instructions& instructions, bool packed);

}  // namespace lapidary::cpu
