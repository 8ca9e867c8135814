// Attention of the fast mode with vectors of floats, as wide as a processor has them.
//
// A bfloat16 is the upper half of a float, so a word with two of them makes two floats, by a shift and by a mask. K and V
// both lie in lines of 8 rows (positions of K, elements of V) with 4 columns each, and a vector of words is some rows of a line: one
// product takes either. A row has two sums, of columns 0 and 1 and of columns 2 and 3, ascending, each product added with one rounding
// where the target has fma; they meet at the end. So all widths have the same bits where all have fma.
//
// Vectors are a struct in a namespace without a name, which has
//   Floats, Words, kFloats           a vector, and how many floats are in it
//   load, even_columns, odd_columns  words, and the two floats of each
//   repeated(four)                   4 floats again and again
//   fma(a, b, c)                     a * b + c
//   Rows, kMerged, rows_of(sums)     of so many vectors with the two sums of each row the rows, in order
//   kMaxTogether                     heads that take what is loaded and widened once, at most
//   kMaxSums, kMaxLines              vectors of sums at a time, and lines that they belong to
//   kAhead                           so many lines before its turn each is asked for into the nearest cache; 0: it is not
#pragma once

#include <algorithm>
#include <bit>
#include <cstring>

#include "cpu/attention_bf16.hpp"
#include "cpu/attention_tiles.hpp"
#include "graph/graph.hpp"

namespace lapidary::cpu {
namespace {

template <class Vectors, int Pairs>
struct VectorHeads {
  using Factor = float;
  using Floats = typename Vectors::Floats;
  using Words = typename Vectors::Words;
  using Rows = typename Vectors::Rows;
  static constexpr int kFactors = 2;
  static constexpr int kTile = graph::kTile, kLine = 32;
  static constexpr int kHeads = 2 * Pairs;

  // Heads, and vectors of rows, at a time: several lines, or part of one.
  static constexpr int kMaxTogether = Vectors::kMaxTogether;
  static constexpr int kTogether = kHeads <= kMaxTogether ? kHeads : kHeads % kMaxTogether == 0 ? kMaxTogether : 2;
  static constexpr int kVectorRows = Vectors::kFloats / 2, kLineVectors = 8 / kVectorRows;
  static constexpr int kVectors = std::min(std::bit_floor(unsigned{Vectors::kMaxSums / kTogether}), unsigned{Vectors::kMaxLines * kLineVectors});
  static constexpr int kLines = std::max(kVectors / kLineVectors, 1), kEach = kVectors / kLines;  // vectors of each line
  static constexpr int kRows = kEach * kVectorRows;

  // to: [count / 4][head][columns 0, 2, 0, 2, 1, 3, 1, 3]
  static void round(int head, const float* from, int count, float* to) {
    using Four = xsimd::make_sized_batch_t<float, 4>;
    using FourWords = xsimd::make_sized_batch_t<std::uint32_t, 4>;
    for (int i = 0; i < count; i += 4) {
      // To bfloat16, as to_bf16 does, but left in float.
      const Four x = Four::load_unaligned(from + i);
      const auto bits = std::bit_cast<FourWords>(x), up = bits + FourWords(0x7fffu) + ((bits >> 16) & FourWords(1u));
      const auto rounded = xsimd::select(x == x, std::bit_cast<Four>(up & FourWords(0xffff0000u)), x).data;
      float* at = to + (i / 4 * kHeads + head) * 8;
      Four(__builtin_shufflevector(rounded, rounded, 0, 2, 0, 2)).store_unaligned(at);
      Four(__builtin_shufflevector(rounded, rounded, 1, 3, 1, 3)).store_unaligned(at + 4);
    }
  }

  static void score(const float* q, const std::uint16_t* k, const std::uint16_t* soon, int d, int begin, int end,
                    float (*scores)[kTile]) {
    in_runs<kLines>({begin / 8, (end + 7) / 8}, [&]<int Lines>(int block) __attribute__((always_inline)) {
      multiply_heads<Lines>(k + block * 8 * d, 8 * d, d / 4, q, soon + block * 8 * d, {0, d / 4}, all_is_visible,
                            [&](int head, int row, Rows sums) __attribute__((always_inline)) {
                              sums.store_unaligned(scores[head] + block * 8 + row);
                            });
    });
  }

  // out: [d / 8][head][8]
  static void mix(const float* p, const float* keep, const std::uint16_t* v, const std::uint16_t* soon, int begin, int end,
                  Range eighths, float* out) {
    const auto add = [&](auto visible) __attribute__((always_inline)) {
      in_runs<kLines>(eighths, [&]<int Lines>(int i) __attribute__((always_inline)) {
        multiply_heads<Lines>(v + i * 8 * kTile, 8 * kTile, kTile / 4, p, soon + i * 8 * kTile, {begin / 4, (end + 3) / 4}, visible,
                              [&](int head, int row, Rows sums) __attribute__((always_inline)) {
                                float* to = out + ((i + row / 8) * kHeads + head) * 8 + row % 8;
                                xsimd::fma(Rows::load_unaligned(to), Rows(keep[head]), sums).store_unaligned(to);
                              });
      });
    };
    if (end - begin == kTile) return add(all_is_visible);
    // What others left at invisible positions may not even be numbers: it must not be touched.
    std::uint16_t seen[kTile * kVectorRows];  // [quad][row][4]
    for (int t = 0; t < kTile; ++t)
      for (int row = 0; row < kVectorRows; ++row)
        seen[(t / 4 * kVectorRows + row) * 4 + t % 4] = t >= begin && t < end ? 0xffff : 0;
    add([&](Words words, int quad) __attribute__((always_inline)) { return words & Vectors::load(seen + quad * 4 * kVectorRows); });
  }

  static void finish(const AttentionJob& job, const float* out, const float* sums, Range eighths) {
    constexpr int kStep = Rows::size;
    for (int head = 0; head < job.heads; ++head)
      for (int i = 8 * eighths.begin; i < 8 * eighths.end; i += kStep) {
        const auto mixed = Rows::load_unaligned(out + (i / 8 * kHeads + head) * 8 + i % 8);
        (mixed / Rows(sums[head])).store_unaligned(job.out[head] + i);
      }
  }

 private:
  static constexpr auto all_is_visible = [](Words words, int) __attribute__((always_inline)) { return words; };

  // Calls work.operator()<n>(i) for runs of n, as many as can be up to Most.
  template <int Most, class Work>
  [[gnu::always_inline]] static void in_runs(Range range, Work work) {
    int i = range.begin;
    for (; i + Most <= range.end; i += Most) work.template operator()<Most>(i);
    if constexpr (Most > 1) in_runs<Most / 2>({i, range.end}, work);
  }

  // Blocks of `count` lines, `gap` elements apart, times the factors of all heads: calls done(head, row, sums) for each head and runs
  // of rows, as they follow each other in the blocks. visible(words, i): what may be seen of line i
  template <int Lines, class Visible, class Done>
  [[gnu::always_inline]] static void multiply_heads(const std::uint16_t* blocks, int gap, int count, const float* factors,
                                                    const std::uint16_t* soon, Range lines, Visible visible, Done done) {
    for (int row = 0; row < 8; row += kRows)
      for (int head = 0; head < kHeads; head += kTogether)
        multiply<Lines>(blocks + row * 4, gap, factors, head, soon + row * 4 * count, lines, visible,
                        [&](int of, int at, Rows sums) __attribute__((always_inline)) { done(of, row + at, sums); });
  }

  // kRows rows of each line times the factors of kTogether heads.
  template <int Lines, class Visible, class Done>
  [[gnu::always_inline]] static void multiply(const std::uint16_t* lines, int gap, const float* factors, int first_head,
                                              const std::uint16_t* soon, Range range, Visible visible, Done done) {
    constexpr int kCount = Lines * kEach, kAsked = kCount * Vectors::kFloats * 2;  // elements of a turn
    Floats sums[kTogether][kCount];
    for (auto& of_head : sums)
      for (Floats& sum : of_head) sum = Floats{};
    // Pointers that move: addresses made from indices would be 20 more instructions beside 36 of arithmetic, for 8 heads.
    lines += range.begin * kLine, soon += range.begin * kAsked, factors += (range.begin * kHeads + first_head) * 8;
    for (int i = range.begin; i < range.end; ++i, lines += kLine, soon += kAsked, factors += kHeads * 8) {
      for (int asked = 0; asked < kAsked; asked += kLine) fetch(soon + asked);
      if constexpr (Vectors::kAhead > 0)
        for (int j = 0; j < Lines; ++j) __builtin_prefetch(lines + j * gap + Vectors::kAhead * kLine);
      Floats even[kCount], odd[kCount];
      for (int j = 0; j < kCount; ++j) {
        const Words words = visible(Vectors::load(lines + j / kEach * gap + j % kEach * 4 * kVectorRows), i);
        even[j] = Vectors::even_columns(words);
        odd[j] = Vectors::odd_columns(words);
      }
      for (int head = 0; head < kTogether; ++head) {
        const Floats f_even = Vectors::repeated(factors + head * 8), f_odd = Vectors::repeated(factors + head * 8 + 4);
        for (int j = 0; j < kCount; ++j) sums[head][j] = Vectors::fma(even[j], f_even, sums[head][j]);
        for (int j = 0; j < kCount; ++j) sums[head][j] = Vectors::fma(odd[j], f_odd, sums[head][j]);
      }
    }
    for (int head = 0; head < kTogether; ++head)
      for (int j = 0; j < kCount; j += Vectors::kMerged)
        done(first_head + head, j / kEach * 8 + j % kEach * kVectorRows, Vectors::rows_of(sums[head] + j));
  }
};

}  // namespace
}  // namespace lapidary::cpu
