// Attention on codes of the fast mode, as loops that compilers make vectors of.
#include <algorithm>

#include "cpu/attention_coded_tiles.hpp"

namespace lapidary::cpu {
namespace {

template <int Pairs>
struct Heads {
  using Factor = std::int16_t;
  static constexpr int kFactors = 1;

  // As factors lie: [n / 8][head][8].
  static float round_query(int head, const float* from, int n, std::int16_t* to) {
    std::int16_t numbers[kMaxHeadDim];
    const float step = round_to_steps(from, n, numbers);
    for (int i = 0; i < n; i += 8) std::copy_n(numbers + i, 8, to + (i / 8 * 2 * Pairs + head) * 8);
    return step;
  }

  static float round_weights(int head, const float* from, std::int16_t* to) {
    std::uint8_t bytes[graph::kTile];
    const float step = round_to_bytes(from, bytes);
    for (int i = 0; i < graph::kTile; ++i) to[(i / 8 * 2 * Pairs + head) * 8 + i % 8] = bytes[i];
    return step;
  }

  template <class Soon, class Done>
  static void score(CodeLines lines, const std::int16_t* q, int n, Soon soon, Done done) {
    multiply(lines, q, n, soon, done);
  }
  // out: [head][8]
  template <class Soon>
  static void mix(CodeLines lines, const std::int16_t* p, Soon soon, const float* keep, const float* steps, float* out) {
    multiply(lines, p, graph::kTile / 8, soon, add_to(out, keep, steps));
  }
  static int place(int head, int i) { return head * 8 + i; }

 private:
  template <class Soon, class Done>
  static void multiply(CodeLines lines, const std::int16_t* factors, int n, Soon soon, Done done) {
    for (int i = 0; i < n; ++i) soon(i);
    for (int head = 0; head < 2 * Pairs; ++head) {
      std::int32_t lanes[8][8] = {};  // by row
      for (int i = 0; i < n; ++i) {
        const std::int16_t* factor = factors + (i * 2 * Pairs + head) * 8;
        for (int row = 0; row < 8; ++row) {
          const std::int8_t* codes = lines.data + i * lines.stride + row * 8;
          for (int k = 0; k < 8; ++k) lanes[row][k] += codes[k] * factor[k];
        }
      }
      float sums[8];
      for (int row = 0; row < 8; ++row) {
        std::int32_t sum = 0;
        for (const std::int32_t lane : lanes[row]) sum += lane;
        sums[row] = static_cast<float>(sum);
      }
      done(head, Vec::load(sums));
    }
  }
};

}  // namespace

const CodedAttentionKernels kPortableCodedAttention = {"portable", CodedAttention<Heads>::attend, CodedAttention<Heads>::kTogether};

}  // namespace lapidary::cpu
