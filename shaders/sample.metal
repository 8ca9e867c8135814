// The next token of a row, chosen by one threadgroup. One pass over the logits finds the largest; one more collects the few
// tokens that can survive top-k, top-p and min-p, and everything after it looks at those alone.
//
// A choice does not depend on how many threads there are or which comes first: values are compared as integers, sums are
// integers, and of equal ones the lower place wins. A place is a token, or its place in the list where there is one.

constant int kListed [[function_constant(60)]];  // in1 has the tokens that the logits belong to

constexpr constant int kDigits = 256;
constant uint kNoCost = 0xffffffffu;
constant int kNoPlace = 0x7fffffff;
constant uint kInfiniteBits = 0x7f800000u;
constant uint kLowest = 0x007fffffu;             // key_of(-inf)

// Where a thread is in its threadgroup.
struct Seat {
  uint index, count;
  uint lane, simd, simds;
};

// A float as an integer of the same order. Zeros are equal; what is not a number is as -inf.
inline uint key_of(float y) {
  const uint bits = as_type<uint>(y), magnitude = bits & 0x7fffffffu;
  if (magnitude > kInfiniteBits) return kLowest;
  return bits > 0x80000000u ? ~bits : magnitude | 0x80000000u;
}

// exp and log as in numeric/math.hpp. Where divisions are rounded as IEEE says they have the bits of a CPU with fma; Metal does not promise
// that, so devices may differ in the last bits of log. On one device they are the same in every call.
inline float power_of_two(int n) { return as_type<float>(uint(n + 127) << 23); }

inline float exp_of(float x) {
  // Adding 1.5 * 2^23 leaves the nearest integer in the low bits of the sum.
  const float round = 12582912.0f;
  const float limited = x < -104.0f ? -104.0f : x;
  const float shifted = fma(limited, 1.44269504f, round);
  const float n = shifted - round;
  const float r = fma(n, 2.12194440e-4f, fma(n, -0.693359375f, limited));
  float series = 1.0f / 5040.0f;
  series = fma(series, r, 1.0f / 720.0f);
  series = fma(series, r, 1.0f / 120.0f);
  series = fma(series, r, 1.0f / 24.0f);
  series = fma(series, r, 1.0f / 6.0f);
  series = fma(series, r, 0.5f);
  const float fraction = fma(series * r, r, r);
  // In two factors, because the exponent of a tiny result is out of the range of one.
  const int exponent = as_type<int>(shifted) - as_type<int>(round), half_of_it = exponent >> 1;
  return (1.0f + fraction) * power_of_two(half_of_it) * power_of_two(exponent - half_of_it);
}

// x > 0 and not subnormal. Accurate relative to the result, also near 1.
inline float log_of(float x) {
  const uint root_half = 0x3f3504f3u;  // the bits of sqrt(1/2)
  const uint offset = as_type<uint>(x) - root_half;
  const float n = float(as_type<int>(offset) >> 23);
  const float f = as_type<float>((offset & 0x007fffffu) + root_half) - 1.0f;
  const float s = f / (f + 2.0f), square = s * s, twice = s + s;
  float series = 1.0f / 9.0f;
  series = fma(series, square, 1.0f / 7.0f);
  series = fma(series, square, 1.0f / 5.0f);
  series = fma(series, square, 1.0f / 3.0f);
  return fma(n, 0.693359375f, fma(n, -2.12194440e-4f, fma(twice * square, series, twice)));
}

// Whose noise it is: that of the request at this place of its output.
struct NoiseKey {
  uint seed_low, seed_high;
  uint index_low, index_high;
  uint stream;
};

// Philox4x32-10: the noise of tokens 4 * block to 4 * block + 3.
inline uint4 noise_block(NoiseKey key, uint block) {
  uint c0 = key.index_low, c1 = key.index_high, c2 = block, c3 = key.stream;
  uint key0 = key.seed_low, key1 = key.seed_high;
  for (int round = 0; round < 10; ++round) {
    const ulong product0 = ulong(0xd2511f53u) * c0, product2 = ulong(0xcd9e8d57u) * c2;
    c0 = uint(product2 >> 32) ^ c1 ^ key0;
    c1 = uint(product2);
    c2 = uint(product0 >> 32) ^ c3 ^ key1;
    c3 = uint(product0);
    key0 += 0x9e3779b9u;
    key1 += 0xbb67ae85u;
  }
  return uint4(c0, c1, c2, c3);
}

inline uint noise_of(NoiseKey key, int token) { return noise_block(key, uint(token) / 4)[uint(token) % 4]; }

constant float kUnit = 2.3283064365386963e-10f;  // 2^-32

// -ln((word + 0.5) * 2^-32), accurate relative to itself. In float32 the largest words would round to ln(1) = 0 and win
// every comparison, so in the upper half the distance to 1 is what is kept.
inline float exponential(uint word) {
  const bool upper = word >= 0x80000000u;
  const float distance = (float(int(upper ? ~word : word)) + 0.5f) * kUnit;
  const float u = upper ? 1.0f - distance : distance;
  const float lost = upper ? (1.0f - u) - distance : 0.0f;  // u + lost is what was meant; matters where u is near 1
  return -log_of(u) - lost;
}

// Turns an adjusted logit into a weight; the largest has weight 1.
struct Weigher {
  float most;
  float inverse_temperature;

  // What is not a number weighs nothing: also the largest where it or the factor is infinite, which is chosen all the same.
  float of(float y) const {
    const float z = (y - most) * inverse_temperature;
    return z <= 0.0f ? exp_of(z) : 0.0f;
  }
};

// A weight in units of 2^-44, so that 2^19 of them have an exact sum in 64 bits, in any order. What rounding them down
// takes from the sum of a vocabulary is below 2^-26 of the largest weight: like the rounding of the float64 sums in the
// definition, less than float32 weights are worth.
inline ulong amount_of(float weight) { return ulong(weight * 17592186044416.0f); }

// ceil(part * total), 0 <= part < 1; total < 2^63
inline ulong part_of(float part, ulong total) {
  const ulong scaled = ulong(part * 4294967296.0f);
  const ulong low = (total & 0xffffffffu) * scaled;
  return (total >> 32) * scaled + (low >> 32) + ((low & 0xffffffffu) != 0 ? 1 : 0);
}

// The least cost, of equal ones the lower place.
struct Best {
  uint cost;
  int place;
};

inline void offer(thread Best& best, uint cost, int place) {
  if (cost < best.cost || (cost == best.cost && place < best.place)) best = Best{cost, place};
}

inline Best best_of_simd(Best mine) {
  const uint cost = simd_min(mine.cost);
  return Best{cost, simd_min(mine.cost == cost ? mine.place : kNoPlace)};
}

inline Best best_of_all(Best mine, threadgroup Best* bests, Seat seat) {  // bests: [kMaxSimds]
  const Best of_simd = best_of_simd(mine);
  threadgroup_barrier(mem_flags::mem_threadgroup);  // what was there before has been read
  if (seat.lane == 0) bests[seat.simd] = of_simd;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  Best other{kNoCost, kNoPlace};
  if (seat.lane < seat.simds) other = bests[seat.lane];
  return best_of_simd(other);
}

inline ulong sum_of_simd(ulong x) {
  for (ushort step = 16; step > 0; step /= 2) x += as_type<ulong>(simd_shuffle_xor(as_type<uint2>(x), step));
  return x;
}

inline ulong sum_of_all(ulong mine, threadgroup ulong* sums, Seat seat) {
  const ulong of_simd = sum_of_simd(mine);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  if (seat.lane == 0) sums[seat.simd] = of_simd;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  return sum_of_simd(seat.lane < seat.simds ? sums[seat.lane] : 0);
}

// How many elements have a digit, and the sum of their amounts in two halves.
struct Histogram {
  atomic_uint count[kDigits];
  atomic_uint low[kDigits];
  atomic_uint high[kDigits];
  ulong target;  // what find_digit finds
  uint digit;
  uint left;
};

struct SampleMemory {
  Best bests[kMaxSimds];
  ulong sums[kMaxSimds];
  Histogram histogram;
  atomic_uint found;
};

inline void clear(threadgroup Histogram& histogram, Seat seat) {
  for (uint digit = seat.index; digit < kDigits; digit += seat.count) {
    atomic_store_explicit(&histogram.count[digit], 0u, memory_order_relaxed);
    atomic_store_explicit(&histogram.low[digit], 0u, memory_order_relaxed);
    atomic_store_explicit(&histogram.high[digit], 0u, memory_order_relaxed);
  }
}

inline void add(threadgroup Histogram& histogram, uint digit, ulong amount) {
  const uint low = uint(amount);
  const uint before = atomic_fetch_add_explicit(&histogram.low[digit], low, memory_order_relaxed);
  const uint carry = before + low < low ? 1 : 0;  // whoever makes it wrap carries
  atomic_fetch_add_explicit(&histogram.high[digit], uint(amount >> 32) + carry, memory_order_relaxed);
  atomic_fetch_add_explicit(&histogram.count[digit], 1u, memory_order_relaxed);
}

inline ulong amount_at(threadgroup const Histogram& histogram, uint digit) {
  return ulong(atomic_load_explicit(&histogram.high[digit], memory_order_relaxed)) << 32 |
         atomic_load_explicit(&histogram.low[digit], memory_order_relaxed);
}

// From the largest digit down, the one with which the amounts reach the target. By one simdgroup.
inline void find_digit(threadgroup Histogram& histogram, ulong target, uint lane) {
  const uint first = 255 - 8 * lane;  // of this lane's 8 digits
  ulong mine = 0;
  for (uint i = 0; i < 8; ++i) mine += amount_at(histogram, first - i);
  ulong up_to = mine;
  for (ushort step = 1; step < 32; step *= 2) {
    const ulong other = as_type<ulong>(simd_shuffle_up(as_type<uint2>(up_to), step));
    up_to += lane >= step ? other : 0;
  }
  ulong sum = up_to - mine;
  if (sum >= target || up_to < target) return;
  uint digit = first;
  while (sum + amount_at(histogram, digit) < target) sum += amount_at(histogram, digit--);
  histogram.digit = digit;
  histogram.target = target - sum;
  histogram.left = atomic_load_explicit(&histogram.count[digit], memory_order_relaxed);
}

// An element's rank among others, no two the same: a key, then the lower place first. In 56 bits.
inline ulong rank_of(uint key, int place) { return ulong(key) << 24 | ulong(0xffffff - place); }

struct Element {
  ulong rank;
  ulong amount;
};

// The rank from which on elements belong to the shortest beginning, in descending order of rank, whose amounts reach the
// target; all of them do. Digit by digit, down to the one at `last_shift` or until it is certain.
template <class Elements>
inline ulong beginning_of(thread const Elements& elements, uint count, ulong target, int last_shift,
                          threadgroup Histogram& histogram, Seat seat) {
  ulong digits = 0;
  for (int shift = 48;; shift -= 8) {
    clear(histogram, seat);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (uint i = seat.index; i < count; i += seat.count) {
      const Element element = elements.at(i);
      if (element.rank >> (shift + 8) == digits) add(histogram, uint(element.rank >> shift) & 255, element.amount);
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (seat.simd == 0) find_digit(histogram, target, seat.lane);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    digits = digits << 8 | histogram.digit;
    target = histogram.target;
    if (shift == last_shift || histogram.left == 1) return digits << shift;
  }
}

// One largest logit for each thread.
struct Maxima {
  uint mine;

  Element at(uint) const { return Element{rank_of(mine, 0), 1}; }
};

struct CandidatesByLogit {
  device const float* y;
  device const int* places;

  Element at(uint i) const { return Element{rank_of(key_of(y[places[i]]), places[i]), 1}; }
};

// Those that top-k has left, from rank `first` on.
struct CandidatesByWeight {
  device const float* y;
  device const int* places;
  Weigher weigher;
  ulong first;

  Element at(uint i) const {
    const int place = places[i];
    const float weight = weigher.of(y[place]);
    const bool left = rank_of(key_of(y[place]), place) >= first;
    return Element{rank_of(as_type<uint>(weight), place), left ? amount_of(weight) : 0};
  }
};

// What a row's request does to its logits before the sampling.
struct Adjuster {
  bool masked, counted;
  device const uint* mask;   // [words of 32 tokens]
  device const int* counts;  // [vocab]
  float repetition, presence, frequency;
  int drafts[kMaxDrafts];    // that the row sees; -1 = none

  bool allows(int token) const { return !masked || (mask[token / 32] >> (token % 32) & 1); }

  float of(float y, int token) const {
    if (!allows(token)) return -INFINITY;
    if (!counted) return y;
    int count = counts[token];
    for (int i = 0; i < kMaxDrafts; ++i) count += drafts[i] == token ? 1 : 0;
    if (count == 0) return y;
    const float repeated = y > 0.0f ? y / repetition : y * repetition;
    return repeated - (presence + float(count) * frequency);
  }
};

// out[n] = the logits with the request's biases; of several for one token, in their order.
inline void add_biases(device const float* logits, device const int* list, int n, device const LogitBias* biases,
                       int bias_count, device float* out, Seat seat) {
  for (int i = int(seat.index); i < n; i += int(seat.count)) {
    float y = logits[i];
    for (int b = 0; kListed && b < bias_count; ++b) y += biases[b].token == list[i] ? biases[b].bias : 0.0f;
    out[i] = y;
  }
  if (kListed) return;
  threadgroup_barrier(mem_flags::mem_device);
  for (int first = int(seat.index); first < bias_count; first += int(seat.count)) {
    const int token = biases[first].token;
    bool alone = token >= 0 && token < n;  // so far
    for (int b = 0; b < first; ++b) alone = alone && biases[b].token != token;
    if (!alone) continue;
    float y = logits[token];
    for (int b = first; b < bias_count; ++b) y += biases[b].token == token ? biases[b].bias : 0.0f;
    out[token] = y;
  }
  threadgroup_barrier(mem_flags::mem_device);
}

// The race among all tokens, where nothing is truncated: four of them share a block of noise. Starts from the likeliest.
inline Best race_of_all(NoiseKey key, Weigher weigher, device const float* y, int n, int likeliest, Seat seat) {
  Best best{as_type<uint>(exponential(noise_of(key, likeliest))), likeliest};
  for (int begin = 4 * int(seat.index); begin < n; begin += 4 * int(seat.count)) {
    const uint4 words = noise_block(key, uint(begin) / 4);
    for (int i = 0; i < 4; ++i) {
      if (begin + i >= n) break;
      const float weight = weigher.of(y[begin + i]);
      // -ln(u) > 1 - u: most tokens cannot win and need no logarithm.
      if (float(~words[i]) * kUnit > 1.001f * weight * as_type<float>(best.cost)) continue;
      offer(best, as_type<uint>(exponential(words[i]) / weight), begin + i);
    }
  }
  return best;
}

// The same among what top-k, top-p and min-p leave. most_of_thread: the key of the largest logit that this thread saw;
// places: [n]
inline Best race_of_survivors(NoiseKey key, Weigher weigher, device const Sampling& sampling, uint most_of_thread,
                              device const float* y, device const int* list, int n, device int* places,
                              threadgroup SampleMemory& memory, Seat seat) {
  const uint top_k = sampling.top_k > 0 && sampling.top_k < n ? uint(sampling.top_k) : 0;
  const bool nucleus = sampling.top_p < 1.0f;

  // What a token must reach to be looked at. The k-th largest of what the threads saw is at most the k-th largest of all.
  // Tokens lighter than `light` are together not half of what top-p leaves out.
  uint bar = 0;
  ulong light = 0, total = 0;
  if (top_k) {
    const Maxima maxima{most_of_thread};
    const int coarse = 40;  // a few more candidates are cheaper than more digits
    if (top_k <= seat.count) bar = uint(beginning_of(maxima, seat.count, top_k, coarse, memory.histogram, seat) >> 24);
  } else if (nucleus) {
    ulong sum = 0;
    for (int i = int(seat.index); i < n; i += int(seat.count)) sum += amount_of(weigher.of(y[i]));
    total = sum_of_all(sum, memory.sums, seat);
    light = (total - part_of(sampling.top_p, total)) / (2 * ulong(n));
  } else {
    light = amount_of(min(sampling.min_p, 1.0f));
  }

  if (seat.index == 0) atomic_store_explicit(&memory.found, 0u, memory_order_relaxed);
  threadgroup_barrier(mem_flags::mem_threadgroup);
#pragma unroll(4)
  for (int i = int(seat.index); i < n; i += int(seat.count)) {
    if (key_of(y[i]) < bar) continue;
    const float weight = weigher.of(y[i]);
    if (weight > 0.0f && amount_of(weight) >= light)
      places[atomic_fetch_add_explicit(&memory.found, 1u, memory_order_relaxed)] = i;
  }
  threadgroup_barrier(mem_flags::mem_device | mem_flags::mem_threadgroup);
  const uint count = atomic_load_explicit(&memory.found, memory_order_relaxed);

  ulong from_logit = 0, from_weight = 0;  // ranks from which on candidates survive top-k and top-p
  if (top_k && count > top_k) {
    const CandidatesByLogit candidates{y, places};
    from_logit = beginning_of(candidates, count, top_k, 0, memory.histogram, seat);
  }
  if (nucleus && count > 0) {
    const CandidatesByWeight candidates{y, places, weigher, from_logit};
    if (top_k) {
      ulong sum = 0;
      for (uint i = seat.index; i < count; i += seat.count) sum += candidates.at(i).amount;
      total = sum_of_all(sum, memory.sums, seat);
    }
    const ulong target = part_of(sampling.top_p, total);
    from_weight = beginning_of(candidates, count, target > 0 ? target : 1, 0, memory.histogram, seat);
  }

  Best best{kNoCost, kNoPlace};
  for (uint i = seat.index; i < count; i += seat.count) {
    const int place = places[i];
    const float weight = weigher.of(y[place]);
    if (rank_of(key_of(y[place]), place) < from_logit || rank_of(as_type<uint>(weight), place) < from_weight) continue;
    if (weight < sampling.min_p) continue;
    offer(best, as_type<uint>(exponential(noise_of(key, kListed ? list[place] : place)) / weight), place);
  }
  return best;
}

// One row for each threadgroup.
[[max_total_threads_per_threadgroup(1024)]] kernel void sample(
    constant Step& step [[buffer(0)]],
    device const Run& run [[buffer(1)]],
    device const RoundState* states [[buffer(3)]],
    device const float* all_logits [[buffer(4)]],   // [rows, n]
    device const int* lists [[buffer(5)]],          // [rows, n] where listed
    device int* chosen [[buffer(8)]],               // [rows, 1]
    device float* rooms [[buffer(9)]],              // [rows, n]
    device int* id_rooms [[buffer(10)]],            // [rows, n]
    device const int* counts [[buffer(12)]],        // [sessions, vocab]
    device const uint* masks [[buffer(13)]],        // [rows, mask_words]
    device const LogitBias* biases [[buffer(14)]],  // [seats, kBiasesMax]
    uint3 group [[threadgroup_position_in_grid]],
    uint3 threads [[threads_per_threadgroup]],
    uint index [[thread_index_in_threadgroup]],
    uint lane [[thread_index_in_simdgroup]],
    uint simd [[simdgroup_index_in_threadgroup]],
    uint simds [[simdgroups_per_threadgroup]]) {
  threadgroup SampleMemory memory;

  const int row = int(group.y), n = step.n[0];
  if (row >= rows_of(step, run)) return;
  const Seat seat{index, threads.x, lane, simd, simds};
  device const float* y = in_row(all_logits, step.in[0], run, row);
  device const int* list = lists + (kListed ? row_offset(step.in[1], run, row, 4) : 0);
  device int* out = chosen + row_offset(step.out[0], run, row, 4);
  device float* room = out_row(rooms, step.out[1], run, row);
  device int* places = id_rooms + row_offset(step.out[2], run, row, 4);

  // Row r of a session's round chooses the token after r drafts; a draft comes after those that are there, and has no mask. Those of
  // a block do not know each other; its first row chooses nothing.
  const bool block = step.rows == kBlockRows, draft = block || step.rows == kOneRow;
  const int number = block ? block_seat_of(run, row) : draft ? run.seat : seat_of(run, row);
  device const RunSeat& chooser = run.seats[number];
  device const RoundState& state = states[chooser.slot];
  device const Sampling& sampling = chooser.sampling;
  const int seen = block ? row - chooser.block.first - 1 : draft ? state.drafted : row - chooser.first;
  if (seen < 0) return;
  const int mask_at = chooser.first * sampling.mask_words + (draft ? 0 : seen) * sampling.mask_stride_words;
  Adjuster adjuster{chooser.samples && sampling.mask_words > 0 && !draft, chooser.samples && sampling.has_counts,
                    masks + mask_at, counts + ulong(chooser.slot) * ulong(step.vocab),
                    sampling.repetition, sampling.presence, sampling.frequency, {}};
  for (int i = 0; i < kMaxDrafts; ++i) adjuster.drafts[i] = i < seen && !block ? state.drafts[i] : -1;

  // The largest logit of those that this thread sees, then of all.
  Best mine{kNoCost, kNoPlace};
  const bool biased = chooser.samples && sampling.bias_count > 0;
  if (biased || adjuster.masked || adjuster.counted) {
    if (biased) {
      add_biases(y, list, n, biases + number * kBiasesMax, sampling.bias_count, room, seat);
      y = room;
    }
    for (int i = int(seat.index); i < n; i += int(seat.count)) {
      const float value = adjuster.of(y[i], kListed ? list[i] : i);
      room[i] = value;
      offer(mine, ~key_of(value), i);
    }
    y = room;
    threadgroup_barrier(mem_flags::mem_device);
  } else {
#pragma unroll(4)
    for (int i = int(seat.index); i < n; i += int(seat.count)) offer(mine, ~key_of(y[i]), i);
  }
  Best best = best_of_all(mine, memory.bests, seat);

  if (best.cost == ~kLowest) {  // the logits say nothing: the first that is allowed
    Best allowed{kNoCost, kNoPlace};
    for (int i = int(seat.index); i < n; i += int(seat.count))
      if (adjuster.allows(kListed ? list[i] : i)) offer(allowed, 0, i);
    allowed = best_of_all(allowed, memory.bests, seat);
    best.place = allowed.cost == 0 ? allowed.place : 0;
  } else if (chooser.samples && sampling.temperature > 0.0f) {
    const ulong token_index = ulong(state.emitted) + ulong(seen);
    const NoiseKey key{sampling.seed_low, sampling.seed_high, uint(token_index), uint(token_index >> 32), sampling.stream};
    const Weigher weigher{y[best.place], 1.0f / sampling.temperature};
    const bool truncates = (sampling.top_k > 0 && sampling.top_k < n) || sampling.top_p < 1.0f || sampling.min_p > 0.0f;
    Best raced = truncates || kListed
                     ? race_of_survivors(key, weigher, sampling, ~mine.cost, y, list, n, places, memory, seat)
                     : race_of_all(key, weigher, y, n, best.place, seat);
    raced = best_of_all(raced, memory.bests, seat);
    if (raced.cost < kInfiniteBits) best = raced;
  }
  if (seat.index == 0) out[0] = kListed ? list[best.place] : best.place;
}
