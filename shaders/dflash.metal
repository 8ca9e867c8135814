// What the DFlash drafter has beside its layers: the rows of its blocks and of what waits for its context, and the features that those
// come with.

// Elements from the base of a ring of features to the place of a row.
inline ulong pending_offset(constant Operand& ring, Row row) {
  return (ring.slot_bytes * ulong(row.slot) + ulong(row.position % kPendingRows) * ring.row_bytes) / 4;
}

// The output of a layer to its place among the features. A threadgroup per row.
kernel void keep_tap(
    constant Step& step [[buffer(0)]],
    device const Run& run [[buffer(1)]],
    device const float* in [[buffer(4)]],
    device float* out [[buffer(8)]],
    uint3 group [[threadgroup_position_in_grid]],
    uint3 threads [[threads_per_threadgroup]],
    uint index [[thread_index_in_threadgroup]]) {
  const int row = int(group.y);
  if (row >= rows_of(step, run)) return;
  device const float* from = in_row(in, step.in[0], run, row);
  device float* to = out_row(out, step.out[0], run, row) + step.offset;
  for (int i = int(index); i < step.n[0]; i += int(threads.x)) to[i] = from[i];
}

// The rows of the first session that has some waiting. One threadgroup.
kernel void pending_rows(
    device Run& run [[buffer(1)]],
    device Row* rows [[buffer(2)]],
    uint3 threads [[threads_per_threadgroup]],
    uint index [[thread_index_in_threadgroup]]) {
  int number = 0;
  while (number + 1 < run.seat_count && run.seats[number].block.pending_begin == run.seats[number].block.pending_end) ++number;
  device RunSeat& seat = run.seats[number];
  const int begin = seat.block.pending_begin, count = seat.block.pending_end - begin;
  for (int row = int(index); row < count; row += int(threads.x))
    rows[row] = Row{seat.slot, begin + row, 0, begin + row, -1, 0};
  threadgroup_barrier(mem_flags::mem_device);  // all have read the run
  if (index != 0) return;
  run.waiting_rows = count;
  seat.block.pending_begin = seat.block.pending_end;
}

// Their features, in the order of the row table. A threadgroup per row.
kernel void fetch_pending(
    constant Step& step [[buffer(0)]],
    device const Run& run [[buffer(1)]],
    device const Row* rows [[buffer(2)]],
    device const float* ring [[buffer(4)]],     // [sessions, kPendingRows, n]
    device float* features [[buffer(8)]],       // [rows, n]
    uint3 group [[threadgroup_position_in_grid]],
    uint3 threads [[threads_per_threadgroup]],
    uint index [[thread_index_in_threadgroup]]) {
  const int row = int(group.y);
  if (row >= rows_of(step, run)) return;
  device const float* from = ring + pending_offset(step.in[0], rows[row]);
  device float* to = out_row(features, step.out[0], run, row);
  for (int i = int(index); i < int(step.in[0].row_bytes / 4); i += int(threads.x)) to[i] = from[i];
}

// Row i of a session's block is the bonus token or a mask, from the end of the K/V on. It sees all of its block by the first table, only
// what is before it by the second. A thread per row.
kernel void block_rows(
    constant Step& step [[buffer(0)]],
    device const Run& run [[buffer(1)]],
    device Row* rows [[buffer(2)]],             // [2, kRowsMax]
    device const RoundState* states [[buffer(3)]],
    uint index [[thread_index_in_threadgroup]]) {
  const int row = int(index);
  if (row >= run.block_rows) return;
  device const RunSeat& seat = run.seats[block_seat_of(run, row)];
  device const RoundState& state = states[seat.slot];
  const int i = row - seat.block.first, position = state.length + i, token = i == 0 ? state.bonus : step.mask_token;
  const int last = state.length + seat.block.count - 1;
  rows[row] = Row{seat.slot, position, token, last, -1, seat.block.context_begin};
  rows[kRowsMax + row] = Row{seat.slot, position, token, position, -1, seat.block.context_begin};
}

// A thread per row.
kernel void keep_block(
    constant Step& step [[buffer(0)]],
    device const Run& run [[buffer(1)]],
    device RoundState* states [[buffer(3)]],
    device const int* chosen [[buffer(4)]],     // [rows, 1]
    uint index [[thread_index_in_threadgroup]]) {
  const int row = int(index);
  if (row >= run.block_rows) return;
  device const RunSeat& seat = run.seats[block_seat_of(run, row)];
  device RoundState& state = states[seat.slot];
  const int i = row - seat.block.first;
  if (i == 0) state.drafted = seat.block.count - 1;
  else state.drafts[i - 1] = chosen[row_offset(step.in[0], run, row, 4)];
}
