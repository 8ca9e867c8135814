// Random weights as the fast mode reads them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "cpu/instructions.hpp"
#include "support/random_weights.hpp"

namespace lapidary::test {

inline std::vector<Storage> q8_storages() {
  std::vector<Storage> all;
  for (const std::uint8_t bits : {2, 3, 4, 5, 6, 8})
    for (const std::uint8_t group : {32, 64, 128}) all.push_back({Encoding::affine, DType::bf16, bits, group});
  all.push_back({Encoding::mxfp4, DType::u8, 4, 32});
  all.push_back({Encoding::nvfp4, DType::u8, 4, 16});
  return all;
}

// A random matrix with its scales in the order of these kernels, which end where their allocation ends.
struct Weights {
  const cpu::Q8Kernels* kernels;
  RandomMatrix random_matrix;
  link::Matrix matrix;
  std::vector<std::uint32_t> scales;

  Weights(Random& random, const Storage& storage, int rows, int cols, int experts = 0)
      : kernels(cpu::best_instructions().products),
        random_matrix(random, storage, rows, cols, experts),
        matrix(random_matrix.view()) {
    lay_out_for(*kernels);
  }

  void lay_out_for(const cpu::Q8Kernels& others) {
    kernels = &others;
    const int experts = std::max(matrix.experts, 1);
    const std::size_t words = cpu::scale_words(*kernels, matrix);
    scales = std::vector<std::uint32_t>(words * experts);
    for (int expert = 0; expert < experts; ++expert) cpu::interleave_scales(*kernels, matrix, expert, scales.data() + expert * words);
  }

  cpu::Q8Matrix view() const { return {*kernels, matrix, scales.data()}; }

  void fill(std::byte code) { std::fill_n(random_matrix.values(), matrix.row_bytes * matrix.rows, code); }

  // One expert as a matrix of its own.
  link::Matrix expert(int id) const {
    link::Matrix one = matrix;
    one.values += id * matrix.expert_bytes;
    one.scales += id * matrix.scale_expert_bytes;
    if (one.biases) one.biases += id * matrix.scale_expert_bytes;
    one.experts = 0;
    return one;
  }
};

}  // namespace lapidary::test
