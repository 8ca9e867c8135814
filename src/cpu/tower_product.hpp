// Products of towers: many rows at once, with weights that may be clipped. In float32 with weights of any storage, or, in the fast mode
// of processors that multiply matrices of bfloat16, with activations rounded to that: each sums in its own order, a numeric class of
// its own.
#pragma once

#include <algorithm>
#include <cstdint>

#include "cpu/kernels.hpp"
#include "numeric/math.hpp"

namespace lapidary::cpu {

// What becomes of a product y.
enum class Finish : std::uint8_t {
  store,
  add,       // y + bias
  silu,      // silu(y)
  gelu_mul,  // gelu(y) * what is there
};

struct TowerProduct {
  const link::Matrix* weight = nullptr;
  Finish finish = Finish::store;
  const float* bias = nullptr;  // [weight->rows]
};

// out[0..count) from the products of weight rows first, first + 1...; out is the place of the first of them
[[gnu::always_inline]] inline void finish_products(const TowerProduct& product, int first, int count, const float* y, float* out) {
  const float least = product.weight->clip.output_min, most = product.weight->clip.output_max;
  const auto clamped = [&](int j) __attribute__((always_inline)) { return std::min(std::max(y[j], least), most); };
  switch (product.finish) {
    case Finish::store:
      for (int j = 0; j < count; ++j) out[j] = clamped(j);
      return;
    case Finish::add:
      for (int j = 0; j < count; ++j) out[j] = clamped(j) + product.bias[first + j];
      return;
    case Finish::silu:
      LAPIDARY_SIDE_BY_SIDE
      for (int j = 0; j < count; ++j) out[j] = numeric::silu(clamped(j));
      return;
    case Finish::gelu_mul:
      LAPIDARY_SIDE_BY_SIDE
      for (int j = 0; j < count; ++j) out[j] = numeric::gelu(clamped(j)) * out[j];
      return;
  }
}

// In float32. room: one row of floats for each of kMaxLines, of the weight's cols, for this thread alone
void multiply_f32(const FloatProducts& products, int rows, In x, const TowerProduct& product, Out out, float* room, Part part);

// In bfloat16: rows are packed once for all products with them.
struct PackedProducts {
  static constexpr int kRows = 12;       // of a block of packed rows
  static constexpr int kPanelRows = 64;  // weight rows that a thread has packed at a time

  // x within the bounds of the clip, rounded; packed: [rows rounded up to blocks, cols]
  void (*pack)(int rows, In x, int cols, const link::Clip& clip, std::uint16_t* packed, Part part);
  // room: [kPanelRows, cols], for this thread alone
  void (*multiply)(int rows, const std::uint16_t* packed, const TowerProduct& product, Out out, std::uint16_t* room, Part part);
  // So often `register_products` products of numbers that are in registers: the limit of all others.
  float (*multiply_registers)(int times);
  double register_products;
};

// Attention of up to kRows rows of one head over all keys. q, out: those of the head. k, v: as KvCacheBf16 has them, zeros behind the last;
// results differ between ways to compute it, never within one.
struct PackedAttention {
  static constexpr int kRows = 12, kMaxHeadDim = 256;
  void (*attend)(int rows, In q, const std::uint16_t* k, const std::uint16_t* v, int keys, int head_dim, Out out);
};

extern const PackedAttention kBfmmlaPackedAttention;
extern const PackedProducts kBfmmlaProducts;  // Arm with matrix products of bfloat16

inline bool is_packable(const link::Matrix& weight) {
  return weight.storage.encoding == Encoding::plain && weight.storage.type == DType::bf16 && weight.cols % 8 == 0;
}

}  // namespace lapidary::cpu
