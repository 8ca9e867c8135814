// The CPU kernels of the exact mode: float32 activations and K/V, weights dequantised on the fly from the mapped bytes.
// One function per graph::Op, see there for the definitions.
//
// Every output value is computed whole by one thread, in an order of operations that depends on the widths alone: it does not
// matter how many rows there are, which others, how they are chunked, where a ring has wrapped, or how many threads share
// the work (speculative decoding relies on it).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "graph/row.hpp"
#include "link/kv.hpp"
#include "link/weight.hpp"

namespace lapidary::cpu {

class Board;

// One of the threads that share a step. What it does of it, see share.hpp.
struct Part {
  int index = 0;
  int count = 1;
  Board* board = nullptr;  // null: a fixed share
};

// Row r of a buffer begins at data + r * stride.
template <class T>
struct RowsOf {
  T* data = nullptr;
  std::size_t stride = 0;  // elements
  [[gnu::always_inline]] T* operator[](std::size_t row) const { return data + row * stride; }
  RowsOf from(std::size_t row) const { return {data ? data + row * stride : nullptr, stride}; }
};
using In = RowsOf<const float>;
using Out = RowsOf<float>;
using InIds = RowsOf<const std::int32_t>;
using OutIds = RowsOf<std::int32_t>;

using Rows = std::span<const graph::Row>;

struct FloatProducts;  // product.hpp

// out[row][offset...] = x[row]: [n]
void keep_tap(int rows, In x, int n, int offset, Out out, Part part);

// The rows of a round, or of its next draft, from its state. rows: [drafted + 1], or one.
void verify_rows(const graph::RoundState& state, int slot, std::span<graph::Row> rows, Part part);
void draft_row(const graph::RoundState& state, int slot, graph::Row& row, Part part);
// Those of a block, its context begins at `begin`: [drafts + 1] of each, seeing all of it and only those before them.
void block_rows(const graph::RoundState& state, int slot, std::int32_t mask_token, std::int32_t begin, std::span<graph::Row> all,
                std::span<graph::Row> causal, Part part);

// soft: [soft tokens, table.cols]
void embed(Rows rows, In soft, const link::Matrix& table, float scale, Out out, Part part);

// No row is a soft token. out: [rows, 2 * table.cols]
void embed_pair(Rows rows, const link::Matrix& table, float scale, In hidden, Out out, Part part);

// out: [rows, 2 * frequencies.size()]
void rope_angles(Rows rows, std::span<const float> frequencies, Out out, Part part);

// weight null = none
void rms_norm(int rows, In x, const float* weight, int n, float epsilon, Out out, Part part);

// out: [rows, sum of weights' rows]; all weights have the same cols
void linear(const FloatProducts& products, int rows, In x, std::span<const link::Matrix* const> weights, Out out, Part part);

void linear_silu_mul(const FloatProducts& products, int rows, In x, const link::Matrix& gate, const link::Matrix& up, Out out, Part part);
void linear_gelu_mul(const FloatProducts& products, int rows, In x, const link::Matrix& gate, const link::Matrix& up, Out out, Part part);

// factor: [rows, >= weight.rows], already offset
void linear_gelu_gate(const FloatProducts& products, int rows, In x, const link::Matrix& weight, In factor, Out out, Part part);

void linear_softcap(const FloatProducts& products, int rows, In x, const link::Matrix& weight, float cap, Out out, Part part);

struct HeadShape {
  int heads = 0, kv_heads = 0, head_dim = 0;
};

// k_norm and cache are null for a layer without own K/V.
void qkv_norm_rope(Rows rows, In qkv, In angles, const float* q_norm, const float* k_norm, HeadShape shape,
                   bool values_are_keys, float epsilon, const link::KvCache* cache, Out q, Part part);

// q_norm is null where shape.heads is 0.
void block_qkv(Rows rows, In qkv, In angles, const float* q_norm, const float* k_norm, HeadShape shape, float query_scale,
               float epsilon, const link::KvCache& cache, Out q, Part part);

// window 0 = all positions
void attention(Rows rows, In q, const link::KvCache& cache, HeadShape shape, int window, Out out, Part part);

// One output of residual_norm: norm(h; weight) * factor.
struct NormOutput {
  const float* weight = nullptr;
  float factor = 1.0f;
  Out out{};
};

// scalar null = no factor
void residual_norm(int rows, Out h, In y, const float* post_norm, const float* scalar, int n, float epsilon,
                   std::span<const NormOutput> outputs, Part part, float update_weight = 1.0f);

// projected, out: [rows, layers * width]
void ple_inputs(Rows rows, In projected, const link::Matrix& table, const float* norm, int layers, int width,
                float projection_scale, float table_scale, float epsilon, Out out, Part part);

void route(int rows, In scores, const float* expert_scale, int experts, int used, OutIds ids, Out weights, Part part);

void expert_gelu_mul(const FloatProducts& products, int rows, In x, InIds ids, int used, const link::Matrix& gate, const link::Matrix& up, Out out,
                     Part part);

// x: [rows, used * weight.cols], out: [rows, used * weight.rows]
void expert_linear(const FloatProducts& products, int rows, In x, InIds ids, int used, const link::Matrix& weight, Out out, Part part);

struct MoeNorms {
  const float* dense = nullptr;     // post_feedforward_layernorm_1
  const float* experts = nullptr;   // post_feedforward_layernorm_2
  const float* sum = nullptr;       // post_feedforward_layernorm
  const float* scalar = nullptr;    // layer_scalar
  const float* next = nullptr;      // null = no second output
};
void moe_combine(int rows, Out h, In dense, In experts, In weights, int used, const MoeNorms& norms, int n, float epsilon,
                 Out next, Part part);

void top(int rows, In scores, int count, int used, OutIds ids, Part part);

// order: [clusters * cluster_tokens]; logits, tokens: [rows, used * cluster_tokens]
void cluster_logits(const FloatProducts& products, int rows, In x, InIds clusters, int used, int cluster_tokens, const link::Matrix& table,
                    const std::int32_t* order, Out logits, OutIds tokens, Part part);

// Row r is chosen as row r of `selection` says; null = the largest logit. tokens: [rows, n], the tokens that the logits belong
// to; null = 0..n-1. maxima: what the head found of them (maxima.hpp), or null. weights, candidates: [rows, n], overwritten.
void sample(int rows, In logits, InIds tokens, int n, In maxima, const graph::Selection* selection, OutIds out, Out weights,
            OutIds candidates, Part part);

void keep_draft(std::int32_t token, graph::RoundState& state, Part part);
// tokens: of each draft
void keep_block(int drafts, InIds tokens, graph::RoundState& state, Part part);

// counts: [vocab], or empty
void accept(Rows rows, InIds chosen, In hidden, int n, graph::RoundState& state, std::span<std::int32_t> counts, float* carry,
            Part part);
// The features of the accepted among rows, to the ring [kPendingRows, n].
void keep_features(Rows rows, In features, int n, const graph::RoundState& state, float* ring, Part part);

}  // namespace lapidary::cpu
