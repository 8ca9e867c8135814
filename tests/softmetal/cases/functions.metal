// The functions of <metal_stdlib> that are easy to get wrong, for softmetal_test.cpp.
#include <metal_stdlib>
using namespace metal;

constant int kFirst [[function_constant(0)]];
constant bool kWithSecond [[function_constant(1)]];
constant float kThird [[function_constant(7)]];
constant int kTwice = kFirst * 2;

kernel void integers(device const uint* x [[buffer(0)]], device uint* y [[buffer(1)]], uint i [[thread_position_in_grid]]) {
  const uint a = x[i];
  device uint* out = y + i * 12;
  out[0] = popcount(a);
  out[1] = clz(a);
  out[2] = ctz(a);
  out[3] = extract_bits(a, 5u, 7u);
  out[4] = uint(extract_bits(int(a), 5u, 7u));
  out[5] = insert_bits(a, 0x2au, 9u, 6u);
  out[6] = reverse_bits(a);
  out[7] = mulhi(a, 0x9e3779b9u);
  out[8] = uint(mulhi(int(a), -1640531527));
  out[9] = rotate(a, 11u);
  out[10] = min(a, 1000u) + max(a, 1000u) + clamp(a, 10u, 20u);
  out[11] = uint(ushort(clz(ushort(a)))) << 16 | uint(popcount(uchar(a)));
}

kernel void floats(device const float* x [[buffer(0)]], device float* y [[buffer(1)]], uint i [[thread_position_in_grid]]) {
  const float a = x[i];
  device float* out = y + i * 12;
  out[0] = min(NAN, a);
  out[1] = max(NAN, a);
  out[2] = clamp(a, -1.0f, 1.0f);
  out[3] = select(a, 5.0f, a < 0.0f);
  out[4] = copysign(2.0f, a);
  out[5] = rint(a);
  out[6] = round(a);
  out[7] = precise::rsqrt(a * a + 1.0f);
  out[8] = as_type<float>(as_type<uint>(a) ^ 0x80000000u);
  out[9] = float(half(a));
  out[10] = float(bfloat(a));
  const float4 v = float4(a, float2(1.0f), 2.0f);
  out[11] = dot(v, float4(v.wzyx)) + float(half4(v).x) + fma(v, v, v).y;
}

kernel void lanes(device const uint* x [[buffer(0)]], device uint* y [[buffer(1)]], uint i [[thread_position_in_grid]],
                  uint lane [[thread_index_in_simdgroup]], uint simd [[simdgroup_index_in_threadgroup]]) {
  const uint a = x[i];
  device uint* out = y + i * 12;
  out[0] = simd_sum(a);
  out[1] = simd_max(a);
  out[2] = simd_min(a);
  out[3] = simd_prefix_exclusive_sum(a);
  out[4] = simd_prefix_inclusive_sum(a);
  out[5] = simd_shuffle_xor(a, 5);
  out[6] = simd_shuffle_down(a, 3);
  out[7] = simd_shuffle_up(a, 3);
  out[8] = simd_broadcast(a, 9);
  out[9] = simd_shuffle(a, ushort(31 - lane));
  out[10] = uint(ulong(simd_ballot((a & 1u) != 0u)));
  out[11] = uint(simd_any(a == 7u)) | uint(simd_all(a < 1000u)) << 1 | simd << 8;
}

kernel void counts(device const uint* x [[buffer(0)]], device atomic_uint* y [[buffer(1)]],
                   uint i [[thread_position_in_grid]], uint t [[thread_position_in_threadgroup]]) {
  threadgroup atomic_uint local[4];
  if (t < 4) atomic_store_explicit(&local[t], 0u, memory_order_relaxed);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  atomic_fetch_add_explicit(&local[x[i] & 3u], 1u, memory_order_relaxed);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  if (t < 4) atomic_fetch_add_explicit(&y[t], atomic_load_explicit(&local[t], memory_order_relaxed), memory_order_relaxed);
  atomic_fetch_max_explicit(&y[4], x[i], memory_order_relaxed);
}

// y = a transposed, times b: a in rows of 9, b and y of 8.
kernel void matrices(device const float* a [[buffer(0)]], device const half* b [[buffer(1)]],
                     device float* y [[buffer(2)]]) {
  simdgroup_float8x8 left, product;
  simdgroup_half8x8 right;
  simdgroup_load(left, a, 9, ulong2(0), true);
  simdgroup_load(right, b, 8);
  simdgroup_multiply_accumulate(product, left, right, make_filled_simdgroup_matrix<float, 8, 8>(1.0f));
  simdgroup_store(product, y, 8);
}

template <int N>
kernel void specialised(device const int* first [[buffer(0)]], device int* y [[buffer(1)]],
                        device const int* second [[buffer(2), function_constant(kWithSecond)]]) {
  y[0] = first[0] * kFirst + kTwice + N;
  if (kWithSecond) y[0] += second[0];
  if (is_function_constant_defined(kThird)) y[0] += int(kThird);
}
template [[host_name("specialised_by_100")]] kernel decltype(specialised<100>) specialised<100>;

struct alignas(16) Wide {
  int values[4];
};
[[max_total_threads_per_threadgroup(64)]] kernel void aligned_arguments(constant Wide& wide [[buffer(0)]],
                                                                        device int* y [[buffer(1)]]) {
  y[0] = wide.values[1];
}
