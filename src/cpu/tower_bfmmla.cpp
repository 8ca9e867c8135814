// Products of towers with Arm's matrix products of bfloat16. Compiled for processors that have them; instructions.hpp says who may
// call it.
//
// Blocks of 12 rows lie as [cols / 4][6 pairs][2 rows][4], those of 8 weight rows alike: an operand of bfmmla is 16 bytes in a row. They
// meet in 24 sums of 2 x 2, in registers, which take in the inputs in their order: what is beside a row does not matter to it.
#include <arm_neon.h>

#include <algorithm>
#include <cstring>
#include <iterator>

#include "cpu/share.hpp"
#include "cpu/tower_product.hpp"

namespace lapidary::cpu {
namespace {

constexpr int kRows = PackedProducts::kRows, kPanelRows = PackedProducts::kPanelRows;
constexpr int kWeightRows = 8;               // of a block of packed weights
constexpr int kBlockRows = 10 * kRows;       // of a piece of work

bfloat16x8_t load(const std::uint16_t* at) { return vreinterpretq_bf16_u16(vld1q_u16(at)); }

// Eight weights of a row, wherever they lie.
uint64x2_t load_weights(const std::byte* at) {
  uint64x2_t eight;
  std::memcpy(&eight, at, sizeof eight);
  return eight;
}

void pack(int rows, In x, int cols, const link::Clip& clip, std::uint16_t* packed, Part part) {
  const float32x4_t least = vdupq_n_f32(clip.input_min), most = vdupq_n_f32(clip.input_max);
  for_each_own((rows + kRows - 1) / kRows, part, [&](int block) {
    std::uint16_t* const to = packed + static_cast<std::size_t>(block) * kRows * cols;
    for (int pair = 0; pair < kRows / 2; ++pair) {
      const int r = block * kRows + 2 * pair;
      const float* const first = x[std::min(r, rows - 1)];
      const float* const second = x[std::min(r + 1, rows - 1)];
      for (int i = 0; i < cols; i += 4) {
        const auto rounded = [&](const float* from) __attribute__((always_inline)) {
          return vcvt_bf16_f32(vminq_f32(vmaxq_f32(vld1q_f32(from + i), least), most));
        };
        vst1q_u16(to + i * kRows + pair * 8, vreinterpretq_u16_bf16(vcombine_bf16(rounded(first), rounded(second))));
      }
    }
  });
}

// The weight rows from `first` on in blocks of 8; those that there are not are rubbish that nobody reads.
void pack_weights(const link::Matrix& w, int first, int count, std::uint16_t* packed) {
  for (int pair = 0; pair < (count + 1) / 2; ++pair) {
    const std::byte* const a = w.values + static_cast<std::size_t>(first + 2 * pair) * w.row_bytes;
    const std::byte* const b = 2 * pair + 1 < count ? a + w.row_bytes : a;
    std::uint16_t* to = packed + static_cast<std::size_t>(pair / 4) * kWeightRows * w.cols + pair % 4 * 8;
    for (int i = 0; i < w.cols; i += 8, to += 8 * kWeightRows) {
      const uint64x2_t left = load_weights(a + 2 * i), right = load_weights(b + 2 * i);
      vst1q_u16(to, vreinterpretq_u16_u64(vzip1q_u64(left, right)));
      vst1q_u16(to + 4 * kWeightRows, vreinterpretq_u16_u64(vzip2q_u64(left, right)));
    }
  }
}

// The sums of a block of rows and one of weight rows: [pair of rows][pair of weight rows][2][2].
constexpr int kPairs = kRows / 2, kWeightPairs = kWeightRows / 2, kSums = kRows * kWeightRows;

// Adds the products of `depth` inputs, ascending; the first ones to nothing.
[[gnu::always_inline]] inline void multiply_blocks(const std::uint16_t* a, const std::uint16_t* b, int depth, bool first, float* at) {
  float32x4_t sums[kPairs][kWeightPairs];
  for (int r = 0; r < kPairs; ++r)
    for (int c = 0; c < kWeightPairs; ++c) sums[r][c] = first ? vdupq_n_f32(0.0f) : vld1q_f32(at + (r * kWeightPairs + c) * 4);
  for (int i = 0; i < depth; i += 4, a += 4 * kRows, b += 4 * kWeightRows) {
    const bfloat16x8_t right[kWeightPairs] = {load(b), load(b + 8), load(b + 16), load(b + 24)};
    for (int r = 0; r < kPairs; ++r) {
      const bfloat16x8_t left = load(a + 8 * r);
      for (int c = 0; c < kWeightPairs; ++c) sums[r][c] = vbfmmlaq_f32(sums[r][c], left, right[c]);
    }
  }
  for (int r = 0; r < kPairs; ++r)
    for (int c = 0; c < kWeightPairs; ++c) vst1q_f32(at + (r * kWeightPairs + c) * 4, sums[r][c]);
}

// Row i of the sums, in order. y: [kWeightRows]
[[gnu::always_inline]] inline void take_row(const float* sums, int i, float* y) {
  for (int c = 0; c < kWeightPairs; ++c) vst1_f32(y + 2 * c, vld1_f32(sums + (i / 2 * kWeightPairs + c) * 4 + i % 2 * 2));
}

// kDeep inputs of kAcross weight rows stay in the nearest cache while rows pass by.
constexpr int kDeep = 1024, kAcross = 16;

void multiply(int rows, const std::uint16_t* packed, const TowerProduct& product, Out out, std::uint16_t* room, Part part) {
  const link::Matrix& w = *product.weight;
  const auto cols = static_cast<std::size_t>(w.cols);
  const int blocks = (rows + kBlockRows - 1) / kBlockRows, panels = (w.rows + kPanelRows - 1) / kPanelRows;
  int held = -1;  // the panel in the room
  alignas(64) float sums[kBlockRows / kRows][kPanelRows / kWeightRows][kSums];
  for_each_own(blocks * panels, part, [&](int unit) {
    const int panel = unit / blocks * kPanelRows, height = std::min(kPanelRows, w.rows - panel);
    if (std::exchange(held, panel) != panel) pack_weights(w, panel, height, room);
    const int begin = unit % blocks * kBlockRows, end = std::min(rows, begin + kBlockRows);
    for (int k = 0; k < w.cols; k += kDeep) {
      const int depth = std::min(kDeep, w.cols - k);
      for (int n = 0; n < height; n += kAcross)
        for (int r = begin; r < end; r += kRows)
          for (int j = n; j < std::min(n + kAcross, height); j += kWeightRows)
            multiply_blocks(packed + r * cols + static_cast<std::size_t>(k) * kRows, room + j * cols + static_cast<std::size_t>(k) * kWeightRows,
                            depth, k == 0, sums[(r - begin) / kRows][j / kWeightRows]);
    }
    for (int r = begin; r < end; ++r) {
      float y[kPanelRows];
      for (int n = 0; n < height; n += kWeightRows) take_row(sums[(r - begin) / kRows][n / kWeightRows], (r - begin) % kRows, y + n);
      finish_products(product, panel, height, y, out[r] + panel);
    }
  });
}

// As multiply_blocks, without the loads of its loop. Factors come from memory here as well: a Neoverse V1 multiplies those that an
// instruction made (dup, movi) at half the speed.
float multiply_registers(int times) {
  std::uint16_t memory[8 * (2 + kWeightPairs)];
  std::fill(std::begin(memory), std::end(memory), std::uint16_t{0x3c00});
  asm volatile("" : "+m"(memory));  // the compiler does not know what it says
  const bfloat16x8_t left[2] = {load(memory), load(memory + 8)};
  const bfloat16x8_t right[kWeightPairs] = {load(memory + 16), load(memory + 24), load(memory + 32), load(memory + 40)};
  float32x4_t sums[kPairs][kWeightPairs];
  for (auto& row : sums)
    for (float32x4_t& sum : row) sum = vdupq_n_f32(0.0f);
  for (int i = 0; i < times; ++i)
    for (int r = 0; r < kPairs; ++r)
      for (int c = 0; c < kWeightPairs; ++c) sums[r][c] = vbfmmlaq_f32(sums[r][c], left[r % 2], right[c]);
  float all = 0.0f;
  for (const auto& row : sums)
    for (const float32x4_t sum : row) all += vaddvq_f32(sum);
  return all;
}

}  // namespace

const PackedProducts kBfmmlaProducts = {pack, multiply, multiply_registers, 4 * kSums};

}  // namespace lapidary::cpu
