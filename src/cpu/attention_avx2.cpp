// Attention of the fast mode with AVX2 and FMA. Compiled for processors that have them; instructions.hpp says who
// may call it.
//
// A bfloat16 is the upper half of a float, so a word with two of them makes two floats, by a shift and by a mask. K and V
// both lie in lines of 8 rows (positions of K, elements of V) with 4 columns each: one product takes either.
#include "cpu/attention_bf16.hpp"

#include <immintrin.h>

#include <algorithm>
#include <limits>

#include "cpu/norm_rope.hpp"
#include "graph/graph.hpp"
#include "numeric/math.hpp"

namespace lapidary::cpu {
namespace {

constexpr int kTile = graph::kTile, kLine = 32;  // a line: [8 rows][4 columns]
constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

// To bfloat16, as to_bf16 does, but left in float.
__m256 rounded(__m256 x) {
  const __m256i bits = _mm256_castps_si256(x), odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  const __m256i up = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
  const __m256 cut = _mm256_castsi256_ps(_mm256_and_si256(up, _mm256_set1_epi32(-0x10000)));
  return _mm256_blendv_ps(cut, x, _mm256_cmp_ps(x, x, _CMP_UNORD_Q));
}

// Factors of a pair of heads for the columns of lines: [line][2 heads][columns 0, 2, 1, 3]; x: those of one head, two lines
void store_factors(float* to, __m256 x) {
  const __m256 ordered = _mm256_permute_ps(rounded(x), 0xd8);
  _mm_storeu_ps(to, _mm256_castps256_ps128(ordered));
  _mm_storeu_ps(to + 8, _mm256_extractf128_ps(ordered, 1));
}

// The same 8 bytes for four rows.
__m256i four_times(const void* bytes) {
  return _mm256_broadcastq_epi64(_mm_loadl_epi64(static_cast<const __m128i*>(bytes)));
}

float sum_of(__m256 x) {
  __m128 sum = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
  sum = _mm_add_ps(sum, _mm_movehl_ps(sum, sum));
  return _mm_cvtss_f32(_mm_add_ss(sum, _mm_movehdup_ps(sum)));
}

float most_of(__m256 x) {
  __m128 most = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
  most = _mm_max_ps(most, _mm_movehl_ps(most, most));
  return _mm_cvtss_f32(_mm_max_ss(most, _mm_movehdup_ps(most)));
}

struct PairOfSums {
  __m256 of[2];  // by head, each [8 rows]
};

// The rows of lines times the factors of a pair of heads, each head on its own. visible(words, i): what may be seen of line i
template <class Visible>
inline __attribute__((always_inline)) PairOfSums multiply(const std::uint16_t* lines, const float* factors, int first,
                                                          int last, Visible visible) {
  __m256 even[2][2], odd[2][2];  // [head][half of the rows]: [4 rows][2 columns]
  for (int head = 0; head < 2; ++head)
    for (int half = 0; half < 2; ++half) even[head][half] = odd[head][half] = _mm256_setzero_ps();
  for (int i = first; i < last; ++i)
    for (int half = 0; half < 2; ++half) {
      const auto* at = reinterpret_cast<const __m256i*>(lines + i * kLine + half * kLine / 2);
      const __m256i words = visible(_mm256_loadu_si256(at), i);
      const __m256 even_columns = _mm256_castsi256_ps(_mm256_slli_epi32(words, 16));
      const __m256 odd_columns = _mm256_castsi256_ps(_mm256_and_si256(words, _mm256_set1_epi32(-0x10000)));
      for (int head = 0; head < 2; ++head) {
        const float* f = factors + i * 8 + head * 4;
        even[head][half] = _mm256_fmadd_ps(even_columns, _mm256_castsi256_ps(four_times(f)), even[head][half]);
        odd[head][half] = _mm256_fmadd_ps(odd_columns, _mm256_castsi256_ps(four_times(f + 2)), odd[head][half]);
      }
    }
  PairOfSums sums;
  for (int head = 0; head < 2; ++head) {
    const __m256 low = _mm256_add_ps(even[head][0], odd[head][0]), high = _mm256_add_ps(even[head][1], odd[head][1]);
    const __m256d rows = _mm256_castps_pd(_mm256_hadd_ps(low, high));  // 0 1 4 5 2 3 6 7
    sums.of[head] = _mm256_castpd_ps(_mm256_permute4x64_pd(rows, 0xd8));
  }
  return sums;
}

// Pairs of heads, the last one filled up. All sums of a row are its own: a head is the same bits in any company.
class Attention {
 public:
  Attention(const AttentionJob& job, const link::KvCacheBf16& cache)
      : job_(job), cache_(cache), d_(cache.head_dim), pairs_((job.heads + 1) / 2) {
    for (int head = 0; head < 2 * pairs_; ++head) {
      max_[head] = kMinusInfinity;
      sum_[head] = 0.0f;
      for (int i = 0; i < d_; i += 8)
        store_factors(query(head) + 2 * i, head < job.heads ? _mm256_loadu_ps(job.q[head] + i) : _mm256_setzero_ps());
    }
    for (int head = 0; head < job.heads; ++head) std::fill_n(job.out[head], d_, 0.0f);
  }

  void run() {
    const auto whole = [](__m256i words, int) __attribute__((always_inline)) { return words; };
    for (int tile = job_.first / kTile * kTile; tile <= job_.last; tile += kTile) {
      const int begin = std::max(job_.first - tile, 0), end = std::min(job_.last + 1 - tile, kTile);
      score(tile, begin, end, whole);
      for (int head = 0; head < 2 * pairs_; ++head) weigh(head, begin, end);
      if (end - begin == kTile) {
        mix(tile, begin, end, whole);
        continue;
      }
      // What others left at invisible positions may not even be numbers: it must not be touched.
      std::uint16_t seen[kTile];
      for (int t = 0; t < kTile; ++t) seen[t] = t >= begin && t < end ? 0xffff : 0;
      mix(tile, begin, end, [&](__m256i words, int quad) __attribute__((always_inline)) {
        return _mm256_and_si256(words, four_times(seen + quad * 4));
      });
    }
    finish();
  }

 private:
  float* query(int head) { return q_ + head / 2 * 2 * d_ + head % 2 * 4; }
  float* weights(int head) { return p_ + head / 2 * 2 * kTile + head % 2 * 4; }

  // scores_[head][begin..end) = q . K; a block of keys stays near while all heads take it
  template <class Visible>
  void score(int tile, int begin, int end, Visible visible) {
    for (int block = begin / 8 * 8; block < end; block += 8) {
      const std::uint16_t* k = cache_.k + cache_.block(job_.slot, job_.kv_head, tile + block);
      for (int head = 0; head < 2 * pairs_; head += 2) {
        const PairOfSums sums = multiply(k, query(head), 0, d_ / 4, visible);
        for (int i = 0; i < 2; ++i) _mm256_store_ps(scores_[head + i] + block, sums.of[i]);
      }
    }
  }

  // Scores to probabilities, up to the final division; what is not visible has none.
  void weigh(int head, int begin, int end) {
    float* s = scores_[head];
    std::fill(s, s + begin, kMinusInfinity);
    std::fill(s + end, s + kTile, kMinusInfinity);
    __m256 most = _mm256_set1_ps(max_[head]);
    for (int i = 0; i < kTile; i += 8) most = _mm256_max_ps(_mm256_load_ps(s + i), most);
    const float max = most_of(most);
    keep_[head] = numeric::exp(max_[head] - max);
    LAPIDARY_SIDE_BY_SIDE
    for (int i = 0; i < kTile; ++i) s[i] = numeric::exp(s[i] - max);
    __m256 sum = _mm256_setzero_ps();
    for (int i = 0; i < kTile; i += 8) {
      const __m256 p = _mm256_load_ps(s + i);
      sum = _mm256_add_ps(sum, p);
      store_factors(weights(head) + 2 * i, p);
    }
    max_[head] = max;
    sum_[head] = numeric::fused(sum_[head], keep_[head], sum_of(sum));
  }

  // out = out * keep + p V
  template <class Visible>
  void mix(int tile, int begin, int end, Visible visible) {
    const std::uint16_t* v = cache_.v + cache_.block(job_.slot, job_.kv_head, tile);
    for (int i = 0; i < d_; i += 8)
      for (int head = 0; head < job_.heads; head += 2) {
        const PairOfSums sums = multiply(v + i * kTile, weights(head), begin / 4, (end + 3) / 4, visible);
        for (int h = head; h < std::min(head + 2, job_.heads); ++h) {
          float* out = job_.out[h] + i;
          _mm256_storeu_ps(out, _mm256_fmadd_ps(_mm256_loadu_ps(out), _mm256_set1_ps(keep_[h]), sums.of[h - head]));
        }
      }
  }

  void finish() {
    for (int head = 0; head < job_.heads; ++head)
      for (int i = 0; i < d_; i += 8) {
        float* out = job_.out[head] + i;
        _mm256_storeu_ps(out, _mm256_div_ps(_mm256_loadu_ps(out), _mm256_set1_ps(sum_[head])));
      }
  }

  static constexpr int kHeads = AttentionJob::kMaxHeads;
  const AttentionJob& job_;
  const link::KvCacheBf16& cache_;
  const int d_, pairs_;
  float max_[kHeads], sum_[kHeads], keep_[kHeads];
  alignas(32) float scores_[kHeads][kTile];
  alignas(32) float q_[kHeads * kMaxHeadDim];  // factors of K, by pair
  alignas(32) float p_[kHeads * kTile];         // factors of V, by pair
};

void attend(std::span<const AttentionJob> jobs, const link::KvCacheBf16& cache) {
  for (const AttentionJob& job : jobs) Attention(job, cache).run();
}

}  // namespace

const AttentionKernels kAvx2Attention = {"avx2", attend, nullptr};

}  // namespace lapidary::cpu
