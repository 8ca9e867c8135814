// Random weights as the fast mode reads them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "cpu/q8.hpp"
#include "support/random_weights.hpp"

namespace lapidary::test {

inline std::vector<Storage> q8_storages() {
  std::vector<Storage> all;
  for (const std::uint8_t bits : {4, 8})
    for (const std::uint8_t group : {32, 64, 128}) all.push_back({Encoding::affine, DType::bf16, bits, group});
  return all;
}

// A random matrix with its scales in the order of the walk, which end where their allocation ends.
struct Weights {
  RandomMatrix random_matrix;
  link::Matrix matrix;
  std::vector<std::uint32_t> scales;

  Weights(Random& random, const Storage& storage, int rows, int cols, int experts = 0)
      : random_matrix(random, storage, rows, cols, experts),
        matrix(random_matrix.view()),
        scales(cpu::scale_words(matrix) * std::max(experts, 1)) {
    for (int expert = 0; expert < std::max(experts, 1); ++expert)
      cpu::interleave_scales(matrix, expert, scales.data() + expert * cpu::scale_words(matrix));
  }

  cpu::Q8Matrix view() const { return {matrix, scales.data()}; }

  void fill(std::byte code) { std::fill_n(random_matrix.values(), matrix.row_bytes * matrix.rows, code); }

  // One expert as a matrix of its own.
  link::Matrix expert(int id) const {
    link::Matrix one = matrix;
    one.values += id * matrix.expert_bytes;
    one.scales += id * matrix.scale_expert_bytes;
    one.biases += id * matrix.scale_expert_bytes;
    one.experts = 0;
    return one;
  }
};

}  // namespace lapidary::test
