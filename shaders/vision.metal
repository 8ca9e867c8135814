// Towers that see. Row r is the patch in column r % columns and row r / columns of the picture.

constant int kPositions [[function_constant(46)]];  // of an axis, that a table has

kernel void scale_shift(constant Step& step [[buffer(0)]], device const Run& run [[buffer(1)]],
                        device const float* in [[buffer(4)]], device float* out [[buffer(8)]],
                        uint3 place [[thread_position_in_grid]]) {
  const int row = int(place.y), i = int(place.x);
  if (row >= rows_of(step, run) || i >= step.n[0]) return;
  out_row(out, step.out[0], run, row)[i] = fma(in_row(in, step.in[0], run, row)[i], step.scale, step.scale2);
}

// The table is plain.
kernel void add_positions(constant Step& step [[buffer(0)]], device const Run& run [[buffer(1)]],
                          device float* out [[buffer(8)]], device const uchar* values [[buffer(12)]],
                          device const uchar* scales [[buffer(13)]], device const uchar* biases [[buffer(14)]],
                          uint3 place [[thread_position_in_grid]]) {
  const int row = int(place.y), i = int(place.x);
  if (row >= rows_of(step, run) || i >= step.n[0]) return;
  const Weights table = weights_of(values, scales, biases, step.matrix[0], kCoding0, kGroup0, kScaleType0);
  const int x = row % run.columns, y = row / run.columns;
  const Weights by_x = at_row(table, step.axis_inside ? 2 * x : x);
  const Weights by_y = at_row(table, step.axis_inside ? 2 * y + 1 : kPositions + y);
  device float* h = out_row(out, step.out[0], run, row);
  h[i] = (h[i] + number_at(by_x.values, uint(i), kCoding0)) + number_at(by_y.values, uint(i), kCoding0);
}

// A threadgroup per row, a thread per frequency and axis.
kernel void grid_angles(constant Step& step [[buffer(0)]], device const Run& run [[buffer(1)]],
                        device float* out [[buffer(8)]], device const float* frequencies [[buffer(27)]],
                        uint3 group [[threadgroup_position_in_grid]], uint index [[thread_index_in_threadgroup]]) {
  const int row = int(group.y), half_dim = kHeadDim / 2, quarter = kHeadDim / 4, i = int(index);
  if (row >= rows_of(step, run) || i >= half_dim) return;
  const bool by_column = i < quarter;
  const int at = by_column ? row % run.columns : row / run.columns;
  const float2 turn = cos_sin(float(at) * frequencies[by_column ? i : i - quarter]);
  device float* angles = out_row(out, step.out[0], run, row);
  angles[i] = turn.x;
  angles[half_dim + i] = turn.y;
}

// A threadgroup per row and head: queries, keys, values. A thread has the pair of elements that turn together.
kernel void qkv_grid_rope(constant Step& step [[buffer(0)]], device const Run& run [[buffer(1)]],
                          device const float* in0 [[buffer(4)]], device const float* in1 [[buffer(5)]],
                          device float* out [[buffer(8)]], device const float* q_norm [[buffer(12)]],
                          device const float* k_norm [[buffer(15)]],
                          uint3 group [[threadgroup_position_in_grid]], uint index [[thread_index_in_threadgroup]],
                          uint lane [[thread_index_in_simdgroup]], uint simd [[simdgroup_index_in_threadgroup]],
                          uint simds [[simdgroups_per_threadgroup]]) {
  threadgroup float sums[kMaxSimds];
  const int row = int(group.y), head = int(group.x), half_dim = kHeadDim / 2, quarter = kHeadDim / 4, i = int(index);
  if (row >= rows_of(step, run)) return;
  const int first = i < quarter ? i : half_dim + i - quarter, second = first + quarter;
  device const float* x = in_row(in0, step.in[0], run, row) + head * kHeadDim;
  float a = i < half_dim ? x[first] : 0.0f, b = i < half_dim ? x[second] : 0.0f;
  const float factor = inverse_rms(sum_of_group(fma(a, a, b * b), sums, lane, simd, simds), kHeadDim, step.epsilon);
  if (i >= half_dim) return;
  a *= factor;
  b *= factor;
  if (head < 2 * step.heads) {
    device const float* norm = head < step.heads ? q_norm : k_norm;
    device const float* angles = in_row(in1, step.in[1], run, row);
    a *= norm[first];
    b *= norm[second];
    const float cosine = angles[i], sine = angles[half_dim + i], turned = fma(a, cosine, -(b * sine));
    b = fma(b, cosine, a * sine);
    a = turned;
  }
  device float* to = out_row(out, step.out[0], run, row) + head * kHeadDim;
  to[first] = a;
  to[second] = b;
}

// A row is a cell of window x window patches.
kernel void pool(constant Step& step [[buffer(0)]], device const Run& run [[buffer(1)]],
                 device const float* in [[buffer(4)]], device float* out [[buffer(8)]],
                 device const float* bias [[buffer(12)]], device const float* factor [[buffer(15)]],
                 uint3 place [[thread_position_in_grid]]) {
  const int cell = int(place.y), i = int(place.x), side = step.window, across = run.columns / side;
  if (cell >= rows_of(step, run) || i >= step.n[0]) return;
  const int first = cell / across * side * run.columns + cell % across * side;
  float sum = 0.0f;
  for (int y = 0; y < side; ++y)
    for (int x = 0; x < side; ++x) sum += in_row(in, step.in[0], run, first + y * run.columns + x)[i];
  const float mean = sum * (1.0f / float(side * side)) * step.scale;
  out_row(out, step.out[0], run, cell)[i] = has_weight(step, 0) ? (mean - bias[i]) * factor[i] : mean;
}
