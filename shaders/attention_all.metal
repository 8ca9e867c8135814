// Attention in which every row sees all, on matrices of 8 x 8. A threadgroup has a tile of rows of one head, a simdgroup 8 of
// them; all go through the keys and values in tiles that they load together. A row knows neither its place in the tile nor who
// shares it: its bits depend on its query and on what it sees.

enum {
  kSeenMax = 128,                     // elements of a head
  kSeenBlocks = kSeenMax / 8,
  kTileKeys = 32,                     // one for each lane
  kKeyBlocks = kTileKeys / 8,
  kAttendingSimds = kTileRows / 8     // of a threadgroup
};

// From one row of a tile in threadgroup memory to the next: 4 more, to spread rows over the banks.
inline int seen_stride() { return kHeadDim + 4; }

// Rows first to first + 31 of a head that begins at element `at` of its row, zeros behind the last of `count`; all threads.
inline void load_tile(device const float* in, constant Step& step, device const Run& run, int first, int count, int at,
                      threadgroup float4* tile, uint index) {
  constexpr int kRowThreads = kTileThreads / kTileKeys;
  const int row = int(index) / kRowThreads;
  device const float* from = in_row(in, step.in[0], run, min(first + row, count - 1)) + at;
  for (int i = int(index) % kRowThreads * 4; i < kHeadDim; i += kRowThreads * 4) {
    const float4 four = *(device const packed_float4*)(from + i);
    tile[(row * seen_stride() + i) / 4] = first + row < count ? four : float4(0.0f);
  }
}

kernel void attention_all(constant Step& step [[buffer(0)]], device const Run& run [[buffer(1)]],
                          device const float* in [[buffer(4)]], device float* out [[buffer(8)]],
                          uint3 group [[threadgroup_position_in_grid]], uint index [[thread_index_in_threadgroup]],
                          uint lane [[thread_index_in_simdgroup]], uint simd [[simdgroup_index_in_threadgroup]]) {
  threadgroup float4 tile4[kTileKeys * (kSeenMax + 4) / 4];             // queries, keys, values, results in turn
  threadgroup float scores_of[kAttendingSimds][8 * kTileKeys];
  threadgroup float factors_of[kAttendingSimds][8 * 8];                 // a diagonal
  threadgroup float* tile = (threadgroup float*)tile4;
  threadgroup float* scores = scores_of[simd];
  threadgroup float* factors = factors_of[simd];
  const int head = int(group.x), first_row = int(group.y) * kTileRows, rows = rows_of(step, run), count = run.input_rows;
  if (first_row >= rows) return;
  const int width = step.heads * kHeadDim, at = head * kHeadDim, stride = seen_stride();

  simdgroup_float8x8 q[kSeenBlocks], mix[kSeenBlocks];
  load_tile(in, step, run, first_row, rows, at, tile4, index);
  factors[lane] = 0.0f;
  factors[32 + lane] = 0.0f;
  threadgroup_barrier(mem_flags::mem_threadgroup);
#pragma unroll
  for (int b = 0; b < kSeenBlocks; ++b) {
    if (8 * b >= kHeadDim) continue;
    simdgroup_load(q[b], tile + int(simd) * 8 * stride + 8 * b, ulong(stride));
    mix[b] = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
  }
  float most[8], sum[8];  // of the rows; the sum is spread over the lanes
#pragma unroll
  for (int r = 0; r < 8; ++r) {
    most[r] = -INFINITY;
    sum[r] = 0.0f;
  }

  for (int first = 0; first < count; first += kTileKeys) {
    threadgroup_barrier(mem_flags::mem_threadgroup);  // all have used what is there
    load_tile(in, step, run, first, count, width + at, tile4, index);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (int k = 0; k < kKeyBlocks; ++k) {
      simdgroup_float8x8 products = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
#pragma unroll
      for (int b = 0; b < kSeenBlocks; ++b) {
        if (8 * b >= kHeadDim) continue;
        simdgroup_float8x8 keys;
        simdgroup_load(keys, tile + 8 * k * stride + 8 * b, ulong(stride), ulong2(0, 0), true);
        simdgroup_multiply_accumulate(products, q[b], keys, products);
      }
      simdgroup_store(products, scores + 8 * k, ulong(kTileKeys));
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);  // of the keys, and of the scores
    load_tile(in, step, run, first, count, 2 * width + at, tile4, index);
    const bool exists = first + int(lane) < count;
#pragma unroll
    for (int r = 0; r < 8; ++r) {
      const float score = exists ? scores[r * kTileKeys + int(lane)] : -INFINITY;
      const float most_now = max(most[r], simd_max(score)), keep = precise::exp(most[r] - most_now);
      const float share = precise::exp(score - most_now);
      most[r] = most_now;
      sum[r] = fma(sum[r], keep, share);
      scores[r * kTileKeys + int(lane)] = share;
      if (lane == 0) factors[9 * r] = keep;
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    simdgroup_float8x8 keeps, shares[kKeyBlocks];
    simdgroup_load(keeps, factors, 8);
#pragma unroll
    for (int k = 0; k < kKeyBlocks; ++k) simdgroup_load(shares[k], scores + 8 * k, ulong(kTileKeys));
#pragma unroll
    for (int b = 0; b < kSeenBlocks; ++b) {
      if (8 * b >= kHeadDim) continue;
      simdgroup_multiply(mix[b], keeps, mix[b]);
#pragma unroll
      for (int k = 0; k < kKeyBlocks; ++k) {
        simdgroup_float8x8 values;
        simdgroup_load(values, tile + 8 * k * stride + 8 * b, ulong(stride));
        simdgroup_multiply_accumulate(mix[b], shares[k], values, mix[b]);
      }
    }
  }

  threadgroup_barrier(mem_flags::mem_threadgroup);
#pragma unroll
  for (int b = 0; b < kSeenBlocks; ++b)
    if (8 * b < kHeadDim) simdgroup_store(mix[b], tile + int(simd) * 8 * stride + 8 * b, ulong(stride));
  simdgroup_barrier(mem_flags::mem_threadgroup);
#pragma unroll
  for (int r = 0; r < 8; ++r) {
    const float total = simd_sum(sum[r]);
    const int row = first_row + int(simd) * 8 + r;
    if (row >= rows) continue;
    device float* to = out_row(out, step.out[0], run, row) + at;
    for (int i = int(lane); i < kHeadDim; i += 32) to[i] = tile[(int(simd) * 8 + r) * stride + i] / total;
  }
}
