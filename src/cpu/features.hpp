// What this processor can do beyond what its family must.
#pragma once

namespace lapidary::cpu {

bool has_i8mm();  // Arm: dot products and matrix products of bytes
bool has_bf16();  // Arm: matrix products of bfloat16

}  // namespace lapidary::cpu
