// The steps that read and write the state of a round, and the one that begins a run. They are small: one threadgroup each.

// Row i of a round is the bonus token or draft i - 1, from the end of the K/V on; a draft goes on from the last of them, where
// the K/V end.
kernel void round_rows(
    constant Step& step [[buffer(0)]],
    device const Run& run [[buffer(1)]],
    device Row* rows [[buffer(2)]],
    device const RoundState* states [[buffer(3)]],
    uint index [[thread_index_in_threadgroup]]) {
  device const RoundState& state = states[run.slot];
  const int i = int(index);
  if (i > state.drafted) return;
  const bool draft = step.rows == kOneRow;
  if (draft && i != state.drafted) return;
  const int token = i == 0 ? state.bonus : state.drafts[i - 1];
  const int position = draft ? state.length - 1 : state.length + i;
  rows[draft ? 0 : i] = Row{run.slot, position, token, position};
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

kernel void accept(
    constant Step& step [[buffer(0)]],
    device const Run& run [[buffer(1)]],
    device const Row* rows [[buffer(2)]],
    device RoundState* states [[buffer(3)]],
    device const int* chosen [[buffer(4)]],     // [rows, 1]
    device const float* hidden [[buffer(5)]],   // [rows, n]
    device float* carry [[buffer(8)]],          // [sessions, n]
    device int* counts [[buffer(12)]],          // [sessions, vocab]
    device RoundResult* results [[buffer(13)]], // by place in the ring of runs
    uint3 threads [[threads_per_threadgroup]],
    uint index [[thread_index_in_threadgroup]]) {
  if (rows_of(step, run) == 0) return;
  device RoundState& state = states[run.slot];
  // All at once: one after the other would wait for memory as often.
  const int drafted = state.drafted;
  int accepted = 0;
  for (int i = 0; i < kMaxDrafts; ++i) {
    const int token = chosen[row_offset(step.in[0], run, min(i, drafted), 4)], draft = state.drafts[i];
    if (accepted == i && i < drafted && token == draft) accepted = i + 1;
  }
  threadgroup_barrier(mem_flags::mem_device);  // all have read the state

  device const float* from = in_row(hidden, step.in[1], run, accepted);
  device float* to = out_row(carry, step.out[0], run, 0);
  for (int i = int(index); i < step.n[0]; i += int(threads.x)) to[i] = from[i];

  // Each token is counted by the first row that chose it, as often as it was chosen.
  const int row = int(index);
  if (row > accepted) return;
  const int token = chosen[row_offset(step.in[0], run, row, 4)];
  if (run.has_choice && run.choice.has_counts) {
    int before = 0, times = 0;
    for (int i = 0; i <= accepted; ++i) {
      const int same = chosen[row_offset(step.in[0], run, i, 4)] == token ? 1 : 0;
      before += i < row ? same : 0;
      times += same;
    }
    if (before == 0) counts[ulong(run.slot) * ulong(step.vocab) + ulong(token)] += times;
  }
  results[run.place].tokens[row] = token;
  if (row != accepted) return;
  results[run.place].accepted = accepted;
  const int first = step.rows == kOutputRows ? run.first_output : 0;
  state.accepted = accepted;
  state.bonus = token;
  state.length = rows[first + accepted].position + 1;
  state.emitted += accepted + 1;
  state.drafted = 0;
}

// Brings what the host has written about a run to where recorded commands read it: as much of it as the run has. The rows of
// a round are made later.
kernel void begin_run(
    device const Run& run [[buffer(0)]],
    device const Row* rows [[buffer(1)]],            // [host_rows]
    device const uint* masks [[buffer(2)]],          // [output_count, mask_stride_words]
    device const LogitBias* biases [[buffer(3)]],    // [bias_count]
    device Run& run_now [[buffer(4)]],
    device Row* rows_now [[buffer(5)]],
    device uint* masks_now [[buffer(6)]],
    device LogitBias* biases_now [[buffer(7)]],
    uint3 threads [[threads_per_threadgroup]],
    uint index [[thread_index_in_threadgroup]]) {
  const int begin = int(index), step = int(threads.x);
  if (begin == 0) run_now = run;
  for (int i = begin; i < run.host_rows; i += step) rows_now[i] = rows[i];
  if (!run.has_choice) return;
  const int mask_words = run.choice.mask_words;
  const int words = mask_words == 0 ? 0 : run.choice.mask_stride_words * (run.output_count - 1) + mask_words;
#pragma unroll(4)
  for (int i = begin; i < words; i += step) masks_now[i] = masks[i];
  for (int i = begin; i < run.choice.bias_count; i += step) biases_now[i] = biases[i];
}
