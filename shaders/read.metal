// How fast the device reads memory: what decoding is measured against.

// A threadgroup has step.k pieces of 16 bytes of each of kReadStreams streams. A simdgroup leaves the sum of the words it
// has read, so that the reads are not left out.
kernel void read_streams(constant Step& step [[buffer(0)]], device const uint4* in [[buffer(4)]],
                         device uint* out [[buffer(8)]], uint3 group [[threadgroup_position_in_grid]],
                         uint3 groups [[threadgroups_per_grid]],
                         uint index [[thread_index_in_threadgroup]], uint3 size [[threads_per_threadgroup]],
                         uint lane [[thread_index_in_simdgroup]], uint simd [[simdgroup_index_in_threadgroup]],
                         uint simds [[simdgroups_per_threadgroup]]) {
  const ulong pieces = ulong(step.k), stream = pieces * groups.x;
  device const uint4* mine = in + pieces * group.x;
  uint4 sums[kReadStreams];
#pragma unroll
  for (int s = 0; s < kReadStreams; ++s) sums[s] = uint4(0u);
  for (ulong i = index; i < pieces; i += size.x) {
#pragma unroll
    for (int s = 0; s < kReadStreams; ++s) sums[s] += mine[stream * ulong(s) + i];
  }
  uint4 all = uint4(0u);
#pragma unroll
  for (int s = 0; s < kReadStreams; ++s) all += sums[s];
  const uint sum = simd_sum(all.x + all.y + all.z + all.w);
  if (lane == 0) out[group.x * simds + simd] = sum;
}
