// Towers that hear.

// A threadgroup per frame and band of the results, a thread per channel.
kernel void conv_norm_relu(constant Step& step [[buffer(0)]], device const Run& run [[buffer(1)]],
                           device const float* in [[buffer(4)]], device float* out [[buffer(8)]],
                           device const float* taps [[buffer(12)]], device const float* norm [[buffer(15)]],
                           uint3 group [[threadgroup_position_in_grid]], uint index [[thread_index_in_threadgroup]],
                           uint lane [[thread_index_in_simdgroup]], uint simd [[simdgroup_index_in_threadgroup]],
                           uint simds [[simdgroups_per_threadgroup]]) {
  threadgroup float sums[2][kMaxSimds];
  const int row = int(group.y), band = int(group.x), channels = step.channels, c = int(index);
  if (row >= rows_of(step, run)) return;
  const int bands = 2 * step.n[0] / channels, inputs = step.k / bands;
  float y = 0.0f;
  for (int tap = 0; tap < 9; ++tap) {
    const int frame = 2 * row + tap / 3 - 1, from = 2 * band + tap % 3 - 1;
    if (c >= channels || frame < 0 || frame >= run.input_rows || from < 0 || from >= bands) continue;
    device const float* x = in_row(in, step.in[0], run, frame) + from * inputs;
    device const float* weights = taps + tap * inputs * channels + c;
    for (int i = 0; i < inputs; ++i) y = fma(x[i], weights[i * channels], y);
  }
  const float mean = sum_of_group(y, sums[0], lane, simd, simds) / float(channels);
  y = c < channels ? y - mean : 0.0f;
  const float factor = inverse_rms(sum_of_group(y * y, sums[1], lane, simd, simds), channels, step.epsilon);
  if (c < channels) out_row(out, step.out[0], run, row)[band * channels + c] = max(y * factor * norm[c], 0.0f);
}

kernel void distance_waves(constant Step& step [[buffer(0)]], device const Run& run [[buffer(1)]],
                           device float* out [[buffer(8)]], device const float* frequencies [[buffer(27)]],
                           uint3 place [[thread_position_in_grid]]) {
  const int row = int(place.y), i = int(place.x), half_width = step.k / 2;
  if (row >= rows_of(step, run) || i >= half_width) return;
  const float2 turn = cos_sin(float(row) * frequencies[i]);
  device float* waves = out_row(out, step.out[0], run, row);
  waves[i] = turn.y;
  waves[half_width + i] = turn.x;
}

// log(1 + exp(x)), accurate relative to itself where that is small, too.
inline float softplus(float x) {
  const float e = precise::exp(x), sum = 1.0f + e;
  if (x > 20.0f) return x;
  return sum == 1.0f ? e : precise::log(sum) * (e / (sum - 1.0f));
}

constexpr constant int kHeardMax = 8;  // elements of a head in a lane

// A simdgroup per frame and head.
kernel void local_attention(constant Step& step [[buffer(0)]], device const Run& run [[buffer(1)]],
                            device const float* in0 [[buffer(4)]], device const float* in1 [[buffer(5)]],
                            device float* out [[buffer(8)]], device const float* dim_scale [[buffer(12)]],
                            uint3 group [[threadgroup_position_in_grid]], uint lane [[thread_index_in_simdgroup]]) {
  const int row = int(group.y), head = int(group.x), width = step.heads * kHeadDim;
  if (row >= rows_of(step, run)) return;
  device const float* query = in_row(in0, step.in[0], run, row) + head * kHeadDim;
  float q[kHeardMax], mix[kHeardMax];
#pragma unroll
  for (int j = 0; j < kHeardMax; ++j) {
    const int i = 32 * j + int(lane);
    q[j] = i < kHeadDim ? query[i] * (step.scale * softplus(dim_scale[i])) : 0.0f;
    mix[j] = 0.0f;
  }
  float most = -INFINITY, sum = 0.0f;
  for (int distance = 0; distance < min(step.window, row + 1); ++distance) {
    device const float* key = in_row(in0, step.in[0], run, row - distance) + width + head * kHeadDim;
    device const float* relative = in_row(in1, step.in[1], run, distance) + head * kHeadDim;
    float product = 0.0f;
#pragma unroll
    for (int j = 0; j < kHeardMax; ++j) {
      const int i = 32 * j + int(lane);
      if (i < kHeadDim) product = fma(q[j], fma(key[i], step.scale2, relative[i]), product);
    }
    const float score = softcap(simd_sum(product), step.cap), most_now = max(most, score);
    const float keep = precise::exp(most - most_now), share = precise::exp(score - most_now);
    most = most_now;
    sum = fma(sum, keep, share);
#pragma unroll
    for (int j = 0; j < kHeardMax; ++j) {
      const int i = 32 * j + int(lane);
      if (i < kHeadDim) mix[j] = fma(mix[j], keep, share * key[width + i]);
    }
  }
  device float* to = out_row(out, step.out[0], run, row) + head * kHeadDim;
#pragma unroll
  for (int j = 0; j < kHeardMax; ++j) {
    const int i = 32 * j + int(lane);
    if (i < kHeadDim) to[i] = mix[j] / sum;
  }
}

kernel void glu_conv(constant Step& step [[buffer(0)]], device const Run& run [[buffer(1)]],
                     device const float* in [[buffer(4)]], device float* out [[buffer(8)]],
                     device const float* taps [[buffer(12)]], device const float* norm [[buffer(15)]],
                     uint3 group [[threadgroup_position_in_grid]], uint index [[thread_index_in_threadgroup]],
                     uint lane [[thread_index_in_simdgroup]], uint simd [[simdgroup_index_in_threadgroup]],
                     uint simds [[simdgroups_per_threadgroup]]) {
  threadgroup float sums[kMaxSimds];
  const int row = int(group.y);
  if (row >= rows_of(step, run)) return;
  float y[kMaxHeld];
#pragma unroll
  for (int j = 0; has_element(j); ++j) y[j] = 0.0f;
  for (int tap = max(0, step.window - 1 - row); tap < step.window; ++tap) {
    device const float* from = in_row(in, step.in[0], run, row - step.window + 1 + tap);
#pragma unroll
    for (int j = 0; has_element(j); ++j) {
      const int i = j * kNormThreads + int(index);
      if (i < kNormWidth)
        y[j] = fma(taps[tap * kNormWidth + i], from[i] * sigmoid(from[kNormWidth + i]), y[j]);
    }
  }
  const float factor = inverse_rms(sum_of_group(squares(y), sums, lane, simd, simds), kNormWidth, step.epsilon);
  device float* to = out_row(out, step.out[0], run, row);
#pragma unroll
  for (int j = 0; has_element(j); ++j) {
    const int i = j * kNormThreads + int(index);
    if (i >= kNormWidth) continue;
    const float normed = y[j] * factor * norm[i];
    to[i] = normed * sigmoid(normed);
  }
}
