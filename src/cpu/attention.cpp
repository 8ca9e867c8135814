#include <algorithm>
#include <cassert>
#include <limits>

#include "cpu/dot.hpp"
#include "cpu/kernels.hpp"
#include "cpu/norm_rope.hpp"
#include "cpu/share.hpp"
#include "graph/graph.hpp"
#include "numeric/math.hpp"

namespace lapidary::cpu {
namespace {

constexpr int kTile = graph::kTile;
constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

// out[N vectors from i on] = out * keep + sum over positions ascending of p[j] * v[j]; v: [positions, head_dim]
template <int N>
void add_values(const float* p, const float* v, int positions, int head_dim, int i, float keep, float* out) {
  Vec sum[N];
  for (int n = 0; n < N; ++n) sum[n] = Vec::load(out + i + n * kLanes) * Vec::broadcast(keep);
  for (int j = 0; j < positions; ++j) {
    const Vec factor = Vec::broadcast(p[j]);
    const float* value = v + static_cast<std::size_t>(j) * head_dim + i;
    for (int n = 0; n < N; ++n) sum[n] = fused(factor, Vec::load(value + n * kLanes), sum[n]);
  }
  for (int n = 0; n < N; ++n) sum[n].store(out + i + n * kLanes);
}

// The softmax over the tiles walked so far, up to the final division by `sum`.
struct Softmax {
  float max = kMinusInfinity;
  float sum = 0.0f;

  // Takes in positions [begin, end) of one tile. k, v: the tile's first row of [kTile, head_dim]; q, out: [head_dim]
  void add_tile(const float* q, const float* k, const float* v, int begin, int end, int head_dim, float* out) {
    // Invisible positions count as numeric::exp(-inf) = 0; their K and V are never touched.
    float p[kTile];
    std::fill_n(p, kTile, kMinusInfinity);
    int j = begin;
    for (; j + 8 <= end; j += 8) dot<8>(q, k + static_cast<std::size_t>(j) * head_dim, head_dim, head_dim, p + j);
    for (; j < end; ++j) dot<1>(q, k + static_cast<std::size_t>(j) * head_dim, head_dim, head_dim, p + j);

    Vec most = Vec::broadcast(max);
    for (int i = 0; i < kTile; i += kLanes) most = larger(Vec::load(p + i), most);
    const float tile_max = largest_lane(most);
    const float keep = numeric::exp(max - tile_max);
    for (float& score : p) score = numeric::exp(score - tile_max);
    float lanes[kLanes] = {};
    for (int i = 0; i < kTile; i += kLanes) {
      for (int lane = 0; lane < kLanes; ++lane) lanes[lane] += p[i + lane];
    }
    max = tile_max;
    sum = numeric::fused(sum, keep, sum_lanes(lanes));

    const float* value = v + static_cast<std::size_t>(begin) * head_dim;
    int i = 0;
    for (; i + 4 * kLanes <= head_dim; i += 4 * kLanes) add_values<4>(p + begin, value, end - begin, head_dim, i, keep, out);
    for (; i < head_dim; i += kLanes) add_values<1>(p + begin, value, end - begin, head_dim, i, keep, out);
  }
};

void store_heads(Rows rows, In qkv, In angles, const float* q_norm, const float* k_norm, HeadShape shape, const HeadRule& rule,
                 const link::KvCache* cache, Out q, Part part) {
  const int d = shape.head_dim;
  for_each_head(rows, qkv, angles, q_norm, k_norm, shape, rule, cache != nullptr, q, part,
                [&](const graph::Row& row, int head, const float* key) {
                  std::copy_n(key, d, cache->k + cache->index(row.slot, head, row.position));
                },
                [&](const graph::Row& row, int head, const float* x, float factor) {
                  float* to = cache->v + cache->index(row.slot, head, row.position);
                  for (int i = 0; i < d; ++i) to[i] = x[i] * factor;
                });
}

}  // namespace

void qkv_norm_rope(Rows rows, In qkv, In angles, const float* q_norm, const float* k_norm, HeadShape shape,
                   bool values_are_keys, float epsilon, const link::KvCache* cache, Out q, Part part) {
  store_heads(rows, qkv, angles, q_norm, k_norm, shape, {.values_are_keys = values_are_keys, .epsilon = epsilon}, cache, q, part);
}

void block_qkv(Rows rows, In qkv, In angles, const float* q_norm, const float* k_norm, HeadShape shape, float query_scale,
               float epsilon, const link::KvCache& cache, Out q, Part part) {
  store_heads(rows, qkv, angles, q_norm, k_norm, shape,
              {.values_as_they_are = true, .query_scale = query_scale, .epsilon = epsilon}, &cache, q, part);
}

void attention(Rows rows, In q, const link::KvCache& cache, HeadShape shape, int window, Out out, Part part) {
  const int d = shape.head_dim;
  const int row_count = static_cast<int>(rows.size());
  assert(d % kLanes == 0 && cache.capacity % kTile == 0);
  // Heads outside, rows inside: neighbouring rows find their keys in the cache.
  for_each_own(shape.heads * row_count, part, [&](int index) {
    const int head = index / row_count, r = index % row_count;
    const graph::Row& row = rows[r];
    const float* query = q[r] + static_cast<std::size_t>(head) * d;
    float* result = out[r] + static_cast<std::size_t>(head) * d;
    const int kv_head = head / (shape.heads / shape.kv_heads);
    const int last = window > 0 ? row.block_end : row.position;
    const int first = window > 0 ? std::max(row.begin, row.position - window + 1) : row.begin;
    std::fill_n(result, d, 0.0f);
    Softmax softmax;
    for (int tile = first / kTile * kTile; tile <= last; tile += kTile) {
      const std::size_t at = cache.index(row.slot, kv_head, tile);
      softmax.add_tile(query, cache.k + at, cache.v + at, std::max(first - tile, 0), std::min(last + 1 - tile, kTile), d,
                       result);
    }
    for (int i = 0; i < d; ++i) result[i] /= softmax.sum;
  });
}

}  // namespace lapidary::cpu
