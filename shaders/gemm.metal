// Products of the rows of a prompt, any number of them, on matrices of 8 x 8. A threadgroup of four simdgroups makes 64
// outputs of 32 rows; rows that are not there count as 0. An 8 x 8 product treats its rows alike and the inputs come in
// ascending order, so that a row knows neither its place in the tile nor who shares it.
//
// Weights are decoded to float32: the mantissa of half is too short for the promised accuracy, and the multipliers of
// Apple's GPUs are as fast in both.

enum {
  kTileInputs = 32,  // that are multiplied at a time
  kBlockFloats = 72,  // from one 8 x 8 block in threadgroup memory to the next: 8 more, to spread blocks over the banks
  kInputBlocks = kTileInputs / 8 * (kTileRows / 8), kWeightBlocks = kTileInputs / 8 * (kTileOutputs / 8),
  kTileElements = kTileRows * kTileOutputs / kTileThreads  // results that a thread looks after
};

// Element `index` of those a thread looks after: neighbours in a row are neighbouring threads.
struct TilePlace {
  int row, output;   // in the tile
  uint at;           // in the memory of the tile
};

inline TilePlace tile_place(uint thread_number, int index) {
  const int element = int(thread_number) + index * kTileThreads;
  TilePlace place;
  place.row = element / kTileOutputs;
  place.output = element % kTileOutputs;
  const int block = place.row / 8 * (kTileOutputs / 8) + place.output / 8;
  place.at = uint(block * kBlockFloats + place.row % 8 * 8 + place.output % 8);
  return place;
}

// Outputs `first` to `first` + 63 of `count`, those behind the last are the last again, for rows first_row to first_row +
// 31. The results lie in `weights` as tile_place says.
inline void multiply_tile(Weights w, int first, int count, device const float* in, constant Step& step,
                          device const Run& run, int first_row, threadgroup float4* inputs, threadgroup float* weights,
                          uint thread_number, uint simd) {
  // What a thread loads: one pack of an output, and 8 inputs of a row.
  const int output = int(thread_number) % kTileOutputs, pack_number = int(thread_number) / kTileOutputs;
  const int row = int(thread_number) / 4, input_block = int(thread_number) % 4;
  const int rows = rows_of(step, run);
  const bool row_exists = first_row + row < rows;
  device const float* x = in_row(in, step.in[0], run, min(first_row + row, rows - 1));
  w = at_row(w, first);
  const uint matrix_row = uint(min(output, count - 1 - first));
  threadgroup float* weights_to = weights + (2 * pack_number * (kTileOutputs / 8) + output / 8) * kBlockFloats + output % 8;
  threadgroup float4* inputs_to = inputs + (input_block * (kTileRows / 8) + row / 8) * (kBlockFloats / 4) + row % 8 * 2;
  // What a simdgroup computes: 16 rows of 32 outputs.
  const int row_block = int(simd) / 2 * 2, output_block = int(simd) % 2 * 4;
  threadgroup const float* blocks = (threadgroup const float*)inputs;
  simdgroup_float8x8 sums[2][4];
#pragma unroll
  for (int r = 0; r < 2; ++r)
#pragma unroll
    for (int o = 0; o < 4; ++o) sums[r][o] = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);

  for (int begin = 0; begin < kInputs; begin += kTileInputs) {
    const int i = begin + pack_number * kPackInputs, k = begin + input_block * 8;
    float decoded[kPackInputs] = {};
    float values[8] = {};
    if (i < kInputs) {
      const Pack pack = pack_at(w, matrix_row, i);
#pragma unroll
      for (int half_number = 0; half_number < 2; ++half_number)
        decode(w, pack, matrix_row, i, half_number, decoded + 8 * half_number);
    }
    if (row_exists && k < kInputs) read_inputs(x, k, values);
#pragma unroll
    for (int j = 0; j < 8; ++j) values[j] = clipped_input(w, values[j]);
    threadgroup_barrier(mem_flags::mem_threadgroup);  // all have used what is there
#pragma unroll
    for (int j = 0; j < kPackInputs; ++j) weights_to[j / 8 * (kTileOutputs / 8) * kBlockFloats + j % 8 * 8] = decoded[j];
    inputs_to[0] = float4(values[0], values[1], values[2], values[3]);
    inputs_to[1] = float4(values[4], values[5], values[6], values[7]);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (int block = 0; block < kTileInputs / 8; ++block) {
      simdgroup_float8x8 a[2], b[4];
#pragma unroll
      for (int r = 0; r < 2; ++r)
        simdgroup_load(a[r], blocks + (block * (kTileRows / 8) + row_block + r) * kBlockFloats, 8);
#pragma unroll
      for (int o = 0; o < 4; ++o)
        simdgroup_load(b[o], weights + (block * (kTileOutputs / 8) + output_block + o) * kBlockFloats, 8);
#pragma unroll
      for (int r = 0; r < 2; ++r)
#pragma unroll
        for (int o = 0; o < 4; ++o) simdgroup_multiply_accumulate(sums[r][o], a[r], b[o], sums[r][o]);
    }
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
#pragma unroll
  for (int r = 0; r < 2; ++r)
#pragma unroll
    for (int o = 0; o < 4; ++o)
      simdgroup_store(sums[r][o], weights + ((row_block + r) * (kTileOutputs / 8) + output_block + o) * kBlockFloats, 8);
  threadgroup_barrier(mem_flags::mem_threadgroup);
}

kernel void linear_prompt(constant Step& step [[buffer(0)]],
                          device const Run& run [[buffer(1)]],
                          device const float* in [[buffer(4)]],
                          device float* out [[buffer(8)]],
                          device const uchar* values0 [[buffer(12)]],
                          device const uchar* scales0 [[buffer(13)]],
                          device const uchar* biases0 [[buffer(14)]],
                          device const uchar* values1 [[buffer(15)]],
                          device const uchar* scales1 [[buffer(16)]],
                          device const uchar* biases1 [[buffer(17)]],
                          device const uchar* values2 [[buffer(18)]],
                          device const uchar* scales2 [[buffer(19)]],
                          device const uchar* biases2 [[buffer(20)]],
                          uint3 group [[threadgroup_position_in_grid]],
                          uint thread_number [[thread_index_in_threadgroup]],
                          uint simd [[simdgroup_index_in_threadgroup]]) {
  threadgroup float4 inputs[kInputBlocks * kBlockFloats / 4];
  threadgroup float weights[kWeightBlocks * kBlockFloats];
  const int rows = rows_of(step, run), first_row = int(group.y) * kTileRows;
  if (first_row >= rows) return;
  // The tiles of the first matrix, then those of the second, then those of the third.
  const int tiles0 = (step.n[0] + kTileOutputs - 1) / kTileOutputs;
  const int tiles1 = (step.n[1] + kTileOutputs - 1) / kTileOutputs, tile = int(group.x);
  const int matrix = tile < tiles0 ? 0 : tile < tiles0 + tiles1 ? 1 : 2;
  const int before = matrix == 0 ? 0 : matrix == 1 ? step.n[0] : step.n[0] + step.n[1];  // outputs of the matrices before
  const int tiles_before = matrix == 0 ? 0 : matrix == 1 ? tiles0 : tiles0 + tiles1;
  const int first = (tile - tiles_before) * kTileOutputs;
  if (matrix == 0)
    multiply_tile(weights_of(values0, scales0, biases0, step.matrix[0], kCoding0, kGroup0, kScaleType0), first, step.n[0],
                  in, step, run, first_row, inputs, weights, thread_number, simd);
  else if (matrix == 1)
    multiply_tile(weights_of(values1, scales1, biases1, step.matrix[1], kCoding1, kGroup1, kScaleType1), first, step.n[1],
                  in, step, run, first_row, inputs, weights, thread_number, simd);
  else
    multiply_tile(weights_of(values2, scales2, biases2, step.matrix[2], kCoding2, kGroup2, kScaleType2), first, step.n[2],
                  in, step, run, first_row, inputs, weights, thread_number, simd);
  for (int e = 0; e < kTileElements; ++e) {
    const TilePlace place = tile_place(thread_number, e);
    if (first_row + place.row >= rows || first + place.output >= step.n[matrix]) continue;
    out_row(out, step.out[0], run, first_row + place.row)[before + first + place.output] =
        clipped_product(step.matrix[matrix], weights[place.at]);
  }
}

kernel void linear_gelu_mul_prompt(constant Step& step [[buffer(0)]],
                                   device const Run& run [[buffer(1)]],
                                   device const float* in [[buffer(4)]],
                                   device float* out [[buffer(8)]],
                                   device const uchar* values0 [[buffer(12)]],
                                   device const uchar* scales0 [[buffer(13)]],
                                   device const uchar* biases0 [[buffer(14)]],
                                   device const uchar* values1 [[buffer(15)]],
                                   device const uchar* scales1 [[buffer(16)]],
                                   device const uchar* biases1 [[buffer(17)]],
                                   uint3 group [[threadgroup_position_in_grid]],
                                   uint thread_number [[thread_index_in_threadgroup]],
                                   uint simd [[simdgroup_index_in_threadgroup]]) {
  threadgroup float4 inputs[kInputBlocks * kBlockFloats / 4];
  threadgroup float weights[kWeightBlocks * kBlockFloats];
  const int rows = rows_of(step, run), first_row = int(group.y) * kTileRows, first = int(group.x) * kTileOutputs;
  if (first_row >= rows) return;
  const Weights gates = weights_of(values0, scales0, biases0, step.matrix[0], kCoding0, kGroup0, kScaleType0);
  const Weights ups = weights_of(values1, scales1, biases1, step.matrix[1], kCoding1, kGroup1, kScaleType1);
  float gate[kTileElements];
  multiply_tile(gates, first, step.n[0], in, step, run, first_row, inputs, weights, thread_number, simd);
  for (int e = 0; e < kTileElements; ++e) gate[e] = gelu(clipped_product(step.matrix[0], weights[tile_place(thread_number, e).at]));
  multiply_tile(ups, first, step.n[0], in, step, run, first_row, inputs, weights, thread_number, simd);
  for (int e = 0; e < kTileElements; ++e) {
    const TilePlace place = tile_place(thread_number, e);
    if (first_row + place.row >= rows || first + place.output >= step.n[0]) continue;
    out_row(out, step.out[0], run, first_row + place.row)[first + place.output] =
        gate[e] * clipped_product(step.matrix[1], weights[place.at]);
  }
}

kernel void linear_gelu_gate_prompt(constant Step& step [[buffer(0)]],
                                    device const Run& run [[buffer(1)]],
                                    device const float* in [[buffer(4)]],
                                    device const float* factors [[buffer(5)]],
                                    device float* out [[buffer(8)]],
                                    device const uchar* values [[buffer(12)]],
                                    device const uchar* scales [[buffer(13)]],
                                    device const uchar* biases [[buffer(14)]],
                                    uint3 group [[threadgroup_position_in_grid]],
                                    uint thread_number [[thread_index_in_threadgroup]],
                                    uint simd [[simdgroup_index_in_threadgroup]]) {
  threadgroup float4 inputs[kInputBlocks * kBlockFloats / 4];
  threadgroup float weights[kWeightBlocks * kBlockFloats];
  const int rows = rows_of(step, run), first_row = int(group.y) * kTileRows, first = int(group.x) * kTileOutputs;
  if (first_row >= rows) return;
  const Weights w = weights_of(values, scales, biases, step.matrix[0], kCoding0, kGroup0, kScaleType0);
  multiply_tile(w, first, step.n[0], in, step, run, first_row, inputs, weights, thread_number, simd);
  for (int e = 0; e < kTileElements; ++e) {
    const TilePlace place = tile_place(thread_number, e);
    const int row = first_row + place.row, output = first + place.output;
    if (row >= rows || output >= step.n[0]) continue;
    const float factor = in_row(factors, step.in[1], run, row)[step.offset + output];
    out_row(out, step.out[0], run, row)[output] = gelu(weights[place.at]) * factor;
  }
}

kernel void linear_softcap_prompt(constant Step& step [[buffer(0)]],
                                  device const Run& run [[buffer(1)]],
                                  device const float* in [[buffer(4)]],
                                  device float* out [[buffer(8)]],
                                  device const uchar* values [[buffer(12)]],
                                  device const uchar* scales [[buffer(13)]],
                                  device const uchar* biases [[buffer(14)]],
                                  uint3 group [[threadgroup_position_in_grid]],
                                  uint thread_number [[thread_index_in_threadgroup]],
                                  uint simd [[simdgroup_index_in_threadgroup]]) {
  threadgroup float4 inputs[kInputBlocks * kBlockFloats / 4];
  threadgroup float weights[kWeightBlocks * kBlockFloats];
  const int rows = rows_of(step, run), first_row = int(group.y) * kTileRows, first = int(group.x) * kTileOutputs;
  if (first_row >= rows) return;
  const Weights w = weights_of(values, scales, biases, step.matrix[0], kCoding0, kGroup0, kScaleType0);
  multiply_tile(w, first, step.n[0], in, step, run, first_row, inputs, weights, thread_number, simd);
  for (int e = 0; e < kTileElements; ++e) {
    const TilePlace place = tile_place(thread_number, e);
    if (first_row + place.row >= rows || first + place.output >= step.n[0]) continue;
    out_row(out, step.out[0], run, first_row + place.row)[first + place.output] = softcap(weights[place.at], step.scale);
  }
}

kernel void linear_bias_prompt(constant Step& step [[buffer(0)]],
                               device const Run& run [[buffer(1)]],
                               device const float* in [[buffer(4)]],
                               device float* out [[buffer(8)]],
                               device const uchar* values [[buffer(12)]],
                               device const uchar* scales [[buffer(13)]],
                               device const uchar* biases [[buffer(14)]],
                               device const float* added [[buffer(15)]],
                               uint3 group [[threadgroup_position_in_grid]],
                               uint thread_number [[thread_index_in_threadgroup]],
                               uint simd [[simdgroup_index_in_threadgroup]]) {
  threadgroup float4 inputs[kInputBlocks * kBlockFloats / 4];
  threadgroup float weights[kWeightBlocks * kBlockFloats];
  const int rows = rows_of(step, run), first_row = int(group.y) * kTileRows, first = int(group.x) * kTileOutputs;
  if (first_row >= rows) return;
  const Weights w = weights_of(values, scales, biases, step.matrix[0], kCoding0, kGroup0, kScaleType0);
  multiply_tile(w, first, step.n[0], in, step, run, first_row, inputs, weights, thread_number, simd);
  for (int e = 0; e < kTileElements; ++e) {
    const TilePlace place = tile_place(thread_number, e);
    if (first_row + place.row >= rows || first + place.output >= step.n[0]) continue;
    const float y = clipped_product(step.matrix[0], weights[place.at]);
    out_row(out, step.out[0], run, first_row + place.row)[first + place.output] = y + added[first + place.output];
  }
}

kernel void linear_silu_prompt(constant Step& step [[buffer(0)]],
                               device const Run& run [[buffer(1)]],
                               device const float* in [[buffer(4)]],
                               device float* out [[buffer(8)]],
                               device const uchar* values [[buffer(12)]],
                               device const uchar* scales [[buffer(13)]],
                               device const uchar* biases [[buffer(14)]],
                               uint3 group [[threadgroup_position_in_grid]],
                               uint thread_number [[thread_index_in_threadgroup]],
                               uint simd [[simdgroup_index_in_threadgroup]]) {
  threadgroup float4 inputs[kInputBlocks * kBlockFloats / 4];
  threadgroup float weights[kWeightBlocks * kBlockFloats];
  const int rows = rows_of(step, run), first_row = int(group.y) * kTileRows, first = int(group.x) * kTileOutputs;
  if (first_row >= rows) return;
  const Weights w = weights_of(values, scales, biases, step.matrix[0], kCoding0, kGroup0, kScaleType0);
  multiply_tile(w, first, step.n[0], in, step, run, first_row, inputs, weights, thread_number, simd);
  for (int e = 0; e < kTileElements; ++e) {
    const TilePlace place = tile_place(thread_number, e);
    if (first_row + place.row >= rows || first + place.output >= step.n[0]) continue;
    const float y = clipped_product(step.matrix[0], weights[place.at]);
    out_row(out, step.out[0], run, first_row + place.row)[first + place.output] = y * sigmoid(y);
  }
}
