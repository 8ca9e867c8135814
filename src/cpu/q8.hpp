// Products in the fast mode: affine weights of 4 or 8 bits with activations quantised to 8 bits, row by row and group by group.
//
// Definition, for one activation row x and one weight row (q, scale s and bias b per group):
//   8 bits: a = max|x| / 127, u = round(x * (127 / max|x|)), ties to even; dot = sum q u; sum = sum u
//   4 bits: the values of a byte are lo and hi, for the activations e and o. o and e - o/16 take the place of x:
//           u = round(o r), v = round(fma(u, -1/16, e r)) with r = 127 / max(|o|, |fma(o, -1/16, e)|), a = max / 127 / 16;
//           dot = sum (lo + 16 hi) u + 16 lo v, which is 16 (hi o + lo e) / (16 a); sum = sum 17 u + 16 v.
//           A byte is multiplied as it lies in the file, and an error is at most 1/16 larger than in the plain form.
//   y = 0; for groups ascending: y = fma(float(dot), s * a, y), y = fma(b, a * float(sum), y)
// Integer sums are exact, so only the order of groups matters: a row is the same at every width, in every part, by every
// set of instructions. A group whose max is below kLeastQ8 counts as zeros (1 / max must be a number); what is not a number, or
// infinite, makes the outputs of its row not numbers.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/share.hpp"
#include "link/numeric.hpp"

namespace lapidary::cpu {

inline constexpr float kLeastQ8 = 0x1p-121f;
inline constexpr int kTileRows = 8;    // activation rows that meet the weights together
inline constexpr int kStreams = link::kScaleRows;  // weight rows of a step

struct Q8Format {
  int bits = 4, group = 64;
  bool operator==(const Q8Format&) const = default;
};

// Which weight rows a step works on: four that lie a quarter of the matrix apart, so that a thread reads four long streams. They
// begin a few rows apart within their quarters, lest all of them compete for the same cache lines.
class Walk {
 public:
  Walk() = default;
  Walk(int rows, int cols);

  int steps() const { return quarter_; }
  // May be past the last row.
  int row(int step, int stream) const {
    const int at = step + stream * shift_;
    return stream * quarter_ + (at < quarter_ ? at : at - quarter_);
  }

  // The first step after this one whose rows do not all follow those of the step before.
  int next_jump(int step) const {
    int next = quarter_;
    for (int stream = 1; stream < kStreams; ++stream)
      if (const int jump = quarter_ - stream * shift_; jump > step) next = std::min(next, jump);
    return next;
  }

  // Calls work(first, count) for runs of rows that make up the steps.
  template <class Work>
  void for_each_run(Range steps, Work work) const {
    if (steps.begin == steps.end) return;
    for (int stream = 0; stream < kStreams; ++stream) {
      const auto run = [&](int begin, int end) {
        const int count = std::min(end, rows_) - begin;
        if (count > 0) work(begin, count);
      };
      const int first = row(steps.begin, stream), last = row(steps.end - 1, stream), base = stream * quarter_;
      if (first <= last) {
        run(first, last + 1);
      } else {
        run(first, base + quarter_);
        run(base, last + 1);
      }
    }
  }

 private:
  int rows_ = 0, quarter_ = 0, shift_ = 0;
};

// A matrix as the kernels read it: values as mapped, scales and biases copied in the order of the walk.
struct Q8Weights {
  Q8Format format;
  int rows = 0, cols = 0;
  Walk walk;
  const std::byte* values = nullptr;       // of one expert
  std::size_t row_bytes = 0;
  const std::uint32_t* scales = nullptr;   // [steps, groups, kStreams]: bias | scale << 16, bfloat16 both
};

using link::has_q8;
using link::scale_words;

// Fills the scale_words(matrix) of the matrix or of one expert.
void interleave_scales(const link::Matrix& matrix, int expert, std::uint32_t* scales);

// A matrix with its interleaved scales, for all experts.
struct Q8Matrix {
  const link::Matrix* matrix = nullptr;
  const std::uint32_t* scales = nullptr;  // [experts, scale_words]
  Walk walk;

  Q8Matrix() = default;
  Q8Matrix(const link::Matrix& from, const std::uint32_t* interleaved)
      : matrix(&from), scales(interleaved), walk(from.rows, from.cols) {}
  Q8Weights weights(int expert = 0) const;
};

// 1 to kTileRows quantised rows; the layout is the kernels' own.
struct Q8Tile {
  Q8Format format;
  int rows = 0, cols = 0;
  std::int8_t* q = nullptr;  // [tile_bytes(cols)]
  float* factors = nullptr;  // [tile_floats(cols)]
};
constexpr std::size_t tile_bytes(int cols) { return static_cast<std::size_t>(cols) * kTileRows; }
constexpr std::size_t tile_floats(int cols) { return static_cast<std::size_t>(cols) / 32 * kTileRows * 4; }

// One implementation for each set of instructions.
struct Q8Kernels {
  const char* name;
  // Fills these groups of the tile. x: [tile.rows] of [tile.cols]
  void (*quantise)(const float* const* x, const Q8Tile& tile, Range groups);
  // y[r][n] = the product of row r and weight row n, for the weight rows of these steps
  void (*multiply)(const Q8Weights& w, const Q8Tile& tile, float* const* y, Range steps);
};

const Q8Kernels& portable_q8();
// Null in a program for another family of processors; their code runs only where cpu/features.hpp finds the instructions.
const Q8Kernels* i8mm_q8();     // Arm with dot products and matrix products of bytes
const Q8Kernels* avx2_q8();     // x86 with AVX2 and FMA
const Q8Kernels* avx512_q8();   // x86 with AVX-512 and dot products of bytes
const Q8Kernels& fastest_q8();  // on this processor

}  // namespace lapidary::cpu
