// The steps that read and write the state of a round, and the one that begins a run. They are small: one threadgroup each, or one
// for each session.

// Row i of a session's round is the bonus token or draft i - 1, from the end of the K/V on; a draft goes on from the last of them,
// where the K/V end. It is made for the first session that has fewer of the assistant's than it is to have.
kernel void round_rows(
    constant Step& step [[buffer(0)]],
    device Run& run [[buffer(1)]],
    device Row* rows [[buffer(2)]],
    device const RoundState* states [[buffer(3)]],
    uint index [[thread_index_in_threadgroup]]) {
  const bool draft = step.rows == kOneRow;
  const int row = int(index);
  if (row >= (draft ? 1 : run.row_count)) return;
  int seat = 0;
  if (draft)
    while (seat + 1 < run.seat_count &&
           (run.seats[seat].block.count > 0 || states[run.seats[seat].slot].drafted >= run.seats[seat].drafts)) ++seat;
  else
    seat = seat_of(run, row);
  const int slot = run.seats[seat].slot;
  device const RoundState& state = states[slot];
  const int i = draft ? state.drafted : row - run.seats[seat].first;
  const int token = i == 0 ? state.bonus : state.drafts[i - 1];
  const int position = draft ? state.length - 1 : state.length + i;
  rows[row] = Row{slot, position, token, position, -1, 0};
  if (!draft) return;
  run.slot = slot;
  run.seat = seat;
}

kernel void keep_draft(
    constant Step& step [[buffer(0)]],
    device const Run& run [[buffer(1)]],
    device RoundState* states [[buffer(3)]],
    device const int* chosen [[buffer(4)]],     // [1]
    uint index [[thread_index_in_threadgroup]]) {
  if (index != 0) return;
  device RoundState& state = states[run.slot];
  state.drafts[state.drafted] = chosen[row_offset(step.in[0], run, 0, 4)];
  state.drafted += 1;
}

// One session for each threadgroup.
kernel void accept(
    constant Step& step [[buffer(0)]],
    device const Run& run [[buffer(1)]],
    device const Row* rows [[buffer(2)]],
    device RoundState* states [[buffer(3)]],
    device const int* chosen [[buffer(4)]],     // [rows, 1]
    device const float* hidden [[buffer(5)]],   // [rows, n]
    device const float* features [[buffer(6)]], // [rows, taps * n], where the DFlash drafter is
    device float* carry [[buffer(8)]],          // [sessions, n]
    device float* pending [[buffer(9)]],        // [sessions, kPendingRows, taps * n], likewise
    device int* counts [[buffer(12)]],          // [sessions, vocab]
    device RoundResult* results [[buffer(13)]], // [places in the ring of runs, seats]
    uint3 group [[threadgroup_position_in_grid]],
    uint3 threads [[threads_per_threadgroup]],
    uint index [[thread_index_in_threadgroup]]) {
  if (rows_of(step, run) == 0 || int(group.y) >= run.seat_count) return;
  device const RunSeat& seat = run.seats[group.y];
  device RoundState& state = states[seat.slot];
  // All at once: one after the other would wait for memory as often.
  const int drafted = state.drafted;
  int accepted = 0;
  for (int i = 0; i < kMaxDrafts; ++i) {
    const int token = chosen[row_offset(step.in[0], run, seat.first + min(i, drafted), 4)], draft = state.drafts[i];
    if (accepted == i && i < drafted && token == draft) accepted = i + 1;
  }
  threadgroup_barrier(mem_flags::mem_device);  // all have read the state

  device const float* from = in_row(hidden, step.in[1], run, seat.first + accepted);
  device float* to = carry + step.out[0].slot_bytes * ulong(seat.slot) / 4;
  for (int i = int(index); i < step.n[0]; i += int(threads.x)) to[i] = from[i];

  const int first = step.rows == kOutputRows ? run.first_output : 0;
  for (int r = 0; r <= accepted && step.in[2].row_bytes > 0; ++r) {
    device const float* kept = in_row(features, step.in[2], run, seat.first + r);
    device float* place = pending + pending_offset(step.out[1], rows[first + seat.first + r]);
    for (int i = int(index); i < int(step.out[1].row_bytes / 4); i += int(threads.x)) place[i] = kept[i];
  }

  // Each token is counted by the first row that chose it, as often as it was chosen.
  const int row = int(index);
  if (row > accepted) return;
  const int token = chosen[row_offset(step.in[0], run, seat.first + row, 4)];
  if (seat.samples && seat.sampling.has_counts) {
    int before = 0, times = 0;
    for (int i = 0; i <= accepted; ++i) {
      const int same = chosen[row_offset(step.in[0], run, seat.first + i, 4)] == token ? 1 : 0;
      before += i < row ? same : 0;
      times += same;
    }
    if (before == 0) counts[ulong(seat.slot) * ulong(step.vocab) + ulong(token)] += times;
  }
  device RoundResult& result = results[run.place * kSeatsMax + int(group.y)];
  result.tokens[row] = token;
  if (row != accepted) return;
  result.accepted = accepted;
  state.accepted = accepted;
  state.bonus = token;
  state.length = rows[first + seat.first + accepted].position + 1;
  state.emitted += accepted + 1;
  state.drafted = 0;
}

// Brings what the host has written about a run to where recorded commands read it: as much of it as the run has. The rows of
// a round are made later.
kernel void begin_run(
    device const Run& run [[buffer(0)]],
    device const Row* rows [[buffer(1)]],            // [host_rows]
    device const uint* masks [[buffer(2)]],          // [output_count, mask_words]; of a seat that has one for all rows, in its first
    device const LogitBias* biases [[buffer(3)]],    // [seats, kBiasesMax]
    device Run& run_now [[buffer(4)]],
    device Row* rows_now [[buffer(5)]],
    device uint* masks_now [[buffer(6)]],
    device LogitBias* biases_now [[buffer(7)]],
    uint3 threads [[threads_per_threadgroup]],
    uint index [[thread_index_in_threadgroup]]) {
  const int begin = int(index), step = int(threads.x);
  for (int i = begin; i < int(sizeof(Run) / 4); i += step) ((device uint*)&run_now)[i] = ((device const uint*)&run)[i];
  for (int i = begin; i < run.host_rows; i += step) rows_now[i] = rows[i];
  for (int s = 0; s < run.seat_count; ++s) {
    device const RunSeat& seat = run.seats[s];
    if (!seat.samples) continue;
    const int words = seat.sampling.mask_words, stride = seat.sampling.mask_stride_words;
    const int first = seat.first * words, end = words == 0 ? 0 : first + stride * (seat.count - 1) + words;
#pragma unroll(4)
    for (int i = first + begin; i < end; i += step) masks_now[i] = masks[i];
    const int first_bias = s * kBiasesMax, end_bias = first_bias + seat.sampling.bias_count;
    for (int i = first_bias + begin; i < end_bias; i += step) biases_now[i] = biases[i];
  }
}
