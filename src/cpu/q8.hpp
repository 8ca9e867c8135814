// Products in the fast mode: weights that are a small integer times a scale, with activations quantised to 8 bits, row by row and
// group by group.
//
// Definition, for one activation row x and one weight row (codes c, scale s and bias b per group):
//   affine: c is the code, s and b as stored. mxfp4, nvfp4: c is twice the code's value, -12 to 12; s is half the scale, which is
//   exact in bfloat16; there is no b.
//   plain, for all codes but affine ones of 4 bits:
//           a = max|x| / 127, u = round(x * (127 / max|x|)), ties to even; dot = sum c u; sum = sum u
//   paired, for affine codes of 4 bits: those of a byte are lo and hi, for the activations e and o. o and e - o/16 take the place of x:
//           u = round(o r), v = round(fma(u, -1/16, e r)) with r = 127 / max(|o|, |fma(o, -1/16, e)|), a = max / 127 / 16;
//           dot = sum (lo + 16 hi) u + 16 lo v, which is 16 (hi o + lo e) / (16 a); sum = sum 17 u + 16 v.
//           A byte is multiplied as it lies in the file, and an error is at most 1/16 larger than in the plain form.
//   y = 0; for groups ascending: y = fma(float(dot), s * a, y) and, where there is b, y = fma(b, a * float(sum), y)
// Integer sums are exact, so only the order of groups matters: a row is the same at every width, in every part, by every
// set of instructions. A group whose max is below kLeastQ8 counts as zeros (1 / max must be a number); what is not a number, or
// infinite, makes the outputs of its row not numbers.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/share.hpp"
#include "link/weight.hpp"

namespace lapidary::cpu {

inline constexpr float kLeastQ8 = 0x1p-121f;
inline constexpr int kTileRows = 8;    // activation rows that meet the weights together
inline constexpr int kStreams = 4;  // weight rows of a step

// Unsigned integers of so many bits, or floats of 4.
enum class Codes : std::uint8_t { u2, u3, u4, u5, u6, u8, e2m1 };

[[gnu::always_inline]] constexpr int bits_of(Codes codes) {
  constexpr int kBits[] = {2, 3, 4, 5, 6, 8, 4};
  return kBits[static_cast<int>(codes)];
}
constexpr bool has_biases(Codes codes) { return codes != Codes::e2m1; }

// How activations are quantised.
struct Q8Form {
  bool paired = true;
  int group = 64;
  bool operator==(const Q8Form&) const = default;
};

struct Q8Format {
  Codes codes = Codes::u4;
  int group = 64;

  Q8Form form() const { return {codes == Codes::u4, group}; }
  [[gnu::always_inline]] int group_bytes() const { return group * bits_of(codes) / 8; }
};

// How the rows of a step lie to each other: neighbours, which are one long stream, or a quarter of the matrix apart, which are four.
// Some processors read one stream faster, some four.
enum class Order : std::uint8_t { neighbours, quarters };

// Which weight rows a step works on. Quarters begin a few rows apart from each other, lest all of them compete for the same cache
// lines.
class Sweep {
 public:
  Sweep() = default;
  Sweep(int rows, int cols, Order order);

  int steps() const { return quarter_; }
  // May be past the last row.
  [[gnu::always_inline]] int row(int step, int stream) const {
    if (order_ == Order::neighbours) return step * kStreams + stream;
    const int at = step + stream * shift_;
    return stream * quarter_ + (at < quarter_ ? at : at - quarter_);
  }

  // Of quarters: the first step after this one whose rows do not all follow those of the step before.
  [[gnu::always_inline]] int next_jump(int step) const {
    int next = quarter_;
    for (int stream = 1; stream < kStreams; ++stream)
      if (const int jump = quarter_ - stream * shift_; jump > step) next = std::min(next, jump);
    return next;
  }

  // Calls work(first, count) for runs of rows that make up the steps.
  template <class Work>
  void for_each_run(Range steps, Work work) const {
    if (steps.begin == steps.end) return;
    if (order_ == Order::neighbours) {
      const int first = steps.begin * kStreams;
      return work(first, std::min(rows_, steps.end * kStreams) - first);
    }
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
  Order order_ = Order::neighbours;
  int rows_ = 0, quarter_ = 0, shift_ = 0;
};

// A matrix as the kernels read it: values as mapped, scales and biases copied in the order of the sweep.
struct Q8Weights {
  Q8Format format;
  int rows = 0, cols = 0;
  Sweep sweep;
  const std::byte* values = nullptr;       // of one expert
  std::size_t row_bytes = 0;
  const std::uint32_t* scales = nullptr;   // [steps, groups, group_words]: kStreams of bias | scale << 16, bfloat16 both; without
                                           // biases 0. Behind them, where the kernels want them, kStreams sums of 16 bits
};

// Weights that are integers of up to 8 bits times a scale: affine ones with bfloat16 scales, mxfp4, nvfp4.
bool has_q8(const link::Matrix& matrix);

// 1 to kTileRows quantised rows, for all weights of this form; the layout is the kernels' own.
struct Q8Tile {
  Q8Form form;
  int rows = 0, cols = 0;
  std::int8_t* q = nullptr;  // [tile_bytes(cols)]
  float* factors = nullptr;  // [tile_floats(groups)]
};
constexpr std::size_t tile_bytes(int cols) { return static_cast<std::size_t>(cols) * kTileRows; }
constexpr std::size_t tile_floats(int groups) { return static_cast<std::size_t>(groups) * kTileRows * 8; }

// One implementation for each set of instructions; all give the same bits.
struct Q8Kernels {
  const char* name;
  Order order;
  // Whether they want to know the sum of w + 16 (w & 15) over the bytes of each group of 4 bits that has 64 codes.
  bool wants_sums;
  // Fills these groups of the tile. x: [tile.rows] of [tile.cols]
  void (*quantise)(const float* const* x, const Q8Tile& tile, Range groups);
  // y[r][n] = the product of row r and weight row n, for the weight rows of these steps
  void (*multiply)(const Q8Weights& w, const Q8Tile& tile, float* const* y, Range steps);
};

// Words of 32 bits that a step has beside its values, for each group.
constexpr int group_words(const Q8Kernels& kernels, Q8Format format) {
  return kernels.wants_sums && format.codes == Codes::u4 && format.group == 64 ? kStreams + kStreams / 2 : kStreams;
}
Q8Format format_of(const link::Matrix& matrix);
// Those of a matrix or of one expert.
std::size_t scale_words(const Q8Kernels& kernels, const link::Matrix& matrix);
void interleave_scales(const Q8Kernels& kernels, const link::Matrix& matrix, int expert, std::uint32_t* scales);

// A matrix with its scales interleaved for these kernels, for all experts.
struct Q8Matrix {
  const Q8Kernels* kernels = nullptr;
  const link::Matrix* matrix = nullptr;
  const std::uint32_t* scales = nullptr;  // [experts, scale_words]
  Sweep sweep;

  Q8Matrix() = default;
  Q8Matrix(const Q8Kernels& of, const link::Matrix& from, const std::uint32_t* interleaved)
      : kernels(&of), matrix(&from), scales(interleaved), sweep(from.rows, from.cols, of.order) {}
  Q8Format format() const { return format_of(*matrix); }
  Q8Weights weights(int expert = 0) const;
};

// Those of other families of processors are not in the program; instructions.hpp says which ones this processor can run.
extern const Q8Kernels kPortableQ8;
extern const Q8Kernels kNeonQ8;     // Arm
extern const Q8Kernels kDotprodQ8;  // with dot products of bytes
extern const Q8Kernels kI8mmQ8;     // and matrix products of bytes
extern const Q8Kernels kSse41Q8;    // x86 with SSE4.1
extern const Q8Kernels kAvx2Q8;     // with AVX2 and FMA
extern const Q8Kernels kAvxVnniQ8;  // and dot products of bytes
extern const Q8Kernels kAvx512Q8;   // with AVX-512 and dot products of bytes

}  // namespace lapidary::cpu
