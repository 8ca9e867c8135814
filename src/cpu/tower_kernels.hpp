// The CPU kernels of the ops that only towers have; see graph::Op for the definitions. What holds for those of kernels.hpp holds for
// these: a value is computed whole by one thread, in an order that depends on the widths alone.
#pragma once

#include "cpu/kernels.hpp"

namespace lapidary::cpu {

void scale_shift(int rows, In x, int n, float scale, float shift, Out out, Part part);

// Row r is the patch in column r % columns.
void add_positions(int rows, int columns, const link::Matrix& table, bool axis_inside, Out h, Part part);
// out: [rows, 4 * frequencies.size()]
void grid_angles(int rows, int columns, std::span<const float> frequencies, Out out, Part part);
// qkv, out: [rows, 3 * heads * head_dim]
void qkv_grid_rope(int rows, In qkv, In angles, const float* q_norm, const float* k_norm, int heads, int head_dim, float epsilon, Out out,
                   Part part);
// cells: rows of `out`; columns: patches of a row of the picture; bias, factor: [n] or null
void pool(int cells, int columns, int side, In x, const float* bias, const float* factor, int n, float scale, Out out, Part part);

void layer_norm(int rows, In x, const float* weight, const float* bias, int n, float epsilon, Out out, Part part);
// weight null = no second output
void add_norm(int rows, Out h, In y, const float* weight, int n, float epsilon, Out out, Part part);

// frames: of `x`; kernel: [9 * inputs, channels]; out: [halved frames, bands / 2 * channels]
void conv_norm_relu(int frames, int bands, int inputs, int channels, In x, const float* kernel, const float* norm, float epsilon, Out out,
                    Part part);
// out: [rows, 2 * frequencies.size()]; row = distance
void distance_waves(int rows, std::span<const float> frequencies, Out out, Part part);

struct LocalAttention {
  int heads = 0, head_dim = 0, window = 0;
  float query_scale = 0, key_scale = 0, cap = 0;
};
// relative: [window, heads * head_dim]; dim_scale: [head_dim]
void local_attention(int frames, In qkv, In relative, const float* dim_scale, const LocalAttention& shape, Out out, Part part);
// kernel: [taps, n]
void glu_conv(int frames, In x, const float* kernel, int taps, const float* norm, int n, float epsilon, Out out, Part part);

}  // namespace lapidary::cpu
