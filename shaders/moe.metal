// Mixtures of experts: which experts a row takes, and what becomes of their results.

// A place in the order of a row's scores: higher scores first, then lower ids. What is not a number counts as the lowest.
struct Ranked {
  float score;
  int id;
};

constexpr constant int kNoId = 0x7fffffff;

inline Ranked ranked(device const float* scores, int id) {
  const float score = scores[id];
  return Ranked{isnan(score) ? -INFINITY : score, id};
}

inline bool before(Ranked a, Ranked b) { return a.score > b.score || (a.score == b.score && a.id < b.id); }

// The first of the lanes' ones.
inline Ranked first_of_lanes(Ranked mine) {
  const float score = simd_max(mine.score);
  return Ranked{score, simd_min(mine.score == score ? mine.id : kNoId)};
}

// Picking one after the other, by one simdgroup. Lane l has the first of the scores l, l + 32, ... that are left ...
inline Ranked first_of_lane(device const float* scores, int count, uint lane) {
  Ranked first = {-INFINITY, kNoId};
  for (int i = int(lane); i < count; i += 32) {
    const Ranked one = ranked(scores, i);
    if (before(one, first)) first = one;
  }
  return first;
}

// ... and when it is picked, all lanes together look for the one that follows it there.
inline Ranked pick(thread Ranked& mine, device const float* scores, int count, uint lane) {
  const Ranked picked = first_of_lanes(mine);
  const int owner = picked.id % 32;
  Ranked next = {-INFINITY, kNoId};
  for (int i = owner + 32 * int(lane); i < count; i += 32 * 32) {
    const Ranked one = ranked(scores, i);
    if (before(picked, one) && before(one, next)) next = one;
  }
  next = first_of_lanes(next);
  if (int(lane) == owner) mine = next;
  return picked;
}

// One simdgroup per row.
kernel void top(constant Step& step [[buffer(0)]], device const Run& run [[buffer(1)]],
                device const float* in [[buffer(4)]], device int* out [[buffer(8)]],
                uint3 group [[threadgroup_position_in_grid]], uint lane [[thread_index_in_simdgroup]]) {
  const int row = int(group.y);
  if (row >= rows_of(step, run)) return;
  device const float* scores = in_row(in, step.in[0], run, row);
  device int* ids = out + row_offset(step.out[0], run, row, 4);
  Ranked mine = first_of_lane(scores, step.experts, lane);
  for (int slot = 0; slot < step.experts_used; ++slot) {
    const Ranked picked = pick(mine, scores, step.experts, lane);
    if (lane == 0) ids[slot] = picked.id;
  }
}

// By one simdgroup, at most 32 experts used: lane l has the expert of slot l.
inline void route_row(constant Step& step, device const Run& run, device const float* in, device int* out0,
                      device float* out1, device const float* expert_scale, int row, uint lane) {
  if (row >= rows_of(step, run)) return;
  device const float* scores = in_row(in, step.in[0], run, row);
  Ranked mine = first_of_lane(scores, step.experts, lane);
  int id = 0;
  for (int slot = 0; slot < step.experts_used; ++slot) {
    const Ranked picked = pick(mine, scores, step.experts, lane);
    if (int(lane) == slot) id = picked.id;
  }
  const bool used = int(lane) < step.experts_used;
  const float score = scores[id], largest = simd_broadcast_first(score);
  const float weight = used ? precise::exp(score - largest) : 0.0f;
  const float sum = simd_sum(weight);
  if (used) {
    out0[row_offset(step.out[0], run, row, 4) + lane] = id;
    out1[row_offset(step.out[1], run, row, 4) + lane] = weight / sum * expert_scale[id];
  }
}

// One simdgroup per row.
kernel void route(constant Step& step [[buffer(0)]], device const Run& run [[buffer(1)]],
                  device const float* in [[buffer(4)]], device int* out0 [[buffer(8)]], device float* out1 [[buffer(9)]],
                  device const float* expert_scale [[buffer(12)]],
                  uint3 group [[threadgroup_position_in_grid]], uint lane [[thread_index_in_simdgroup]]) {
  route_row(step, run, in, out0, out1, expert_scale, int(group.y), lane);
}

// A product of a round and, behind its tiles, a choice of experts that it does not wait for: one simdgroup per row.
kernel void linear_route(constant Step& step [[buffer(0)]], device const Run& run [[buffer(1)]],
                         device const float* in [[buffer(4)]], device float* out [[buffer(8)]],
                         device const uchar* values [[buffer(12)]], device const uchar* scales [[buffer(13)]],
                         device const uchar* biases [[buffer(14)]], constant Step& choice [[buffer(21)]],
                         device const float* scores [[buffer(22)]], device int* ids [[buffer(23)]],
                         device float* shares [[buffer(24)]], device const float* expert_scale [[buffer(25)]],
                         uint3 group [[threadgroup_position_in_grid]], uint simd [[simdgroup_index_in_threadgroup]],
                         uint lane [[thread_index_in_simdgroup]]) {
  const int tiles = (step.n[0] + kGroupOutputs - 1) / kGroupOutputs, tile = int(group.x);
  if (tile >= tiles) {
    route_row(choice, run, scores, ids, shares, expert_scale, (tile - tiles) * (kGroupThreads / 32) + int(simd), lane);
    return;
  }
  device const float* x = in_row(in, step.in[0], run, 0);
  int x_at[kRowsMax];
  place_rows(step, run, x_at);
  const int first = tile * kGroupOutputs + int(simd) * kSimdOutputs;
  const Weights w = weights_of(values, scales, biases, step.matrix[0], kCoding0, kGroup0, kScaleType0);
  const float y = products_from<false>(w, first, step.n[0], x, x_at, lane);
  const LanePlace place = place_of(step, run, first, step.n[0], lane);
  if (place.exists) out_row(out, step.out[0], run, place.row)[place.output] = y;
}

// A threadgroup per row, as the norms. kOutputs counts h too.
kernel void moe_combine(constant Step& step [[buffer(0)]], device const Run& run [[buffer(1)]],
                        device const float* in1 [[buffer(5)]], device const float* in2 [[buffer(6)]],
                        device const float* in3 [[buffer(7)]], device float* out0 [[buffer(8)]],
                        device float* out1 [[buffer(9)]], device const float* dense_norm [[buffer(12)]],
                        device const float* expert_norm [[buffer(15)]], device const float* sum_norm [[buffer(18)]],
                        device const float* scalar [[buffer(21)]], device const float* next_norm [[buffer(24)]],
                        uint3 group [[threadgroup_position_in_grid]], uint index [[thread_index_in_threadgroup]],
                        uint lane [[thread_index_in_simdgroup]], uint simd [[simdgroup_index_in_threadgroup]],
                        uint simds [[simdgroups_per_threadgroup]]) {
  threadgroup float sums[4][kMaxSimds];
  const int row = int(group.y);
  if (row >= rows_of(step, run)) return;
  device float* stream = out_row(out0, step.out[0], run, row);
  device const float* experts = in_row(in2, step.in[2], run, row);
  device const float* weights = in_row(in3, step.in[3], run, row);
  float dense[kMaxHeld], mixed[kMaxHeld], h[kMaxHeld];
  hold(dense, in_row(in1, step.in[1], run, row), index);
  hold(h, stream, index);
#pragma unroll
  for (int j = 0; has_element(j); ++j) {
    mixed[j] = 0.0f;
    const int i = j * kNormThreads + int(index);
    if (i < kNormWidth)
      for (int slot = 0; slot < step.experts_used; ++slot)
        mixed[j] = fma(weights[slot], experts[slot * kNormWidth + i], mixed[j]);
  }

  const float dense_sum = sum_of_group(squares(dense), sums[0], lane, simd, simds);
  const float mixed_sum = sum_of_group(squares(mixed), sums[1], lane, simd, simds);
  const float dense_factor = inverse_rms(dense_sum, kNormWidth, step.epsilon);
  const float mixed_factor = inverse_rms(mixed_sum, kNormWidth, step.epsilon);
#pragma unroll
  for (int j = 0; has_element(j); ++j) {
    const int i = j * kNormThreads + int(index);
    if (i < kNormWidth)
      mixed[j] = fma(dense[j] * dense_factor, dense_norm[i], mixed[j] * mixed_factor * expert_norm[i]);
  }

  const float sum_factor = inverse_rms(sum_of_group(squares(mixed), sums[2], lane, simd, simds), kNormWidth, step.epsilon);
#pragma unroll
  for (int j = 0; has_element(j); ++j) {
    const int i = j * kNormThreads + int(index);
    if (i < kNormWidth) h[j] = fma(mixed[j] * sum_factor, sum_norm[i], h[j]) * scalar[0];
  }
  store_held(stream, h, index);
  if (kOutputs == 1) return;

  const float factor = inverse_rms(sum_of_group(squares(h), sums[3], lane, simd, simds), kNormWidth, step.epsilon);
  store_normed(out_row(out1, step.out[1], run, row), h, factor, next_norm, 1.0f, index);
}
