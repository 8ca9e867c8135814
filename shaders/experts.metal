// Products with the experts that rows have picked, the same for rounds and prompts. A threadgroup takes a block of kRows
// rows, a tile of outputs and one of the picks of the block. The first of a block to pick an expert computes it for all
// rows of the block that did: its weights are read once.

// slots[r]: with which of its picks row first_row + r of the block wants this expert, or -1. A row picks an expert once at most,
// so the lanes find four rows at a time.
inline void slots_of(int expert, constant Step& step, device const Run& run, device const int* ids, int first_row,
                     thread int* slots, uint lane) {
  const int used = step.experts_used, rows = rows_of(step, run);
  for (int r = 0; r < kRowsMax; r += 4) {
    uint found = 0;  // a byte for each row: the pick and 1, or 0
    for (int i = 0; i < 4; ++i) {
      if (r + i >= kRows || first_row + r + i >= rows) continue;
      device const int* picks = ids + row_offset(step.in[1], run, first_row + r + i, 4);
      if (picks[min(int(lane), used - 1)] == expert && int(lane) < used) found |= (lane + 1u) << uint(8 * i);
    }
    if (r < kRows) found = simd_or(found);
    for (int i = 0; i < 4; ++i) slots[r + i] = int(found >> uint(8 * i) & 0xffu) - 1;
  }
}

// One pick of a block, and what its threadgroup has to do with it.
struct Pick {
  int expert;
  bool is_first;  // of the block to pick this expert
};

inline Pick pick_of(constant Step& step, device const Run& run, device const int* ids, int first_row, int number,
                    thread int* slots, uint lane) {
  const int row = number / step.experts_used, slot = number % step.experts_used;
  Pick pick;
  pick.expert = 0;
  pick.is_first = first_row + row < rows_of(step, run);
  if (!pick.is_first) return pick;
  pick.expert = ids[row_offset(step.in[1], run, first_row + row, 4) + ulong(slot)];
  slots_of(pick.expert, step, run, ids, first_row, slots, lane);
  for (int r = 0; r < kRowsMax; ++r)
    if (r < row && slots[r] >= 0) pick.is_first = false;
  return pick;
}

// The slot of the row whose result a lane has.
inline int slot_of_lane(thread const int* slots, uint lane) {
  int slot = -1;
  for (int r = 0; r < kRowsMax; ++r)
    if (int(lane) / kSimdOutputs == r) slot = slots[r];
  return slot;
}

kernel void expert_gelu_mul(constant Step& step [[buffer(0)]],
                            device const Run& run [[buffer(1)]],
                            device const float* in [[buffer(4)]],
                            device const int* ids [[buffer(5)]],
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
  const int first_row = int(group.y) * kRows, n = step.n[0];
  const int first = int(group.x) * kGroupOutputs + int(simd) * kSimdOutputs;
  int slots[kRowsMax];
  const Pick pick = pick_of(step, run, ids, first_row, int(group.z), slots, lane);
  if (!pick.is_first) return;
  device const float* x = in_row(in, step.in[0], run, first_row);
  int x_at[kRowsMax];
  for (int r = 0; r < kRowsMax; ++r) x_at[r] = slots[r] < 0 ? -1 : r * int(step.in[0].row_bytes / 4);
  const Weights gates = weights_of(values0, scales0, biases0, step.matrix[0], kCoding0, kGroup0, kScaleType0);
  const Weights ups = weights_of(values1, scales1, biases1, step.matrix[1], kCoding1, kGroup1, kScaleType1);
  const float gate = products_from<true>(at_expert(gates, step.matrix[0], pick.expert), first, n, x, x_at, lane);
  const float up = products_from<true>(at_expert(ups, step.matrix[1], pick.expert), first, n, x, x_at, lane);
  const int slot = slot_of_lane(slots, lane);
  const int row = first_row + int(lane) / kSimdOutputs, output = first + int(lane) % kSimdOutputs;
  if (slot >= 0 && output < n) out_row(out, step.out[0], run, row)[slot * n + output] = gelu(gate) * up;
}

kernel void expert_linear(constant Step& step [[buffer(0)]],
                          device const Run& run [[buffer(1)]],
                          device const float* in [[buffer(4)]],
                          device const int* ids [[buffer(5)]],
                          device float* out [[buffer(8)]],
                          device const uchar* values [[buffer(12)]],
                          device const uchar* scales [[buffer(13)]],
                          device const uchar* biases [[buffer(14)]],
                          uint3 group [[threadgroup_position_in_grid]],
                          uint simd [[simdgroup_index_in_threadgroup]],
                          uint lane [[thread_index_in_simdgroup]]) {
  const int first_row = int(group.y) * kRows, n = step.n[0];
  const int first = int(group.x) * kGroupOutputs + int(simd) * kSimdOutputs;
  int slots[kRowsMax];
  const Pick pick = pick_of(step, run, ids, first_row, int(group.z), slots, lane);
  if (!pick.is_first) return;
  device const float* x = in_row(in, step.in[0], run, first_row);
  int x_at[kRowsMax];
  for (int r = 0; r < kRowsMax; ++r)
    x_at[r] = slots[r] < 0 ? -1 : r * int(step.in[0].row_bytes / 4) + slots[r] * int(kInputs);
  const Weights w = weights_of(values, scales, biases, step.matrix[0], kCoding0, kGroup0, kScaleType0);
  const float y = products_from<true>(at_expert(w, step.matrix[0], pick.expert), first, n, x, x_at, lane);
  const int slot = slot_of_lane(slots, lane);
  const int row = first_row + int(lane) / kSimdOutputs, output = first + int(lane) % kSimdOutputs;
  if (slot >= 0 && output < n) out_row(out, step.out[0], run, row)[slot * n + output] = y;
}
