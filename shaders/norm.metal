// Norms of rows, a threadgroup for each. A thread holds its share of a row in registers, elements index,
// index + kNormThreads, ...: a row is read once, and all of it at once.

constant int kNormWidth [[function_constant(40)]];    // elements of a row
constant int kNormThreads [[function_constant(41)]];  // of a threadgroup

constexpr constant int kMaxHeld = 24;   // elements of a thread
constexpr constant int kMaxSimds = 32;  // simdgroups of a threadgroup

// How far loops over a share go: known when a pipeline is made, so that they unroll and shares stay in registers.
inline bool has_element(int j) { return j < kMaxHeld && j * kNormThreads < kNormWidth; }

// x = the thread's share of a row, 0 behind its end
inline void hold(thread float* x, device const float* row, int index) {
#pragma unroll
  for (int j = 0; has_element(j); ++j) {
    const int i = j * kNormThreads + index;
    x[j] = i < kNormWidth ? row[i] : 0.0f;
  }
}

inline void store_held(device float* row, thread const float* x, int index) {
#pragma unroll
  for (int j = 0; has_element(j); ++j) {
    const int i = j * kNormThreads + index;
    if (i < kNormWidth) row[i] = x[j];
  }
}

inline float squares(thread const float* x) {
  float sum = 0.0f;
#pragma unroll
  for (int j = 0; has_element(j); ++j) sum = fma(x[j], x[j], sum);
  return sum;
}

// row = x * factor * weight * scale
inline void store_normed(device float* row, thread const float* x, float factor, device const float* weight, float scale,
                         int index) {
#pragma unroll
  for (int j = 0; has_element(j); ++j) {
    const int i = j * kNormThreads + index;
    if (i < kNormWidth) row[i] = x[j] * factor * weight[i] * scale;
  }
}

// The sum over the threadgroup: over the lanes of a simdgroup, then over the simdgroups in their order. sums: [kMaxSimds],
// not used for anything else.
inline float sum_of_group(float x, threadgroup float* sums, uint lane, uint simd, uint simds) {
  const float part = simd_sum(x);
  if (lane == 0) sums[simd] = part;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  float sum = 0.0f;
  for (uint s = 0; s < simds; ++s) sum += sums[s];
  return sum;
}

inline float inverse_rms(float sum_of_squares, int n, float epsilon) {
  return precise::rsqrt(sum_of_squares / float(n) + epsilon);
}

kernel void rms_norm(constant Step& step [[buffer(0)]], device const Run& run [[buffer(1)]],
                     device const float* in [[buffer(4)]], device float* out [[buffer(8)]],
                     device const float* weight [[buffer(12)]],
                     uint3 group [[threadgroup_position_in_grid]], uint index [[thread_index_in_threadgroup]],
                     uint lane [[thread_index_in_simdgroup]], uint simd [[simdgroup_index_in_threadgroup]],
                     uint simds [[simdgroups_per_threadgroup]]) {
  threadgroup float sums[kMaxSimds];
  const int row = int(group.y);
  if (row >= rows_of(step, run)) return;
  float x[kMaxHeld];
  hold(x, in_row(in, step.in[0], run, row), index);
  const float factor = inverse_rms(sum_of_group(squares(x), sums, lane, simd, simds), kNormWidth, step.epsilon);
  if (has_weight(step, 0)) {
    store_normed(out_row(out, step.out[0], run, row), x, factor, weight, 1.0f, index);
    return;
  }
#pragma unroll
  for (int j = 0; has_element(j); ++j) x[j] *= factor;
  store_held(out_row(out, step.out[0], run, row), x, index);
}

kernel void layer_norm(constant Step& step [[buffer(0)]], device const Run& run [[buffer(1)]],
                       device const float* in [[buffer(4)]], device float* out [[buffer(8)]],
                       device const float* weight [[buffer(12)]], device const float* bias [[buffer(15)]],
                       uint3 group [[threadgroup_position_in_grid]], uint index [[thread_index_in_threadgroup]],
                       uint lane [[thread_index_in_simdgroup]], uint simd [[simdgroup_index_in_threadgroup]],
                       uint simds [[simdgroups_per_threadgroup]]) {
  threadgroup float sums[2][kMaxSimds];
  const int row = int(group.y);
  if (row >= rows_of(step, run)) return;
  float x[kMaxHeld];
  hold(x, in_row(in, step.in[0], run, row), index);
  float sum = 0.0f;
#pragma unroll
  for (int j = 0; has_element(j); ++j) sum += x[j];
  const float mean = sum_of_group(sum, sums[0], lane, simd, simds) / float(kNormWidth);
#pragma unroll
  for (int j = 0; has_element(j); ++j)
    if (j * kNormThreads + int(index) < kNormWidth) x[j] -= mean;
  const float factor = inverse_rms(sum_of_group(squares(x), sums[1], lane, simd, simds), kNormWidth, step.epsilon);
  device float* normed = out_row(out, step.out[0], run, row);
#pragma unroll
  for (int j = 0; has_element(j); ++j) {
    const int i = j * kNormThreads + int(index);
    if (i < kNormWidth) normed[i] = fma(x[j] * factor, weight[i], bias[i]);
  }
}

// kOutputs counts h too.
kernel void add_norm(constant Step& step [[buffer(0)]], device const Run& run [[buffer(1)]],
                     device const float* in1 [[buffer(5)]], device float* out0 [[buffer(8)]],
                     device float* out1 [[buffer(9)]], device const float* weight [[buffer(12)]],
                     uint3 group [[threadgroup_position_in_grid]], uint index [[thread_index_in_threadgroup]],
                     uint lane [[thread_index_in_simdgroup]], uint simd [[simdgroup_index_in_threadgroup]],
                     uint simds [[simdgroups_per_threadgroup]]) {
  threadgroup float sums[kMaxSimds];
  const int row = int(group.y);
  if (row >= rows_of(step, run)) return;
  device float* stream = out_row(out0, step.out[0], run, row);
  float h[kMaxHeld], update[kMaxHeld];
  hold(h, stream, index);
  hold(update, in_row(in1, step.in[1], run, row), index);
#pragma unroll
  for (int j = 0; has_element(j); ++j) h[j] += update[j];
  store_held(stream, h, index);
  if (kOutputs == 1) return;
  const float factor = inverse_rms(sum_of_group(squares(h), sums, lane, simd, simds), kNormWidth, step.epsilon);
  store_normed(out_row(out1, step.out[1], run, row), h, factor, weight, 1.0f, index);
}

// kOutputs counts h too.
kernel void residual_norm(constant Step& step [[buffer(0)]], device const Run& run [[buffer(1)]],
                          device const float* in1 [[buffer(5)]], device float* out0 [[buffer(8)]],
                          device float* out1 [[buffer(9)]], device float* out2 [[buffer(10)]],
                          device float* out3 [[buffer(11)]], device const float* post_norm [[buffer(12)]],
                          device const float* scalar [[buffer(15)]], device const float* norm1 [[buffer(18)]],
                          device const float* norm2 [[buffer(21)]], device const float* norm3 [[buffer(24)]],
                          uint3 group [[threadgroup_position_in_grid]], uint index [[thread_index_in_threadgroup]],
                          uint lane [[thread_index_in_simdgroup]], uint simd [[simdgroup_index_in_threadgroup]],
                          uint simds [[simdgroups_per_threadgroup]]) {
  threadgroup float sums[2][kMaxSimds];
  const int row = int(group.y);
  if (row >= rows_of(step, run)) return;
  device float* stream = out_row(out0, step.out[0], run, row);
  float update[kMaxHeld], weight[kMaxHeld], h[kMaxHeld];
  hold(update, in_row(in1, step.in[1], run, row), index);
  hold(weight, post_norm, index);
  hold(h, stream, index);

  const float layer_factor = has_weight(step, 1) ? scalar[0] : 1.0f, part = step.scale2 == 0.0f ? 1.0f : step.scale2;
  const float update_factor =
      inverse_rms(sum_of_group(squares(update), sums[0], lane, simd, simds), kNormWidth, step.epsilon) * part;
#pragma unroll
  for (int j = 0; has_element(j); ++j) h[j] = fma(update[j] * update_factor, weight[j], h[j]) * layer_factor;
  store_held(stream, h, index);
  if (kOutputs == 1) return;

  const float factor = inverse_rms(sum_of_group(squares(h), sums[1], lane, simd, simds), kNormWidth, step.epsilon);
  const float scale1 = step.scaled_output == 1 ? step.scale : 1.0f, scale2 = step.scaled_output == 2 ? step.scale : 1.0f,
              scale3 = step.scaled_output == 3 ? step.scale : 1.0f;
  store_normed(out_row(out1, step.out[1], run, row), h, factor, norm1, scale1, index);
  if (kOutputs > 2) store_normed(out_row(out2, step.out[2], run, row), h, factor, norm2, scale2, index);
  if (kOutputs > 3) store_normed(out_row(out3, step.out[3], run, row), h, factor, norm3, scale3, index);
}
