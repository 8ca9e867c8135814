// Which steps of a program multiply quantised activations, and what that takes.
#pragma once

#include <cstddef>
#include <vector>

#include "cpu/q8.hpp"
#include "link/link.hpp"

namespace lapidary::cpu {

bool is_q8(const link::Program& program, const graph::Step& step);

// What one thread needs room for in such steps: 8 quantised rows of the longest input, factors of 8 rows of the most groups, 8 rows
// of the longest output that waits for its gate.
struct Q8RoomSize {
  std::size_t inputs = 0, groups = 0, outputs = 0;

  std::size_t quantised_bytes() const { return 8 * inputs; }
  std::size_t factor_bytes() const { return 8 * 8 * groups * sizeof(float); }  // 8 for each row and group
  std::size_t product_bytes() const { return 8 * outputs * sizeof(float); }
  std::size_t bytes() const { return quantised_bytes() + factor_bytes() + product_bytes(); }
};
Q8RoomSize q8_room_size(const link::Program& program);

// Of their weights, the copies of scales and biases, with what else these kernels want to know of them: where each is to lie.
struct ScaleCopy {
  graph::WeightId weight;
  int expert;
  std::size_t offset_words;
};
struct ScaleCopies {
  std::vector<ScaleCopy> list;  // by weight, its experts in order
  std::size_t words = 0;        // of 4 bytes
};
ScaleCopies scale_copies(const link::Program& program, const Q8Kernels& kernels);
std::size_t q8_scale_bytes(const link::Program& program, const Q8Kernels& kernels);

}  // namespace lapidary::cpu
