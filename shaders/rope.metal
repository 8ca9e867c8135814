// Rotary positions, and what becomes of the projections of a row: queries, keys and values of its heads.

constant int kHeadDim [[function_constant(42)]];
constant int kKvFormat [[function_constant(43)]];  // KvFormats

// The K or V of a head at a position: elements from the base of the layer.
inline ulong kv_offset(constant Step& step, int slot, int kv_head, int position) {
  const ulong ring = ulong(kv_head) * ulong(step.kv_capacity) + ulong(position % step.kv_capacity);
  return ulong(slot) * step.kv_slot_elements + ring * ulong(kHeadDim);
}

// (cos x, sin x) for 0 <= x < 2^19, within about an ulp of 1, by sums and products alone: angles are large, and what sin
// and cos are worth there is up to the device. With pi/2 = high + low and q * pi/2 the multiple next to x, x - q * high is
// a multiple of 2^-24 below 1 and so exact, and q * low is small.
inline float2 cos_sin(float x) {
  const float q = rint(x * 0.636619772f);
  const float r = fma(-q, -4.37113883e-8f, fma(-q, 1.57079637f, x));
  const float z = r * r;
  // 1/n!: the terms left out are below 2^-32.
  const float c8 = fma(z, -2.75573192e-7f, 2.48015873e-5f), s9 = fma(z, -2.50521084e-8f, 2.75573192e-6f);
  const float c4 = fma(z, fma(z, c8, -1.38888889e-3f), 4.16666667e-2f);
  const float s5 = fma(z, fma(z, s9, -1.98412698e-4f), 8.33333333e-3f);
  const float cosine = fma(z, fma(z, c4, -0.5f), 1.0f), sine = fma(r * z, fma(z, s5, -1.66666667e-1f), r);
  const int quarter = int(q) & 3;
  const float c = quarter & 1 ? sine : cosine, s = quarter & 1 ? cosine : sine;
  return float2(quarter == 1 || quarter == 2 ? -c : c, quarter >= 2 ? -s : s);
}

// A threadgroup per row, a thread per frequency.
kernel void rope_angles(constant Step& step [[buffer(0)]], device const Run& run [[buffer(1)]],
                        device const Row* rows [[buffer(2)]], device float* out [[buffer(8)]],
                        device const float* frequencies [[buffer(27)]],
                        uint3 group [[threadgroup_position_in_grid]], uint index [[thread_index_in_threadgroup]]) {
  const int row = int(group.y), half_dim = kHeadDim / 2, i = int(index);
  if (row >= rows_of(step, run)) return;
  device float* angles = out_row(out, step.out[0], run, row);
  if (i < half_dim) {
    const float2 turn = cos_sin(float(row_of(step, run, rows, row).position) * frequencies[i]);
    angles[i] = turn.x;
    angles[i + half_dim] = turn.y;
  }
}

inline void store_kv(device uchar* base, ulong at, float x) {
  if (kKvFormat == kKvBf16) ((device bfloat*)base)[at] = bfloat(x);
  else ((device float*)base)[at] = x;
}

// A threadgroup per row and head: first the query heads, then with own K/V the key heads and the value heads. A thread has
// the pair of elements that turn together.
kernel void qkv_norm_rope(constant Step& step [[buffer(0)]], device const Run& run [[buffer(1)]],
                          device const Row* rows [[buffer(2)]], device const float* in0 [[buffer(4)]],
                          device const float* in1 [[buffer(5)]], device float* out [[buffer(8)]],
                          device const float* q_norm [[buffer(12)]], device const float* k_norm [[buffer(15)]],
                          device uchar* keys [[buffer(28)]], device uchar* values [[buffer(29)]],
                          uint3 group [[threadgroup_position_in_grid]], uint index [[thread_index_in_threadgroup]],
                          uint lane [[thread_index_in_simdgroup]], uint simd [[simdgroup_index_in_threadgroup]],
                          uint simds [[simdgroups_per_threadgroup]]) {
  threadgroup float sums[kMaxSimds];
  const int row = int(group.y), head = int(group.x), half_dim = kHeadDim / 2, i = int(index);
  if (row >= rows_of(step, run)) return;
  const bool is_query = head < step.heads, is_value = head >= step.heads + step.kv_heads;
  const int from = is_value && step.values_are_keys ? head - step.kv_heads : head;
  device const float* x = in_row(in0, step.in[0], run, row) + from * kHeadDim;
  float a = i < half_dim ? x[i] : 0.0f, b = i < half_dim ? x[i + half_dim] : 0.0f;
  const float factor = inverse_rms(sum_of_group(fma(a, a, b * b), sums, lane, simd, simds), kHeadDim, step.epsilon);
  a *= factor;
  b *= factor;

  if (i < half_dim) {
    if (!is_value) {
      device const float* norm = is_query ? q_norm : k_norm;
      device const float* angles = in_row(in1, step.in[1], run, row);
      a *= norm[i];
      b *= norm[i + half_dim];
      const float cosine = angles[i], sine = angles[i + half_dim], turned = fma(a, cosine, -(b * sine));
      b = fma(b, cosine, a * sine);
      a = turned;
    }
    if (is_query) {
      device float* q = out_row(out, step.out[0], run, row) + head * kHeadDim;
      q[i] = a;
      q[i + half_dim] = b;
    } else {
      const Row at = row_of(step, run, rows, row);
      const ulong to = kv_offset(step, at.slot, head - step.heads - (is_value ? step.kv_heads : 0), at.position) + ulong(i);
      device uchar* kv = is_value ? values : keys;
      store_kv(kv, to, a);
      store_kv(kv, to + ulong(half_dim), b);
    }
  }
}
