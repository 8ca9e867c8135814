// Products of the rows of a round, 1 to 8 of them. A simdgroup makes four outputs for all rows: a lane takes 16 consecutive
// inputs of every 512, reads and decodes the weights once and keeps one sum for each row and output. A sum is a chain of
// its own, made in the same order whatever kRows is.
//
// Weights become numbers before they are multiplied, affine ones too: s * (q . x) + b * sum(x) would save one operation a
// weight, but take three for every eight weights of each row, and with one row the kernel waits for memory anyway.

// Number `index` of four. Vectors are registers, which know no index.
inline float element_of(float4 four, uint index) {
  const float2 two = index / 2 == 0 ? four.xy : four.zw;
  return index % 2 == 0 ? two.x : two.y;
}

// Lane 4 r + o gets the product of row r with row rows[o] of the matrix. Row r of the inputs begins at x + x_at[r]; where
// that is negative in a Sparse list, there is none.
template <bool Sparse>
inline float products(Weights w, thread const uint* rows, device const float* x, thread const int* x_at, uint lane) {
  const int row_count = kRows;
  float4 sums[kRowsMax];  // of the four outputs
  for (int r = 0; r < kRowsMax; ++r) sums[r] = float4(0.0f);
  for (int i = int(lane) * kPackInputs; i < kInputs; i += 32 * kPackInputs) {
    Pack packs[kSimdOutputs];
#pragma unroll
    for (int o = 0; o < kSimdOutputs; ++o) packs[o] = pack_at(w, rows[o], i);
#pragma unroll
    for (int half_number = 0; half_number < 2; ++half_number) {
      float4 weights[8];  // of the four outputs
#pragma unroll
      for (int o = 0; o < kSimdOutputs; ++o) {
        float decoded[8];
        decode(w, packs[o], rows[o], i, half_number, decoded);
#pragma unroll
        for (int j = 0; j < 8; ++j) weights[j][o] = decoded[j];
      }
      // The bound is kRowsMax so that the loop unrolls before kRows is known.
#pragma unroll
      for (int r = 0; r < kRowsMax; ++r) {
        if (r >= row_count || (Sparse && x_at[r] < 0)) continue;
        float inputs[8];
        read_inputs(x + x_at[r], i + 8 * half_number, inputs);
#pragma unroll
        for (int j = 0; j < 8; ++j) sums[r] = fma(weights[j], float4(inputs[j]), sums[r]);
      }
    }
  }
  float mine = 0.0f;
#pragma unroll
  for (int r = 0; r < kRowsMax; ++r) {
    if (r >= row_count) continue;
    const float4 sum = simd_sum(sums[r]);
    if (int(lane) / kSimdOutputs == r) mine = element_of(sum, lane % kSimdOutputs);
  }
  return mine;
}

// Outputs `first` to `first` + 3 of `count`; those behind the last are the last again.
template <bool Sparse>
inline float products_from(Weights w, int first, int count, device const float* x, thread const int* x_at, uint lane) {
  const int begin = min(first, count - 1);
  uint rows[kSimdOutputs];
  for (int o = 0; o < kSimdOutputs; ++o) rows[o] = uint(min(o, count - 1 - begin));
  return products<Sparse>(at_row(w, begin), rows, x, x_at, lane);
}

// Where the rows of a step's first input begin, from the first of them.
inline void place_rows(constant Step& step, device const Run& run, thread int* x_at) {
  const int last = rows_of(step, run) - 1;
  for (int r = 0; r < kRowsMax; ++r) x_at[r] = min(r, last) * int(step.in[0].row_bytes / 4);
}

// The place of a lane among the results of a simdgroup.
struct LanePlace {
  int row, output;
  bool exists;
};

inline LanePlace place_of(constant Step& step, device const Run& run, int first, int count, uint lane) {
  LanePlace place;
  place.row = int(lane) / kSimdOutputs;
  place.output = first + int(lane) % kSimdOutputs;
  place.exists = place.row < min(int(kRows), rows_of(step, run)) && place.output < count;
  return place;
}

kernel void linear(constant Step& step [[buffer(0)]],
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
                   uint simd [[simdgroup_index_in_threadgroup]],
                   uint lane [[thread_index_in_simdgroup]]) {
  device const float* x = in_row(in, step.in[0], run, 0);
  int x_at[kRowsMax];
  place_rows(step, run, x_at);
  // The tiles of the first matrix, then those of the second, then those of the third.
  const int tiles0 = (step.n[0] + kGroupOutputs - 1) / kGroupOutputs;
  const int tiles1 = (step.n[1] + kGroupOutputs - 1) / kGroupOutputs, tile = int(group.x);
  const int matrix = tile < tiles0 ? 0 : tile < tiles0 + tiles1 ? 1 : 2;
  const int before = matrix == 0 ? 0 : matrix == 1 ? step.n[0] : step.n[0] + step.n[1];  // outputs of the matrices before
  const int tiles_before = matrix == 0 ? 0 : matrix == 1 ? tiles0 : tiles0 + tiles1;
  const int first = (tile - tiles_before) * kGroupOutputs + int(simd) * kSimdOutputs;
  float y = 0.0f;
  if (matrix == 0)
    y = products_from<false>(weights_of(values0, scales0, biases0, step.matrix[0], kCoding0, kGroup0, kScaleType0), first,
                             step.n[0], x, x_at, lane);
  else if (matrix == 1)
    y = products_from<false>(weights_of(values1, scales1, biases1, step.matrix[1], kCoding1, kGroup1, kScaleType1), first,
                             step.n[1], x, x_at, lane);
  else
    y = products_from<false>(weights_of(values2, scales2, biases2, step.matrix[2], kCoding2, kGroup2, kScaleType2), first,
                             step.n[2], x, x_at, lane);
  const LanePlace place = place_of(step, run, first, step.n[matrix], lane);
  if (place.exists) out_row(out, step.out[0], run, place.row)[before + place.output] = y;
}

kernel void linear_gelu_mul(constant Step& step [[buffer(0)]],
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
                            uint simd [[simdgroup_index_in_threadgroup]],
                            uint lane [[thread_index_in_simdgroup]]) {
  device const float* x = in_row(in, step.in[0], run, 0);
  int x_at[kRowsMax];
  place_rows(step, run, x_at);
  const int first = int(group.x) * kGroupOutputs + int(simd) * kSimdOutputs;
  const Weights gates = weights_of(values0, scales0, biases0, step.matrix[0], kCoding0, kGroup0, kScaleType0);
  const Weights ups = weights_of(values1, scales1, biases1, step.matrix[1], kCoding1, kGroup1, kScaleType1);
  const float gate = products_from<false>(gates, first, step.n[0], x, x_at, lane);
  const float up = products_from<false>(ups, first, step.n[0], x, x_at, lane);
  const LanePlace place = place_of(step, run, first, step.n[0], lane);
  if (place.exists) out_row(out, step.out[0], run, place.row)[place.output] = gelu(gate) * up;
}

kernel void linear_silu_mul(constant Step& step [[buffer(0)]],
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
                            uint simd [[simdgroup_index_in_threadgroup]],
                            uint lane [[thread_index_in_simdgroup]]) {
  device const float* x = in_row(in, step.in[0], run, 0);
  int x_at[kRowsMax];
  place_rows(step, run, x_at);
  const int first = int(group.x) * kGroupOutputs + int(simd) * kSimdOutputs;
  const Weights gates = weights_of(values0, scales0, biases0, step.matrix[0], kCoding0, kGroup0, kScaleType0);
  const Weights ups = weights_of(values1, scales1, biases1, step.matrix[1], kCoding1, kGroup1, kScaleType1);
  const float gate = products_from<false>(gates, first, step.n[0], x, x_at, lane);
  const float up = products_from<false>(ups, first, step.n[0], x, x_at, lane);
  const LanePlace place = place_of(step, run, first, step.n[0], lane);
  if (place.exists) out_row(out, step.out[0], run, place.row)[place.output] = gate * sigmoid(gate) * up;
}

kernel void linear_gelu_gate(constant Step& step [[buffer(0)]],
                             device const Run& run [[buffer(1)]],
                             device const float* in [[buffer(4)]],
                             device const float* factors [[buffer(5)]],
                             device float* out [[buffer(8)]],
                             device const uchar* values [[buffer(12)]],
                             device const uchar* scales [[buffer(13)]],
                             device const uchar* biases [[buffer(14)]],
                             uint3 group [[threadgroup_position_in_grid]],
                             uint simd [[simdgroup_index_in_threadgroup]],
                             uint lane [[thread_index_in_simdgroup]]) {
  device const float* x = in_row(in, step.in[0], run, 0);
  int x_at[kRowsMax];
  place_rows(step, run, x_at);
  const int first = int(group.x) * kGroupOutputs + int(simd) * kSimdOutputs;
  const Weights w = weights_of(values, scales, biases, step.matrix[0], kCoding0, kGroup0, kScaleType0);
  const float y = products_from<false>(w, first, step.n[0], x, x_at, lane);
  const LanePlace place = place_of(step, run, first, step.n[0], lane);
  if (!place.exists) return;
  const float factor = in_row(factors, step.in[1], run, place.row)[step.offset + place.output];
  out_row(out, step.out[0], run, place.row)[place.output] = gelu(y) * factor;
}

inline float softcap(float x, float cap) { return cap == 0.0f ? x : cap * precise::tanh(x / cap); }

kernel void linear_softcap(constant Step& step [[buffer(0)]],
                           device const Run& run [[buffer(1)]],
                           device const float* in [[buffer(4)]],
                           device float* out [[buffer(8)]],
                           device const uchar* values [[buffer(12)]],
                           device const uchar* scales [[buffer(13)]],
                           device const uchar* biases [[buffer(14)]],
                           uint3 group [[threadgroup_position_in_grid]],
                           uint simd [[simdgroup_index_in_threadgroup]],
                           uint lane [[thread_index_in_simdgroup]]) {
  device const float* x = in_row(in, step.in[0], run, 0);
  int x_at[kRowsMax];
  place_rows(step, run, x_at);
  const int first = int(group.x) * kGroupOutputs + int(simd) * kSimdOutputs;
  const Weights w = weights_of(values, scales, biases, step.matrix[0], kCoding0, kGroup0, kScaleType0);
  const float y = products_from<false>(w, first, step.n[0], x, x_at, lane);
  const LanePlace place = place_of(step, run, first, step.n[0], lane);
  if (place.exists) out_row(out, step.out[0], run, place.row)[place.output] = softcap(y, step.scale);
}
