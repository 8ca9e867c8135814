// What all kernels share. The library is this text after layout.h, then the families: one source for the driver's compiler, so no
// file includes another.
//
// A kernel gets its operands at fixed places, and binds only what it uses:
//    0 constant Step&        1 device const Run&      2 device const Row*  (the row table, or that of drafts, of blocks, of rows that wait)
//    3 device RoundState*    (by session slot)
//    4 to 7 in[0..3]         8 to 11 out[0..3]
//    12 + 3i, 13 + 3i, 14 + 3i: values, scales, biases of matrix i; a vector or a list of ids is values
//        (i counts all weights of the step, vectors too); 21 to 25 the operands of a route that goes with a product
//    27 constants of the step (float)    28, 29 K and V of the layer, at session slot 0
//    12 and on, in steps without weights: the extras of the op, as graph/op_table.hpp lists them
// Grid: x counts the work inside a row, y rows (or blocks of rows), z what else there is. The grid may have more rows than there are.
//
// Every value of a row is computed in an order of operations that depends on the widths alone, never on the other rows of the call.

// Function constants are int. 0 to 15 are common, 16 to 39 of products, 40 to 59 of norms and attention, 60 to 79 of sampling.
constant int kRows [[function_constant(0)]];      // rows of a round, 1 to 8
constant int kInputs [[function_constant(1)]];
constant int kOutputs [[function_constant(2)]];

inline int rows_of(constant Step& step, device const Run& run) {
  return step.rows == kOneRow       ? 1
         : step.rows == kOutputRows  ? run.output_count
         : step.rows == kWaitingRows ? run.waiting_rows
         : step.rows == kBlockRows   ? run.block_rows
                                     : run.row_count;
}

inline bool has_weight(constant Step& step, int i) { return (step.weights >> i & 1) != 0; }

// The row of the row table that row r of the step is.
inline Row row_of(constant Step& step, device const Run& run, device const Row* rows, int row) {
  return rows[step.rows == kOutputRows ? row + run.first_output : row];
}

// The seat that a row of the output window belongs to.
inline int seat_of(device const Run& run, int row) {
  int seat = 0;
  while (seat + 1 < run.seat_count && row >= run.seats[seat + 1].first) ++seat;
  return seat;
}

// The seat that a row of the blocks belongs to.
inline int block_seat_of(device const Run& run, int row) {
  int seat = 0;
  while (seat + 1 < run.seat_count && row >= run.seats[seat].block.first + run.seats[seat].block.count) ++seat;
  return seat;
}

// Elements from the base of an operand to its row r; `bytes` of an element.
inline ulong row_offset(constant Operand& operand, device const Run& run, int row, uint bytes) {
  const int first = operand.windowed ? run.first_output : 0;
  return (operand.slot_bytes * ulong(run.slot) + ulong(row + first) * operand.row_bytes) / bytes;
}

inline device const float* in_row(device const float* base, constant Operand& operand, device const Run& run, int row) {
  return base + row_offset(operand, run, row, 4);
}
inline device float* out_row(device float* base, constant Operand& operand, device const Run& run, int row) {
  return base + row_offset(operand, run, row, 4);
}

inline float gelu(float x) {
  return 0.5f * x * (1.0f + precise::tanh(0.7978845608028654f * fma(0.044715f * x * x, x, x)));
}
inline float sigmoid(float x) { return 1.0f / (1.0f + precise::exp(-x)); }
