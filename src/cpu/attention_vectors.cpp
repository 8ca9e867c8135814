// Attention of the fast mode with vectors of four floats, which every processor has: for Arm without products of bfloat16 and
// x86 without AVX2.
#include "cpu/attention_vectors.hpp"

namespace lapidary::cpu {
namespace {

struct FourFloats {
  using Floats = xsimd::make_sized_batch_t<float, 4>;
  using Words = xsimd::make_sized_batch_t<std::uint32_t, 4>;
  using Rows = Floats;
  static constexpr int kFloats = 4, kMerged = 2, kMaxLines = 1, kAhead = 0;
#if defined(__aarch64__)
  static constexpr int kMaxTogether = 8, kMaxSums = 16;  // half of the registers
#else
  static constexpr int kMaxTogether = 2, kMaxSums = 8;
#endif

  [[gnu::always_inline]] static Words load(const std::uint16_t* at) {
    using Halves = xsimd::make_sized_batch_t<std::uint16_t, 8>;
    return std::bit_cast<Words>(Halves::load_unaligned(at));
  }
  [[gnu::always_inline]] static Floats even_columns(Words words) { return std::bit_cast<Floats>(words << 16); }
  [[gnu::always_inline]] static Floats odd_columns(Words words) { return std::bit_cast<Floats>(words & Words(0xffff0000u)); }
  [[gnu::always_inline]] static Floats repeated(const float* four) { return Floats::load_unaligned(four); }
  [[gnu::always_inline]] static Floats fma(Floats a, Floats b, Floats c) { return xsimd::fma(a, b, c); }
  [[gnu::always_inline]] static Rows rows_of(const Floats* sums) {
    const auto a = sums[0].data, b = sums[1].data;
    return Floats(__builtin_shufflevector(a, b, 0, 2, 4, 6)) + Floats(__builtin_shufflevector(a, b, 1, 3, 5, 7));
  }
};

template <int Pairs>
using Heads = VectorHeads<FourFloats, Pairs>;

}  // namespace

const AttentionKernels kVectorAttention = {"vectors", TiledAttention<Heads>::attend, &TiledAttention<Heads>::kTogether};

}  // namespace lapidary::cpu
