// What this processor can do beyond what its family must.
#pragma once

namespace lapidary::cpu {

bool has_dotprod();      // Arm: dot products of bytes
bool has_i8mm();         // Arm: matrix products of bytes
bool has_bf16();         // Arm: matrix products of bfloat16
bool has_sse41();        // x86
bool has_avx2_fma();     // x86
bool has_avx_vnni();     // x86: AVX2 and FMA with dot products of bytes
bool has_avx512_vnni();  // x86: AVX-512 (F, BW, DQ, VL) with dot products of bytes

}  // namespace lapidary::cpu
