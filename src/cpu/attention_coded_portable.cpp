// Attention on codes of the fast mode, as loops that compilers make vectors of.
#include "cpu/attention_coded_tiles.hpp"

namespace lapidary::cpu {
namespace {

template <int Pairs>
struct Heads : WordHeads<Pairs, Heads<Pairs>> {
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
