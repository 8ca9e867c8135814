// The products of the fast mode, see q8.hpp for what they are. One function for each op that multiplies; as in kernels.hpp.
#pragma once

#include <span>

#include "cpu/kernels.hpp"
#include "cpu/q8.hpp"

namespace lapidary::cpu {

// Room of one thread: a tile of the longest row with the factors of the most groups, and a tile of the longest output.
struct Q8Room {
  std::int8_t* q = nullptr;    // [tile_bytes(longest row)]
  float* factors = nullptr;    // [tile_floats(most groups of a row)]
  float* products = nullptr;   // [kTileRows, output_stride]
  std::size_t output_stride = 0;
  const Q8Tile* ready = nullptr;  // the rows of the step, where all threads have quantised them together
};

// Rows of one tile are quantised by every thread for itself, or by all together when that saves more than a barrier costs.
bool quantises_together(int rows, std::span<const Q8Matrix> weights, Part part);
// The part's share, into a room that is common; the tile is whole when all have done theirs.
Q8Tile quantise_together(int rows, In x, const Q8Matrix& weight, const Q8Room& common, Part part);

void linear_q8(int rows, In x, std::span<const Q8Matrix> weights, Out out, const Q8Room& room, Part part);
void linear_gelu_mul_q8(int rows, In x, const Q8Matrix& gate, const Q8Matrix& up, Out out, const Q8Room& room, Part part);
void linear_silu_mul_q8(int rows, In x, const Q8Matrix& gate, const Q8Matrix& up, Out out, const Q8Room& room, Part part);
void linear_gelu_gate_q8(int rows, In x, const Q8Matrix& weight, In factor, Out out, const Q8Room& room, Part part);
// maxima: [rows, kMaxStretches], see maxima.hpp
void linear_softcap_q8(int rows, In x, const Q8Matrix& weight, float cap, Out out, Out maxima, const Q8Room& room, Part part);
void expert_gelu_mul_q8(int rows, In x, InIds ids, int used, const Q8Matrix& gate, const Q8Matrix& up, Out out,
                        const Q8Room& room, Part part);
void expert_linear_q8(int rows, In x, InIds ids, int used, const Q8Matrix& weight, Out out, const Q8Room& room, Part part);

}  // namespace lapidary::cpu
