// Attention of the fast mode with vectors of four floats, which every processor has: for Arm without products of bfloat16 and
// x86 without AVX2.
//
// A bfloat16 is the upper half of a float, so a word with two of them makes two floats, by a shift and by a mask. K and V
// both lie in lines of 8 rows (positions of K, elements of V) with 4 columns each, a vector of words is two rows: one product
// takes either. A numeric class of its own: a row has two sums, of columns 0 and 1 and of columns 2 and 3, ascending, each
// product added with one rounding where the target has fma; they meet at the end.
#include <algorithm>
#include <bit>

#include "cpu/attention_bf16.hpp"
#include "cpu/attention_tiles.hpp"
#include "graph/graph.hpp"

namespace lapidary::cpu {
namespace {

using Floats = xsimd::make_sized_batch_t<float, 4>;
using Words = xsimd::make_sized_batch_t<std::uint32_t, 4>;
using Halves = xsimd::make_sized_batch_t<std::uint16_t, 8>;

constexpr int kTile = graph::kTile, kLine = 32;

Words load(const std::uint16_t* at) { return std::bit_cast<Words>(Halves::load_unaligned(at)); }
Floats even_columns(Words words) { return std::bit_cast<Floats>(words << 16); }
Floats odd_columns(Words words) { return std::bit_cast<Floats>(words & Words(0xffff0000u)); }

// To bfloat16, as to_bf16 does, but left in float.
Floats rounded(Floats x) {
  const Words bits = std::bit_cast<Words>(x), up = bits + Words(0x7fffu) + ((bits >> 16) & Words(1u));
  return xsimd::select(x == x, std::bit_cast<Floats>(up & Words(0xffff0000u)), x);
}

// Every second lane of a, then of b.
Floats even_lanes(Floats a, Floats b) { return __builtin_shufflevector(a.data, b.data, 0, 2, 4, 6); }
Floats odd_lanes(Floats a, Floats b) { return __builtin_shufflevector(a.data, b.data, 1, 3, 5, 7); }

// Heads that take what is loaded and widened once: 16 sums are half of Arm's registers, 8 half of those that SSE has.
#if defined(__aarch64__)
constexpr int kMaxTogether = 8;
#else
constexpr int kMaxTogether = 2;
#endif

template <int Pairs>
struct Heads {
  using Factor = float;
  static constexpr int kFactors = 2;
  static constexpr int kHeads = 2 * Pairs;
  static constexpr int kTogether = std::min(kHeads, kMaxTogether);
  static constexpr int kVectors = kTogether > 4 ? 2 : 4, kRows = 2 * kVectors;  // of a line at once

  // to: [count / 4][head][columns 0, 2, 0, 2, 1, 3, 1, 3]
  static void round(int head, const float* from, int count, float* to) {
    for (int i = 0; i < count; i += 4) {
      const Floats x = rounded(Floats::load_unaligned(from + i));
      float* at = to + (i / 4 * kHeads + head) * 8;
      even_lanes(x, x).store_unaligned(at);
      odd_lanes(x, x).store_unaligned(at + 4);
    }
  }

  // kRows rows of lines times the factors of kTogether heads: calls done(head, row, sums) for each head and every fourth row,
  // sums: of 4 rows. visible(words, i): what may be seen of line i
  template <class Visible, class Done>
  static inline __attribute__((always_inline)) void multiply(const std::uint16_t* lines, const float* factors, int first_head,
                                                             const std::uint16_t* soon, int first, int last, Visible visible,
                                                             Done done) {
    Floats sums[kTogether][kVectors];
    for (auto& of_head : sums)
      for (Floats& sum : of_head) sum = Floats(0.0f);
    // Pointers that move: addresses made from indices would be 20 more instructions beside 36 of arithmetic, for 8 heads.
    lines += first * kLine, soon += first * kVectors * 8, factors += (first * kHeads + first_head) * 8;
    for (int i = first; i < last; ++i, lines += kLine, soon += kVectors * 8, factors += kHeads * 8) {
      fetch(soon);
      Floats even[kVectors], odd[kVectors];
      for (int j = 0; j < kVectors; ++j) {
        const Words words = visible(load(lines + j * 8), i);
        even[j] = even_columns(words);
        odd[j] = odd_columns(words);
      }
      for (int head = 0; head < kTogether; ++head) {
        const Floats f_even = Floats::load_unaligned(factors + head * 8), f_odd = Floats::load_unaligned(factors + head * 8 + 4);
        for (int j = 0; j < kVectors; ++j) sums[head][j] = xsimd::fma(even[j], f_even, sums[head][j]);
        for (int j = 0; j < kVectors; ++j) sums[head][j] = xsimd::fma(odd[j], f_odd, sums[head][j]);
      }
    }
    for (int head = 0; head < kTogether; ++head)
      for (int j = 0; j < kVectors; j += 2) {
        const Floats a = sums[head][j], b = sums[head][j + 1];
        done(first_head + head, 2 * j, even_lanes(a, b) + odd_lanes(a, b));
      }
  }

  static void score(const float* q, const std::uint16_t* k, const std::uint16_t* soon, int d, int begin, int end,
                    float (*scores)[kTile]) {
    const auto whole = [](Words words, int) __attribute__((always_inline)) { return words; };
    for (int block = begin / 8 * 8; block < end; block += 8)
      for (int row = 0; row < 8; row += kRows)
        for (int head = 0; head < kHeads; head += kTogether)
          multiply(k + block * d + row * 4, q, head, soon + (block + row) * d, 0, d / 4, whole,
                   [&](int of, int at, Floats sums) __attribute__((always_inline)) {
                     sums.store_unaligned(scores[of] + block + row + at);
                   });
  }

  // out: [d / 8][head][8]
  static void mix(const float* p, const float* keep, const std::uint16_t* v, const std::uint16_t* soon, int begin, int end,
                  Range eighths, float* out) {
    const auto add = [&](auto visible) __attribute__((always_inline)) {
      for (int i = eighths.begin; i < eighths.end; ++i)
        for (int row = 0; row < 8; row += kRows)
          for (int head = 0; head < kHeads; head += kTogether)
            multiply(v + i * 8 * kTile + row * 4, p, head, soon + (i * 8 + row) * kTile, begin / 4, (end + 3) / 4, visible,
                     [&](int of, int at, Floats sums) __attribute__((always_inline)) {
                       float* to = out + (i * kHeads + of) * 8 + row + at;
                       xsimd::fma(Floats::load_unaligned(to), Floats(keep[of]), sums).store_unaligned(to);
                     });
    };
    if (end - begin == kTile) return add([](Words words, int) __attribute__((always_inline)) { return words; });
    // What others left at invisible positions may not even be numbers: it must not be touched.
    std::uint16_t seen[2 * kTile];  // [quad][2 rows][4]
    for (int t = 0; t < kTile; ++t) seen[t / 4 * 8 + t % 4] = seen[t / 4 * 8 + 4 + t % 4] = t >= begin && t < end ? 0xffff : 0;
    add([&](Words words, int quad) __attribute__((always_inline)) { return words & load(seen + quad * 8); });
  }

  static void finish(const AttentionJob& job, const float* out, const float* sums, Range eighths) {
    for (int head = 0; head < job.heads; ++head)
      for (int i = 8 * eighths.begin; i < 8 * eighths.end; i += 4) {
        const Floats mixed = Floats::load_unaligned(out + (i / 8 * kHeads + head) * 8 + i % 8);
        (mixed / Floats(sums[head])).store_unaligned(job.out[head] + i);
      }
  }
};

}  // namespace

const AttentionKernels kVectorAttention = {"vectors", TiledAttention<Heads>::attend, &TiledAttention<Heads>::kTogether};

}  // namespace lapidary::cpu
