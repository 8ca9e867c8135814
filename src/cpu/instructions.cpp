#include "cpu/instructions.hpp"

#include <iterator>
#include <ranges>

#include "cpu/features.hpp"

namespace lapidary::cpu {

std::span<const Instructions> all_instructions() {
  static const Instructions all[] = {
      {"portable", "nothing", true, &kPortableQ8, &kPortableFloatProducts, &kVectorAttention, &kPortableCodedAttention, nullptr, nullptr},
#if defined(__aarch64__)
      {"neon", "nothing", true, &kNeonQ8, &kPortableFloatProducts, &kVectorAttention, &kPortableCodedAttention, nullptr, nullptr},
      {"dotprod", "dot products of bytes", has_dotprod(), &kDotprodQ8, &kPortableFloatProducts, &kVectorAttention, &kPortableCodedAttention, nullptr, nullptr},
      {"i8mm", "matrix products of bytes and of bfloat16", has_i8mm() && has_bf16(), &kI8mmQ8, &kPortableFloatProducts, &kBfmmlaAttention,
       &kI8mmCodedAttention, &kBfmmlaProducts, &kBfmmlaPackedAttention},
#elif defined(__x86_64__)
      {"sse4.1", "SSE4.1", has_sse41(), &kSse41Q8, &kPortableFloatProducts, &kVectorAttention, &kPortableCodedAttention, nullptr, nullptr},
      {"avx2", "AVX2 and FMA", has_avx2_fma(), &kAvx2Q8, &kAvx2FloatProducts, &kAvx2Attention, &kAvx2CodedAttention, nullptr, nullptr},
      {"avx-vnni", "AVX2, FMA and AVX-VNNI", has_avx_vnni(), &kAvxVnniQ8, &kAvx2FloatProducts, &kAvx2Attention, &kAvx2CodedAttention, nullptr, nullptr},
      {"avx512", "AVX-512 (F, BW, DQ, VL, VNNI)", has_avx512_vnni(), &kAvx512Q8, &kAvx512FloatProducts, &kAvx512Attention, &kAvx512CodedAttention, nullptr, nullptr},
#endif
  };
  return all;
}

const Instructions& best_instructions(std::span<const Instructions> all) {
  return *std::ranges::find_if(all | std::views::reverse, &Instructions::here);
}

}  // namespace lapidary::cpu
