// What the host and the shaders tell each other, the same bytes on both sides. The shader library begins with src/graph/dims.h and
// this text; src/gpu/layout.hpp includes it on the host.

// As graph::Row.
struct Row {
  int slot;
  int position;
  int token;
  int block_end;
  int soft;
  int begin;
};

enum Limits { kMaxDrafts = 7, kPendingRows = 64 };

// What a threadgroup of a product makes. Of a round: all rows of kGroupOutputs outputs, a simdgroup kSimdOutputs of them. Of a
// prompt: a tile of rows and outputs.
enum ProductSizes {
  kRowsMax = 8, kSimdOutputs = 4, kGroupOutputs = 8, kGroupThreads = kGroupOutputs / kSimdOutputs * 32,
  kTileRows = 32, kTileOutputs = 64, kTileThreads = 128
};

enum ReadSizes { kReadStreams = 4 };

// As graph::RoundState.
struct RoundState {
  int length;
  int bonus;
  long emitted;
  int drafted;
  int drafts[kMaxDrafts];
  int accepted;
};

// As graph::RoundResult.
struct RoundResult {
  int accepted;
  int tokens[kMaxDrafts + 1];
};

// Row r of an operand begins at base + slot * slot_bytes + (r + first) * row_bytes, where `first` is the run's first_output for
// operands that lie in the row table (windowed) and 0 for others.
struct Operand {
  ulong slot_bytes;
  uint row_bytes;
  int windowed;
};

// A matrix: row r of expert e begins at values + e * expert_bytes + r * row_bytes, its scales and biases alike.
struct MatrixLayout {
  ulong expert_bytes;
  ulong scale_expert_bytes;
  uint row_bytes;
  uint scale_row_bytes;
  float input_min, input_max;    // of a clipped one: bounds of its inputs,
  float output_min, output_max;  // and of its products
};

// How the values of a matrix are stored; the first three also what its scales and biases are.
enum Coding {
  kPlainF32 = 0, kPlainF16 = 1, kPlainBf16 = 2,
  kAffine2 = 3, kAffine3 = 4, kAffine4 = 5, kAffine5 = 6, kAffine6 = 7, kAffine8 = 8,
  kMxfp4 = 9, kNvfp4 = 10, kMxfp8 = 11
};

// As link::KvCode: of a layer's values. Keys are the same, but q8 where values are codes.
enum KvCodes { kKvF32 = 0, kKvBf16 = 1, kKvQ8 = 2, kKvQ4 = 3 };
enum KvSizes { kKvTile = 64, kKvCodedMax = 512 };  // positions of a tile; components of a head that is coded

enum RowsOfStep { kAllRows = 0, kOutputRows = 1, kOneRow = 2, kWaitingRows = 3, kBlockRows = 4 };

#define NUMBER(name) int name;
#define NUMBERS(name, count) int name[count];
#define REAL(name) float name;
// One step as recorded: never changes.
struct Step {
  Operand in[4];
  Operand out[4];
  MatrixLayout matrix[3];
  ulong kv_slot_bytes;      // from one session slot to the next
  int rows;                 // RowsOfStep
  int kv_capacity;
  int weights;              // bit i: weight i is there
  int vocab;                // sample, accept: tokens that a session's counts are of
  int mask_token;           // round_rows of a block
  LAPIDARY_DIMS(NUMBER, NUMBERS, REAL, NUMBER)
};
#undef NUMBER
#undef NUMBERS
#undef REAL

// How tokens are chosen, as graph::Sampling; what is suppressed is in the masks.
struct Sampling {
  float repetition, presence, frequency;
  float temperature;
  int top_k;
  float top_p, min_p;
  uint seed_low, seed_high;
  uint stream;
  int bias_count;           // of LogitBias
  int has_counts;
  int mask_words;           // of a row's mask; 0 = all tokens allowed
  int mask_stride_words;    // from one row's mask to the next; 0 = one for all rows
};

struct LogitBias {
  int token;
  float bias;
};

// What the DFlash drafter does for a session.
struct RunBlock {
  int context_begin;        // the first position that it has K/V of
  int pending_begin;        // those that wait for theirs; the same as the end once they have them
  int pending_end;
  int first;                // rows of its drafts among those of all blocks
  int count;                // the bonus token's included; 0 = no block
};

// One of the sessions in a run.
struct RunSeat {
  int slot;
  int first;                // its rows in the output window: of a round, in the row table
  int count;
  int drafts;               // that the round is to have when all are made
  int samples;           // 0 = the largest logit
  Sampling sampling;
  RunBlock block;
};

enum SeatSizes { kSeatsMax = kRowsMax, kBiasesMax = 1024 };

// One run: written by the host before it is submitted, copied to its fixed place by the first dispatch.
struct Run {
  int slot;                 // whose operands that lie beside K/V are meant: of a prompt, or of the draft that is made
  int seat;                 // which one that is
  int row_count;            // of the row table
  int first_output;         // the output window in it; in a round all rows
  int output_count;
  int host_rows;            // rows of the table that come from the host: those of a prompt, none in a round
  int place;                // in the ring of runs: where rounds leave their results
  int seat_count;
  int block_rows;           // of all blocks
  int waiting_rows;         // of the session whose context is being made
  int columns;              // of a tower: patches of a row of the picture,
  int input_rows;           // and rows of the input where a row sees others
  RunSeat seats[kSeatsMax];
};
