// What takes rows of a table by token: the row's own, or those of clusters.

// Entries i to i + 7 of a row of the table, where i is a multiple of 8.
inline void entries_at(Weights row, int i, thread float* to) {
  const int begin = i / kPackInputs * kPackInputs;
  const Pack pack = pack_at(row, 0, begin);
  if (i == begin) decode(row, pack, 0, begin, 0, to);
  else decode(row, pack, 0, begin, 1, to);
}

// A thread makes 8 entries.
inline void embed_entries(Weights row, float scale, device float* out, int i) {
  float entries[8];
  entries_at(row, i, entries);
  for (int j = 0; j < 8; ++j)
    if (i + j < kInputs) out[i + j] = entries[j] * scale;
}

// The host has put soft tokens where they belong before the run.
kernel void embed(constant Step& step [[buffer(0)]],
                  device const Run& run [[buffer(1)]],
                  device const Row* rows [[buffer(2)]],
                  device float* out [[buffer(8)]],
                  device const uchar* values [[buffer(12)]],
                  device const uchar* scales [[buffer(13)]],
                  device const uchar* biases [[buffer(14)]],
                  uint3 at [[thread_position_in_grid]]) {
  const int row = int(at.y), i = int(at.x) * 8;
  if (row >= rows_of(step, run) || i >= kInputs) return;
  const Row place = row_of(step, run, rows, row);
  if (place.soft >= 0) return;
  const Weights table = weights_of(values, scales, biases, step.matrix[0], kCoding0, kGroup0, kScaleType0);
  embed_entries(at_row(table, place.token), step.scale, out_row(out, step.out[0], run, row), i);
}

kernel void embed_pair(constant Step& step [[buffer(0)]],
                       device const Run& run [[buffer(1)]],
                       device const Row* rows [[buffer(2)]],
                       device const float* in [[buffer(4)]],
                       device float* out [[buffer(8)]],
                       device const uchar* values [[buffer(12)]],
                       device const uchar* scales [[buffer(13)]],
                       device const uchar* biases [[buffer(14)]],
                       uint3 at [[thread_position_in_grid]]) {
  const int row = int(at.y), i = int(at.x) * 8;
  if (row >= rows_of(step, run) || i >= kInputs) return;
  const Weights table = weights_of(values, scales, biases, step.matrix[0], kCoding0, kGroup0, kScaleType0);
  device float* to = out_row(out, step.out[0], run, row);
  device const float* carried = in_row(in, step.in[0], run, row);
  embed_entries(at_row(table, row_of(step, run, rows, row).token), step.scale, to, i);
  for (int j = i; j < min(i + 8, int(kInputs)); ++j) to[kInputs + j] = carried[j];
}

// A simdgroup makes the inputs of one layer, step.n[0] wide; four layers are a threadgroup.
kernel void ple_inputs(constant Step& step [[buffer(0)]],
                       device const Run& run [[buffer(1)]],
                       device const Row* rows [[buffer(2)]],
                       device const float* in [[buffer(4)]],
                       device float* out [[buffer(8)]],
                       device const uchar* values [[buffer(12)]],
                       device const uchar* scales [[buffer(13)]],
                       device const uchar* biases [[buffer(14)]],
                       device const float* norm [[buffer(15)]],
                       uint3 group [[threadgroup_position_in_grid]],
                       uint simd [[simdgroup_index_in_threadgroup]],
                       uint lane [[thread_index_in_simdgroup]]) {
  const int row = int(group.y), layer = int(group.x) * 4 + int(simd), width = step.n[0];
  if (row >= rows_of(step, run) || layer >= step.n[1]) return;
  const Weights tables = weights_of(values, scales, biases, step.matrix[0], kCoding0, kGroup0, kScaleType0);
  const Weights table = at_row(tables, row_of(step, run, rows, row).token);
  device const float* x = in_row(in, step.in[0], run, row) + layer * width;
  device float* to = out_row(out, step.out[0], run, row) + layer * width;
  float square = 0.0f;
  for (int i = int(lane); i < width; i += 32) {
    const float scaled = x[i] * step.scale;
    square = fma(scaled, scaled, square);
  }
  const float factor = 1.0f / precise::sqrt(simd_sum(square) / float(width) + step.epsilon);
  for (int i = int(lane) * 8; i < width; i += 32 * 8) {
    float entries[8];
    entries_at(table, layer * width + i, entries);
    for (int j = 0; j < 8; ++j) {
      const float normed = x[i + j] * step.scale * factor * norm[i + j];
      to[i + j] = fma(entries[j], step.scale2, normed) * 0.7071067811865476f;
    }
  }
}

// Each simdgroup makes four of the listed tokens of one row: other rows list others.
kernel void cluster_logits(constant Step& step [[buffer(0)]],
                           device const Run& run [[buffer(1)]],
                           device const float* in [[buffer(4)]],
                           device const int* clusters [[buffer(5)]],
                           device float* logits [[buffer(8)]],
                           device int* tokens [[buffer(9)]],
                           device const uchar* values [[buffer(12)]],
                           device const uchar* scales [[buffer(13)]],
                           device const uchar* biases [[buffer(14)]],
                           device const int* order [[buffer(15)]],
                           uint3 group [[threadgroup_position_in_grid]],
                           uint simd [[simdgroup_index_in_threadgroup]],
                           uint lane [[thread_index_in_simdgroup]]) {
  const int row = int(group.y), n = step.n[0], listed = step.experts_used * n;
  if (row >= rows_of(step, run)) return;
  const int first = int(group.x) * kGroupOutputs + int(simd) * kSimdOutputs;
  device const int* picked = clusters + row_offset(step.in[1], run, row, 4);
  uint table_rows[kSimdOutputs];
  for (int o = 0; o < kSimdOutputs; ++o) {
    const int place = min(first + o, listed - 1);
    table_rows[o] = uint(order[picked[place / n] * n + place % n]);
  }
  int x_at[kRowsMax];
  for (int r = 0; r < kRowsMax; ++r) x_at[r] = 0;
  const Weights table = weights_of(values, scales, biases, step.matrix[0], kCoding0, kGroup0, kScaleType0);
  const float y = products<false>(table, table_rows, in_row(in, step.in[0], run, row), x_at, lane);
  if (int(lane) >= kSimdOutputs || first + int(lane) >= listed) return;
  logits[row_offset(step.out[0], run, row, 4) + ulong(first + int(lane))] = y;
  int token = 0;
  for (int o = 0; o < kSimdOutputs; ++o)
    if (int(lane) == o) token = int(table_rows[o]);
  tokens[row_offset(step.out[1], run, row, 4) + ulong(first + int(lane))] = token;
}
