// Attention on codes in float32: of the exact mode. A sum has eight lanes, columns ascending.
#include <algorithm>

#include "cpu/attention_coded_tiles.hpp"
#include "cpu/vec.hpp"

namespace lapidary::cpu {
namespace {

template <int Pairs>
struct Heads {
  using Factor = float;
  static constexpr int kFactors = 1;

  // As factors lie: [n / 8][head][8].
  static float round_query(int head, const float* from, int n, float* to) {
    for (int i = 0; i < n; i += 8) std::copy_n(from + i, 8, to + (i / 8 * 2 * Pairs + head) * 8);
    return 1.0f;
  }

  static float round_weights(int head, const float* from, float* to) { return round_query(head, from, graph::kTile, to); }

  template <class Soon, class Done>
  static void score(CodeLines lines, const float* q, int n, Soon soon, Done done) {
    multiply(lines, q, n, soon, done);
  }
  template <class Soon, class Done>
  static void score_turned(const std::int8_t* block, const float* q, int n, Soon soon, Done done) {
    std::int8_t made[8 * kMaxHeadDim];
    multiply(turn_block(block, n, made), q, n, soon, done);
  }
  // out: [head][8]
  template <class Soon>
  static void mix(CodeLines lines, const float* p, Soon soon, const float* keep, const float* steps, float* out) {
    multiply(lines, p, graph::kTile / 8, soon, add_to(out, keep, steps));
  }
  static int place(int head, int i) { return head * 8 + i; }

 private:
  template <class Soon, class Done>
  static void multiply(CodeLines lines, const float* factors, int n, Soon soon, Done done) {
    float widened[8 * kMaxHeadDim];  // [column / 8][row][8], for all heads
    float* to = widened;
    for (int i = 0; i < n; ++i) {
      soon(i);
      for (int j = 0; j < 4; ++j, to += 16)
        for (int k = 0; k < 16; ++k) to[k] = static_cast<float>(lines.data[i * lines.stride + j * 16 + k]);
    }
    for (int head = 0; head < 2 * Pairs; ++head) {
      Vec sum[8];
      for (Vec& one : sum) one = Vec::broadcast(0.0f);
      const float* from = widened;
      for (int i = 0; i < n; ++i, from += 64) {
        const Vec factor = Vec::load(factors + (i * 2 * Pairs + head) * 8);
        for (int row = 0; row < 8; ++row) sum[row] = fused(factor, Vec::load(from + row * 8), sum[row]);
      }
      float sums[8];
      for (int row = 0; row < 8; ++row) {
        float lanes[kLanes];
        sum[row].store(lanes);
        sums[row] = sum_lanes(lanes);
      }
      done(head, Vec::load(sums));
    }
  }
};

}  // namespace

const CodedAttentionKernels kExactCodedAttention = {"exact", CodedAttention<Heads>::attend, CodedAttention<Heads>::kTogether};

}  // namespace lapidary::cpu
