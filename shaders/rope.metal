// Rotary positions, and what becomes of the projections of a row: queries, keys and values of its heads.

constant int kHeadDim [[function_constant(42)]];
constant int kKvCode [[function_constant(43)]];    // KvCodes
constant int kKvTurned [[function_constant(45)]];  // components of a stored key where the others are made from values; else 0

inline bool kv_is_coded() { return kKvCode >= kKvQ8; }
inline int kv_key_code() { return kv_is_coded() ? int(kKvQ8) : kKvCode; }
inline int kv_key_size() { return kKvTurned > 0 ? kKvTurned : kHeadDim; }

// Of so many components, without their scale.
inline int kv_code_bytes(int code, int size) {
  return code == kKvF32 ? 4 * size : code == kKvBf16 ? 2 * size : code == kKvQ8 ? size : size / 2;
}

// The tile of K or V that a position lies in: bytes from the base of the layer. Codes of 64 positions, then their scales.
inline ulong kv_tile(constant Step& step, int slot, int kv_head, int position, int code, int size) {
  const ulong ring = ulong(kv_head) * ulong(step.kv_capacity) + ulong(position % step.kv_capacity / kKvTile * kKvTile);
  return ulong(slot) * step.kv_slot_bytes + ring * ulong(kv_code_bytes(code, size) + (code >= kKvQ8 ? 4 : 0));
}
inline device const float* kv_scales(device const uchar* tile, int code, int size) {
  return (device const float*)(tile + kKvTile * kv_code_bytes(code, size));
}

// What a nibble of q4 stands for: magnitudes 6, 18, 31, 44, 58, 75, 96, 127, those below zero first, the largest first of these.
inline float q4_code(int nibble) {
  const int number = nibble < 8 ? 7 - nibble : nibble - 8;
  const float magnitude = float(((number < 4 ? 0x2c1f1206u : 0x7f604b3au) >> uint(8 * (number & 3))) & 255u);
  return nibble < 8 ? -magnitude : magnitude;
}

// The signs of the rotation of codes, as numeric/kv_codes.hpp has them.
inline float code_sign(int i) { return popcount(uint(i & (i >> 1))) & 1u ? -1.0f : 1.0f; }

// y = H y: butterflies of distance n/2, n/4, ..., 1, by all threads of the threadgroup, which wait for each other at its end.
inline void hadamard(threadgroup float* y, int n, int index, int threads) {
  for (int h = n / 2; h >= 1; h /= 2) {
    for (int i = index; i < n / 2; i += threads) {
      const int at = i / h * 2 * h + i % h;
      const float a = y[at], b = y[at + h];
      y[at] = a + b;
      y[at + h] = a - b;
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
  }
}

// t[0] = the sum of t by halves, t[i] += t[i + h]; all threads, likewise.
inline float sum_by_halves(threadgroup float* t, int n, int index) {
  for (int h = n / 2; h >= 1; h /= 2) {
    if (index < h) t[index] = t[index] + t[index + h];
    threadgroup_barrier(mem_flags::mem_threadgroup);
  }
  const float sum = t[0];
  threadgroup_barrier(mem_flags::mem_threadgroup);
  return sum;
}

// Codes of rotated numbers, and their scale: numeric/kv_codes.hpp to the bit. Thread i has components i and i + n/2.
// y, t: [n], t is used up; codes: of the position; scale: its place
inline void encode(threadgroup const float* y, threadgroup float* t, int n, int code, device uchar* codes, device float* scale, int i) {
  const int pairs = n / 2;
  const bool mine = i < pairs;
  // Bits of magnitudes sort as the numbers do, and what is no number above them.
  threadgroup uint* bits = (threadgroup uint*)t;
  const float a = mine ? y[i] : 0.0f, b = mine ? y[i + pairs] : 0.0f;
  if (mine) bits[i] = max(as_type<uint>(a) & 0x7fffffffu, as_type<uint>(b) & 0x7fffffffu);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  for (int h = pairs / 2; h >= 1; h /= 2) {
    if (i < h) bits[i] = max(bits[i], bits[i + h]);
    threadgroup_barrier(mem_flags::mem_threadgroup);
  }
  const uint most_bits = bits[0];
  const float most = as_type<float>(most_bits);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  const bool nothing = most_bits < 0x2b800000u, too_much = most_bits > 0x58800000u;  // 2^-40, 2^50
  if (nothing || too_much) {
    if (mine && code == kKvQ8) codes[i] = codes[i + pairs] = 0;
    if (mine && code == kKvQ4) codes[i] = 0x88;
    if (i == 0) *scale = nothing ? 0.0f : as_type<float>(0x7fc00000u);
    return;
  }
  if (code == kKvQ8) {
    const float factor = 127.0f / most;
    if (mine) {
      ((device char*)codes)[i] = char(int(rint(a * factor)));
      ((device char*)codes)[i + pairs] = char(int(rint(b * factor)));
    }
    if (i == 0) *scale = most / 127.0f;
    return;
  }
  const float a_square = a * a, b_square = b * b;
  if (mine) {
    t[i] = a_square;
    t[i + pairs] = b_square;
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  const float sum = sum_by_halves(t, n, i), mean = sum * (1.0f / float(n));
  const uint edges[7] = {0x3d888862u, 0x3e8e47e7u, 0x3f26aa7cu, 0x3f9a21f7u, 0x40030771u, 0x4058995du, 0x40b82e42u};
  int a_above = 0, b_above = 0;
#pragma unroll
  for (int j = 0; j < 7; ++j) {
    const float edge = as_type<float>(edges[j]) * mean;
    a_above += a_square > edge ? 1 : 0;
    b_above += b_square > edge ? 1 : 0;
  }
  const int low = a < 0.0f ? 7 - a_above : 8 + a_above, high = b < 0.0f ? 7 - b_above : 8 + b_above;
  if (mine) {
    codes[i] = uchar(low | (high << 4));
    t[i] = a * q4_code(low);
    t[i + pairs] = b * q4_code(high);
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  const float weighed = sum_by_halves(t, n, i);
  if (i == 0) *scale = sum / weighed;
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

inline void store_kv(device uchar* tile, int at, float x) {
  if (kKvCode == kKvBf16) ((device bfloat*)tile)[at] = bfloat(x);
  else ((device float*)tile)[at] = x;
}

// Elements i and i + half_dim of a head, by its norm, turned.
inline float2 norm_turned(float2 pair, device const float* norm, device const float* angles, int i, int half_dim) {
  const float a = pair.x * norm[i], b = pair.y * norm[i + half_dim], cosine = angles[i], sine = angles[i + half_dim];
  return float2(fma(a, cosine, -(b * sine)), fma(b, cosine, a * sine));
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
  threadgroup float coded[kKvCodedMax];
  threadgroup float terms[kKvCodedMax];
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
      const float2 turned = norm_turned(float2(a, b), is_query ? q_norm : k_norm, in_row(in1, step.in[1], run, row), i, half_dim);
      a = turned.x;
      b = turned.y;
    }
    if (is_query) {
      device float* q = out_row(out, step.out[0], run, row) + head * kHeadDim;
      q[i] = a;
      q[i + half_dim] = b;
    }
  }
  if (is_query) return;
  const Row at = row_of(step, run, rows, row);
  const int kv_head = head - step.heads - (is_value ? step.kv_heads : 0), place = at.position % kKvTile;
  const int code = is_value ? kKvCode : kv_key_code(), size = is_value ? kHeadDim : kv_key_size();
  device uchar* tile = (is_value ? values : keys) + kv_tile(step, at.slot, kv_head, at.position, code, size);
  if (!kv_is_coded()) {
    if (i < half_dim) {
      store_kv(tile, place * kHeadDim + i, a);
      store_kv(tile, place * kHeadDim + i + half_dim, b);
    }
    return;
  }
  // With one store only the pairs that turn are kept of a key.
  const int pairs = size / 2;
  if (i < pairs) {
    coded[i] = a * code_sign(i);
    coded[i + pairs] = b * code_sign(i + pairs);
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  hadamard(coded, size, i, pairs);
  device float* scales = (device float*)(tile + kKvTile * kv_code_bytes(code, size));
  encode(coded, terms, size, code, tile + place * kv_code_bytes(code, size), scales + place, i);
}

// Likewise of the DFlash drafter: queries have its scale, values stay as they are, and nothing is stored as codes.
kernel void block_qkv(constant Step& step [[buffer(0)]], device const Run& run [[buffer(1)]],
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
  device const float* x = in_row(in0, step.in[0], run, row) + head * kHeadDim;
  float2 pair = i < half_dim ? float2(x[i], x[i + half_dim]) : float2(0.0f);
  if (!is_value) {
    const float square = sum_of_group(fma(pair.x, pair.x, pair.y * pair.y), sums, lane, simd, simds);
    pair *= inverse_rms(square, kHeadDim, step.epsilon) * (is_query ? step.scale : 1.0f);
  }
  if (i >= half_dim) return;
  if (!is_value) pair = norm_turned(pair, is_query ? q_norm : k_norm, in_row(in1, step.in[1], run, row), i, half_dim);
  if (is_query) {
    device float* q = out_row(out, step.out[0], run, row) + head * kHeadDim;
    q[i] = pair.x;
    q[i + half_dim] = pair.y;
    return;
  }
  const Row at = row_of(step, run, rows, row);
  const int kv_head = head - step.heads - (is_value ? step.kv_heads : 0), first = at.position % kKvTile * kHeadDim;
  device uchar* tile = (is_value ? values : keys) + kv_tile(step, at.slot, kv_head, at.position, kKvCode, kHeadDim);
  store_kv(tile, first + i, pair.x);
  store_kv(tile, first + i + half_dim, pair.y);
}
