// Attention. A threadgroup has a row and a few query heads that read the same K/V head: K and V are read once for all.
//
// Positions fall into tiles of 64 and tiles into ranges of 32 (full layers; the window of a sliding layer is one range),
// both counted from position 0. In a range, simdgroup s takes tiles t with t % kKvSimds == s in ascending order; their
// results are merged in the order of s, ranges in ascending order. So the bits of a head of a row depend on nothing but its
// query and what it sees: not on the heads in the threadgroup, nor on whether a threadgroup has all ranges or one.

constant int kKvRanges [[function_constant(44)]];  // 1: a threadgroup has all ranges; else the one that the grid's z says

constexpr constant int kKvRange = 2048;  // positions
constexpr constant int kKvSimds = 8;     // simdgroups of a threadgroup

// A softmax over some positions: the largest score, the sum of exp(score - most), one element of the mixture of values.
struct Mixture {
  float most;
  float sum;
  float value;
};

inline Mixture merged(Mixture a, Mixture b) {
  const float most = max(a.most, b.most);
  const float keep = precise::exp(a.most - most), take = precise::exp(b.most - most);
  return Mixture{most, fma(a.sum, keep, b.sum * take), fma(a.value, keep, b.value * take)};
}

// Floats from one partial result to the next in the scratch: most, sum, two unused, values.
inline ulong partial_offset(constant Step& step, int row, int head, int range) {
  return ((ulong(row) * ulong(step.heads) + ulong(head)) * ulong(kKvRanges) + ulong(range)) * ulong(kHeadDim + 4);
}

// Elements of a head lie in the lanes by fours, 128 in all; a head has kChunks of such. `i` is the lane's first in a chunk.
template <int kChunks>
inline bool in_head(int i) { return kHeadDim == kChunks * 128 || i < kHeadDim; }

// Four components from i on of a key or value: numbers, or codes before their scale. tile: where it begins; size: components
inline float4 load_kv(device const uchar* tile, int code, int size, int key, int i) {
  const int at = key * size + i;
  if (code == kKvQ8) return float4(((device const char4*)tile)[at / 4]);
  if (code == kKvQ4) {
    const bool high = i >= size / 2;
    const uchar4 bytes = ((device const uchar4*)tile)[(key * (size / 2) + (high ? i - size / 2 : i)) / 4];
    const uchar4 nibbles = high ? bytes >> uchar4(4) : bytes & uchar4(15);
    return float4(q4_code(int(nibbles.x)), q4_code(int(nibbles.y)), q4_code(int(nibbles.z)), q4_code(int(nibbles.w)));
  }
  if (code == kKvBf16) return as_type<float4>(uint4(((device const ushort4*)tile)[at / 4]) << 16);
  return ((device const float4*)tile)[at / 4];
}

// Queries as they meet codes: rotated, divided by the size. With one store `rotated` has the norm of the keys in it and nothing of the
// components that turn, which are in `turned`. query: [heads][dim]; all threads of the threadgroup
inline void rotate_queries(device const float* query, device const float* norm, int heads, int dim, threadgroup float* rotated,
                           threadgroup float* turned, int index, int threads) {
  const int half_dim = dim / 2, pairs = kKvTurned / 2;
  for (int n = index; n < heads * dim; n += threads) {
    const int head = n / dim, i = n % dim, pair = i % half_dim;
    float x = query[n];
    if (kKvTurned > 0) {
      if (pair < pairs) {
        const int to = i < half_dim ? pair : pair + pairs;
        turned[head * kKvTurned + to] = x * code_sign(to);
        x = 0.0f;
      } else {
        x *= norm[i];
      }
    }
    rotated[n] = x * code_sign(i);
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  for (int head = 0; head < heads; ++head) {
    hadamard(rotated + head * dim, dim, index, threads);
    if (kKvTurned > 0) hadamard(turned + head * kKvTurned, kKvTurned, index, threads);
  }
}

// A mixture of codes by the sum of its probabilities, rotated back. mixed: [kHeadDim]; all threads of the threadgroup
inline void rotate_back(threadgroup float* mixed, device float* result, int index, int threads) {
  hadamard(mixed, kHeadDim, index, threads);
  for (int i = index; i < kHeadDim; i += threads) result[i] = mixed[i] * code_sign(i) * (1.0f / float(kHeadDim));
}

// Half a step of a sum over lanes, for two values at once: of a in lanes without the bit, of b in those with it.
inline float fold(float a, float b, uint lane, ushort bit) {
  return (lane & bit ? b : a) + simd_shuffle_xor(lane & bit ? a : b, bit);
}

// Of kKeys values (4 or 8) in every lane: lane l gets the sum over the lanes of number l % kKeys. x is used up.
template <int kKeys>
inline float sum_of_lanes(thread float* x, uint lane) {
#pragma unroll
  for (int i = 0; i < kKeys / 2; ++i) x[i] = fold(x[2 * i], x[2 * i + 1], lane, 1);
#pragma unroll
  for (int i = 0; i < kKeys / 4; ++i) x[i] = fold(x[2 * i], x[2 * i + 1], lane, 2);
  float sum = kKeys == 8 ? fold(x[0], x[1], lane, 4) : x[0] + simd_shuffle_xor(x[0], 4);
  sum += simd_shuffle_xor(sum, 8);
  sum += simd_shuffle_xor(sum, 16);
  return sum;
}

template <int kHeads, int kChunks>
kernel void attention(constant Step& step [[buffer(0)]], device const Run& run [[buffer(1)]],
                      device const Row* rows [[buffer(2)]], device const float* in [[buffer(4)]],
                      device float* out [[buffer(8)]], device float* scratch [[buffer(12)]],
                      device const float* key_norm [[buffer(13)]], device const uchar* keys [[buffer(28)]],
                      device const uchar* values [[buffer(29)]],
                      uint3 group [[threadgroup_position_in_grid]], uint index [[thread_index_in_threadgroup]],
                      uint lane [[thread_index_in_simdgroup]], uint simd [[simdgroup_index_in_threadgroup]]) {
  // What the simdgroups found in a range: largest scores and sums, and two of the registers with values at a time.
  threadgroup float most_of[kKvSimds][kHeads];
  threadgroup float sum_of[kKvSimds][kHeads];
  threadgroup float4 values_of[kKvSimds][2 * 32];
  // Queries of codes, rotated; then the mixtures, to be rotated back.
  threadgroup float rotated[kHeads * kChunks * 128];
  threadgroup float turned[kHeads * kChunks * 64];
  constexpr int kRegisters = kHeads * kChunks, kPasses = (kRegisters + 1) / 2;
  constexpr int kTurnedChunks = kChunks > 1 ? kChunks / 2 : 1;
  constexpr int kKeys = kHeads < 4 ? 8 : 4;  // taken together: as many as there are registers for

  const int row = int(group.y), first_head = int(group.x) * kHeads;
  if (row >= rows_of(step, run)) return;
  const Row at = row_of(step, run, rows, row);
  const bool sliding = step.window > 0;
  const int first = sliding ? max(at.begin, at.position - step.window + 1) : at.begin;
  const int last = sliding ? at.block_end : at.position;
  const int first_range = sliding ? 0 : first / kKvRange, ranges = sliding ? 1 : last / kKvRange + 1;
  const int range_begin = kKvRanges == 1 ? first_range : int(group.z), range_end = kKvRanges == 1 ? ranges : range_begin + 1;
  if (range_begin < first_range || range_begin >= ranges) return;

  device const float* query = in_row(in, step.in[0], run, row) + first_head * kHeadDim;
  if (kv_is_coded()) rotate_queries(query, key_norm, kHeads, step.head_dim, rotated, turned, int(index), kKvSimds * 32);
  float4 q[kRegisters], turned_q[kHeads * kTurnedChunks];
#pragma unroll
  for (int n = 0; n < kRegisters; ++n) {
    const int i = n % kChunks * 128 + 4 * int(lane), at = n / kChunks * kHeadDim + i;
    if (!in_head<kChunks>(i)) {
      q[n] = float4(0.0f);
    } else if (kv_is_coded()) {
      q[n] = float4(rotated[at], rotated[at + 1], rotated[at + 2], rotated[at + 3]) * (1.0f / float(kHeadDim));
    } else {
      device const float* x = query + at;
      q[n] = float4(x[0], x[1], x[2], x[3]);
    }
  }
  if (kKvTurned > 0) {
#pragma unroll
    for (int n = 0; n < kHeads * kTurnedChunks; ++n) {
      const int i = n % kTurnedChunks * 128 + 4 * int(lane), at = n / kTurnedChunks * kKvTurned + i;
      turned_q[n] = i < kKvTurned ? float4(turned[at], turned[at + 1], turned[at + 2], turned[at + 3]) * (1.0f / float(kKvTurned))
                                  : float4(0.0f);
    }
  }

  const int kv_head = first_head / (step.heads / step.kv_heads);
  Mixture total[kPasses];  // of the element that this thread merges in each pass
#pragma unroll
  for (int pass = 0; pass < kPasses; ++pass) total[pass] = Mixture{-INFINITY, 0.0f, 0.0f};

  for (int range = range_begin; range < range_end; ++range) {
    const int from = sliding ? first : max(first, range * kKvRange), to = sliding ? last : min(last, (range + 1) * kKvRange - 1);
    float most[kHeads], sum[kHeads];  // the sum is spread over the lanes
    float4 mix[kRegisters];
#pragma unroll
    for (int h = 0; h < kHeads; ++h) {
      most[h] = -INFINITY;
      sum[h] = 0.0f;
    }
#pragma unroll
    for (int n = 0; n < kRegisters; ++n) mix[n] = float4(0.0f);

    const int first_tile = from / kKvTile;
    for (int tile = first_tile + ((int(simd) - first_tile) & (kKvSimds - 1)); tile * kKvTile <= to; tile += kKvSimds) {
      // A tile is one run of ring slots: their number is a multiple of it.
      device const uchar* k_tile = keys + kv_tile(step, at.slot, kv_head, tile * kKvTile, kv_key_code(), kv_key_size());
      device const uchar* v_tile = values + kv_tile(step, at.slot, kv_head, tile * kKvTile, kKvCode, kHeadDim);
      device const float* k_scales = kv_scales(k_tile, kv_key_code(), kv_key_size());
      device const float* v_scales = kv_scales(v_tile, kKvCode, kHeadDim);
      const int begin = max(from - tile * kKvTile, 0), end = min(to + 1 - tile * kKvTile, kKvTile);  // what is visible

      // Lane l has the scores of keys l and 32 + l. What is invisible is not read, the next visible key stands in for it.
      float score[kHeads][2];
#pragma unroll
      for (int part = 0; part < 2; ++part) {
#pragma unroll
        for (int h = 0; h < kHeads; ++h) score[h][part] = -INFINITY;
        for (int block = 0; block < 32 / kKeys; ++block) {
          const int key = 32 * part + kKeys * block;
          if (key + kKeys <= begin || key >= end) continue;
          float dots[kHeads][kKeys];
#pragma unroll
          for (int j = 0; j < kKeys; ++j) {
#pragma unroll
            for (int h = 0; h < kHeads; ++h) dots[h][j] = 0.0f;
            const int k_at = clamp(key + j, begin, end - 1);
#pragma unroll
            for (int c = 0; c < kChunks; ++c) {
              const int i = 128 * c + 4 * int(lane);
              const float4 k = !in_head<kChunks>(i) ? float4(0.0f)
                               : kKvTurned > 0      ? load_kv(v_tile, kKvCode, kHeadDim, k_at, i)
                                                    : load_kv(k_tile, kv_key_code(), kHeadDim, k_at, i);
#pragma unroll
              for (int h = 0; h < kHeads; ++h) {
                const float4 x = q[h * kChunks + c];
                dots[h][j] = fma(x.w, k.w, fma(x.z, k.z, fma(x.y, k.y, fma(x.x, k.x, dots[h][j]))));
              }
            }
            if (kv_is_coded()) {
              const float scale = kKvTurned > 0 ? v_scales[k_at] : k_scales[k_at];
#pragma unroll
              for (int h = 0; h < kHeads; ++h) dots[h][j] *= scale;
            }
            if (kKvTurned > 0) {
              const float scale = k_scales[k_at];
#pragma unroll
              for (int c = 0; c < kTurnedChunks; ++c) {
                const int i = 128 * c + 4 * int(lane);
                const float4 k = i < kKvTurned ? load_kv(k_tile, kKvQ8, kKvTurned, k_at, i) * scale : float4(0.0f);
#pragma unroll
                for (int h = 0; h < kHeads; ++h) {
                  const float4 x = turned_q[h * kTurnedChunks + c];
                  dots[h][j] = fma(x.w, k.w, fma(x.z, k.z, fma(x.y, k.y, fma(x.x, k.x, dots[h][j]))));
                }
              }
            }
          }
          const int mine = key + int(lane) % kKeys;
          const bool keeps = int(lane) / kKeys == block && mine >= begin && mine < end;
#pragma unroll
          for (int h = 0; h < kHeads; ++h) {
            const float s = sum_of_lanes<kKeys>(dots[h], lane);
            score[h][part] = keeps ? s : score[h][part];
          }
        }
      }

#pragma unroll
      for (int h = 0; h < kHeads; ++h) {
        const float most_now = max(most[h], simd_max(max(score[h][0], score[h][1])));
        const float keep = precise::exp(most[h] - most_now);
        score[h][0] = precise::exp(score[h][0] - most_now);
        score[h][1] = precise::exp(score[h][1] - most_now);
        most[h] = most_now;
        sum[h] = fma(sum[h], keep, score[h][0] + score[h][1]);
        if (kv_is_coded()) {  // what is invisible may have any scale
#pragma unroll
          for (int part = 0; part < 2; ++part) {
            const int key = 32 * part + int(lane);
            score[h][part] = key >= begin && key < end ? score[h][part] * v_scales[key] : 0.0f;
          }
        }
#pragma unroll
        for (int c = 0; c < kChunks; ++c) mix[h * kChunks + c] *= keep;
      }

#pragma unroll
      for (int part = 0; part < 2; ++part) {
        for (int block = 0; block < 32 / kKeys; ++block) {
          const int key = 32 * part + kKeys * block;
          if (key + kKeys <= begin || key >= end) continue;
#pragma unroll
          for (int j = 0; j < kKeys; ++j) {
            float p[kHeads];
#pragma unroll
            for (int h = 0; h < kHeads; ++h) p[h] = simd_broadcast(score[h][part], ushort(kKeys * block + j));
            const int v_at = clamp(key + j, begin, end - 1);
#pragma unroll
            for (int c = 0; c < kChunks; ++c) {
              const int i = 128 * c + 4 * int(lane);
              const float4 v = in_head<kChunks>(i) ? load_kv(v_tile, kKvCode, kHeadDim, v_at, i) : float4(0.0f);
#pragma unroll
              for (int h = 0; h < kHeads; ++h) mix[h * kChunks + c] = fma(float4(p[h]), v, mix[h * kChunks + c]);
            }
          }
        }
      }
    }

#pragma unroll
    for (int h = 0; h < kHeads; ++h) {
      const float all = simd_sum(sum[h]);
      if (lane == 0) {
        most_of[simd][h] = most[h];
        sum_of[simd][h] = all;
      }
    }
#pragma unroll
    for (int pass = 0; pass < kPasses; ++pass) {
      values_of[simd][lane] = mix[2 * pass];
      if (2 * pass + 1 < kRegisters) values_of[simd][32 + lane] = mix[2 * pass + 1];
      threadgroup_barrier(mem_flags::mem_threadgroup);
      const int n = 2 * pass + int(index) / 128;  // 256 threads, one for each element
      if (n < kRegisters) {
        const int h = n / kChunks;
        Mixture found = {-INFINITY, 0.0f, 0.0f};
        for (int s = 0; s < kKvSimds; ++s) found.most = max(found.most, most_of[s][h]);
        for (int s = 0; s < kKvSimds; ++s) {
          const float weight = precise::exp(most_of[s][h] - found.most);
          found.sum = fma(weight, sum_of[s][h], found.sum);
          found.value = fma(weight, ((threadgroup const float*)values_of[s])[index], found.value);
        }
        total[pass] = merged(total[pass], found);
      }
      threadgroup_barrier(mem_flags::mem_threadgroup);
    }
  }

  device float* result = out_row(out, step.out[0], run, row) + first_head * kHeadDim;
#pragma unroll
  for (int pass = 0; pass < kPasses; ++pass) {
    const int n = 2 * pass + int(index) / 128, h = n / kChunks, i = n % kChunks * 128 + int(index) % 128;
    if (n < kRegisters && i < kHeadDim) {
      if (kKvRanges == 1) {
        const float value = total[pass].value / total[pass].sum;
        if (kv_is_coded()) rotated[h * kHeadDim + i] = value;
        else result[h * kHeadDim + i] = value;
      } else {
        device float* partial = scratch + partial_offset(step, row, first_head + h, range_begin);
        partial[4 + i] = total[pass].value;
        if (i == 0) {
          partial[0] = total[pass].most;
          partial[1] = total[pass].sum;
        }
      }
    }
  }
  if (kv_is_coded() && kKvRanges == 1) {
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (int h = 0; h < kHeads; ++h) rotate_back(rotated + h * kHeadDim, result + h * kHeadDim, int(index), kKvSimds * 32);
  }
}

template [[host_name("attention_1x1")]] kernel decltype(attention<1, 1>) attention<1, 1>;
template [[host_name("attention_2x1")]] kernel decltype(attention<2, 1>) attention<2, 1>;
template [[host_name("attention_4x1")]] kernel decltype(attention<4, 1>) attention<4, 1>;
template [[host_name("attention_1x2")]] kernel decltype(attention<1, 2>) attention<1, 2>;
template [[host_name("attention_2x2")]] kernel decltype(attention<2, 2>) attention<2, 2>;
template [[host_name("attention_4x2")]] kernel decltype(attention<4, 2>) attention<4, 2>;
template [[host_name("attention_1x4")]] kernel decltype(attention<1, 4>) attention<1, 4>;
template [[host_name("attention_2x4")]] kernel decltype(attention<2, 4>) attention<2, 4>;

// The ranges of a row and head that had a threadgroup each. A thread per element, 256 of them at most.
kernel void attention_merge(constant Step& step [[buffer(0)]], device const Run& run [[buffer(1)]],
                            device const Row* rows [[buffer(2)]], device float* out [[buffer(8)]],
                            device const float* scratch [[buffer(12)]],
                            uint3 group [[threadgroup_position_in_grid]], uint3 size [[threads_per_threadgroup]],
                            uint index [[thread_index_in_threadgroup]]) {
  threadgroup float mixed[kKvCodedMax];
  const int row = int(group.y), head = int(group.x);
  if (row >= rows_of(step, run)) return;
  const Row at = row_of(step, run, rows, row);
  const int first_range = at.begin / kKvRange, ranges = at.position / kKvRange + 1;
  device float* result = out_row(out, step.out[0], run, row) + head * kHeadDim;
  for (int i = int(index); i < kHeadDim; i += int(size.x)) {
    Mixture total = {-INFINITY, 0.0f, 0.0f};
    for (int range = first_range; range < ranges; ++range) {
      device const float* partial = scratch + partial_offset(step, row, head, range);
      total = merged(total, Mixture{partial[0], partial[1], partial[4 + i]});
    }
    const float value = total.value / total.sum;
    if (kv_is_coded()) mixed[i] = value;
    else result[i] = value;
  }
  if (kv_is_coded()) {
    threadgroup_barrier(mem_flags::mem_threadgroup);
    rotate_back(mixed, result, int(index), int(size.x));
  }
}
