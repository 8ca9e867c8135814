// The next token of a row. Every pass over the vocabulary is a plain stream; what survives top-k, top-p and min-p is a short
// list of ids.
#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <functional>
#include <limits>
#include <span>

#include "cpu/kernels.hpp"
#include "cpu/maxima.hpp"
#include "cpu/share.hpp"
#include "graph/graph.hpp"
#include "numeric/math.hpp"
#include "numeric/noise.hpp"

namespace lapidary::cpu {
namespace {

using graph::Sampling;
using graph::SelectRow;
using numeric::exponential;
using numeric::kBlockWords;
using numeric::kNoiseLanes;
using numeric::noise_words;
using numeric::NoiseKey;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr int kBlock = kNoiseLanes * kBlockWords;  // tokens whose noise is computed at once

// The largest value of each stretch, and of all. known: [stretches] by find_maxima, or null
class Maxima {
 public:
  Maxima(const float* y, int n, const float* known) : y_(y), n_(n), length_(stretch_length(n)) {
    for (int begin = 0; begin < n; begin += length_) {
      const bool found = known && known[count_] == known[count_];
      const float value = found ? known[count_] : largest(y + begin, std::min(length_, n - begin));
      values_[count_++] = value;
      most_ = std::max(most_, value);
    }
  }

  float most() const { return most_; }

  // The first token with the largest value, which must be above -inf.
  std::int32_t first() const {
    const auto stretch = std::find(values_.begin(), values_.begin() + count_, most_) - values_.begin();
    return static_cast<std::int32_t>(std::find(y_ + stretch * length_, y_ + n_, most_) - y_);
  }

  // The k largest values by id, in no order; of equal ones the lower ids. ids: [n]. Returns how many there are: less than k
  // where others are not numbers.
  int find_largest(int k, std::int32_t* ids) const {
    // k stretches reach up to the k-th largest maximum, so at least k values do.
    float bar = -kInfinity;
    if (k <= count_) {
      auto sorted = values_;
      std::nth_element(sorted.begin(), sorted.begin() + (k - 1), sorted.begin() + count_, std::greater<>());
      bar = sorted[k - 1];
    }
    int found = 0;
    for (int stretch = 0; stretch < count_; ++stretch) {
      if (values_[stretch] < bar) continue;
      for (int i = stretch * length_; i < std::min(n_, (stretch + 1) * length_); ++i) {
        ids[found] = i;
        found += y_[i] >= bar;
      }
    }
    if (found <= k) return found;
    std::nth_element(ids, ids + k, ids + found, [this](std::int32_t a, std::int32_t b) {
      return y_[a] != y_[b] ? y_[a] > y_[b] : a < b;
    });
    return k;
  }

 private:
  const float* y_;
  int n_;
  int length_;
  int count_ = 0;
  float most_ = -kInfinity;
  std::array<float, kMaxStretches> values_;
};

bool adjusts(const Sampling& sampling, const SelectRow& row) {
  return !sampling.suppressed.empty() || !sampling.bias.empty() || sampling.penalises() || !row.mask.empty();
}

struct Penalties {
  float repetition = 1.0f, presence = 0.0f, frequency = 0.0f;

  float operator()(float y, std::int32_t count) const {
    const float repeated = y > 0.0f ? y / repetition : y * repetition;
    return repeated - (presence + static_cast<float>(count) * frequency);
  }
};

// counts: [n]
void penalise(Penalties penalised, const std::int32_t* counts, std::span<const std::int32_t> drafted, float* y, int n) {
  // Drafted tokens have another count: theirs is computed first and put in last.
  assert(drafted.size() <= graph::kMaxVerifyRows);
  std::array<float, graph::kMaxVerifyRows> with_drafts{};
  for (std::size_t i = 0; i < drafted.size(); ++i) {
    const std::int32_t token = drafted[i];
    if (token < 0 || token >= n) continue;
    const auto times = static_cast<std::int32_t>(std::count(drafted.begin(), drafted.end(), token));
    with_drafts[i] = penalised(y[token], counts[token] + times);
  }
  for (int i = 0; i < n; ++i) y[i] = counts[i] > 0 ? penalised(y[i], counts[i]) : y[i];
  for (std::size_t i = 0; i < drafted.size(); ++i)
    if (drafted[i] >= 0 && drafted[i] < n) y[drafted[i]] = with_drafts[i];
}

void suppress(std::span<const std::int32_t> tokens, float* y, int n) {
  for (const std::int32_t token : tokens)
    if (token >= 0 && token < n) y[token] = -kInfinity;
}

void apply_mask(std::span<const std::uint32_t> mask, float* y, int n) {
  assert(mask.size() >= (static_cast<std::size_t>(n) + 31) / 32);
  // By bits, because compilers make unpredictable branches of a choice between floats here.
  const auto hidden = std::bit_cast<std::uint32_t>(-kInfinity);
  for (int begin = 0; begin < n; begin += 32) {
    const std::uint32_t word = mask[begin / 32];
    for (int i = 0; i < std::min(32, n - begin); ++i) {
      const std::uint32_t keep = 0u - (word >> i & 1);
      y[begin + i] = std::bit_cast<float>((std::bit_cast<std::uint32_t>(y[begin + i]) & keep) | (hidden & ~keep));
    }
  }
}

// y: [n] = the logits after all that is added to, taken from or hidden of them
void adjust(const float* logits, int n, const graph::Selection& selection, const SelectRow& row, float* y) {
  const Sampling& sampling = selection.sampling;
  std::copy(logits, logits + n, y);
  suppress(sampling.suppressed, y, n);
  for (const auto& [token, bias] : sampling.bias)
    if (token >= 0 && token < n) y[token] += bias;
  if (sampling.penalises()) {
    assert(selection.counts.size() >= static_cast<std::size_t>(n));
    penalise({sampling.repetition, sampling.presence, sampling.frequency}, selection.counts.data(), row.drafted, y, n);
  }
  if (!row.mask.empty()) apply_mask(row.mask, y, n);
}

bool is_allowed(const Sampling& sampling, const SelectRow& row, std::int32_t token) {
  const bool masked = !row.mask.empty() && !(row.mask[static_cast<std::size_t>(token) / 32] >> (token % 32) & 1);
  return !masked && std::ranges::find(sampling.suppressed, token) == sampling.suppressed.end();
}

// The same where the logits belong to some tokens only. tokens: [n]
void adjust_listed(const float* logits, const std::int32_t* tokens, int n, const graph::Selection& selection,
                   const SelectRow& row, float* y) {
  const Sampling& sampling = selection.sampling;
  const Penalties penalised{sampling.repetition, sampling.presence, sampling.frequency};
  for (int i = 0; i < n; ++i) {
    const std::int32_t token = tokens[i];
    assert(!sampling.penalises() || static_cast<std::size_t>(token) < selection.counts.size());
    y[i] = logits[i];
    for (const auto& [biased, bias] : sampling.bias)
      if (biased == token) y[i] += bias;
    if (sampling.penalises()) {
      const auto drafted = static_cast<std::int32_t>(std::ranges::count(row.drafted, token));
      const std::int32_t count = selection.counts[token] + drafted;
      if (count > 0) y[i] = penalised(y[i], count);
    }
    if (!is_allowed(sampling, row, token)) y[i] = -kInfinity;
  }
}

// What is chosen where the logits say nothing.
std::int32_t first_allowed(const Sampling& sampling, const SelectRow& row, const std::int32_t* tokens, int n) {
  for (int i = 0; i < n; ++i)
    if (is_allowed(sampling, row, tokens ? tokens[i] : i)) return i;
  return 0;
}

// Turns an adjusted logit into a weight; the largest has weight 1.
struct Weigher {
  float most = 0.0f;
  float inverse_temperature = 1.0f;  // finite

  float operator()(float y) const {
    const float z = (y - most) * inverse_temperature;
    return z <= 0.0f ? numeric::exp(z) : 0.0f;  // not for what is not a number
  }
};

// weights: [n], may be y itself. Returns their sum.
double weigh_all(const Weigher& weigh, const float* y, int n, float* weights) {
  double lanes[kLanes] = {};
  for (int begin = 0; begin < n; begin += kBlock) {
    const int count = std::min(kBlock, n - begin);
    float block[kBlock] = {};
    std::copy(y + begin, y + begin + count, block);
    for (float& value : block) value = weigh(value);
    std::copy(block, block + count, weights + begin);
    std::fill(block + count, block + kBlock, 0.0f);
    for (int i = 0; i < kBlock; i += kLanes)
      for (int lane = 0; lane < kLanes; ++lane) lanes[lane] += static_cast<double>(block[i + lane]);
  }
  return ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) + ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]));
}

// The shortest beginning of the candidates, in descending order of weight, whose weights reach `target`. Returns its length;
// the candidates are reordered.
int shortest_beginning(const float* weights, std::int32_t* candidates, int count, double target) {
  const auto before = [weights](std::int32_t a, std::int32_t b) {
    return weights[a] != weights[b] ? weights[a] > weights[b] : a < b;
  };
  // Halve the stretch in which it ends until sorting is cheap.
  constexpr int kFew = 128;
  double sum = 0.0;  // of the candidates before `done`, which belong to it
  int done = 0;
  while (count - done > kFew) {
    const int middle = done + (count - done) / 2;
    std::nth_element(candidates + done, candidates + middle, candidates + count, before);
    double half = 0.0;
    for (int i = done; i < middle; ++i) half += static_cast<double>(weights[candidates[i]]);
    if (sum + half < target) {
      sum += half;
      done = middle;
    } else {
      count = middle;
    }
  }
  std::sort(candidates + done, candidates + count, before);
  while (done < count) {
    sum += static_cast<double>(weights[candidates[done++]]);
    if (sum >= target) break;
  }
  return done;
}

// Candidates that survive top-k, top-p and min-p, in no order. y: [n] as seen by `maxima`; weights: [n], may be y itself,
// valid for the survivors afterwards.
int truncate(const Sampling& sampling, const Maxima& maxima, const Weigher& weigh, const float* y, int n, float* weights,
             std::int32_t* candidates) {
  const bool nucleus = sampling.top_p < 1.0f;
  const double top_p = sampling.top_p;
  int count = 0;
  double sum = 0.0;
  if (sampling.top_k > 0 && sampling.top_k < n) {
    count = maxima.find_largest(sampling.top_k, candidates);
    for (int i = 0; i < count; ++i) {
      const std::int32_t token = candidates[i];
      weights[token] = weigh(y[token]);
      sum += static_cast<double>(weights[token]);
    }
    count = static_cast<int>(std::remove_if(candidates, candidates + count, [&](std::int32_t token) {
      return weights[token] < sampling.min_p;
    }) - candidates);
  } else {
    sum = weigh_all(weigh, y, n, weights);
    // All tokens this light together are not half of what top-p leaves out.
    const auto light = static_cast<float>((1.0 - top_p) * sum / (2.0 * n));
    const float bar = nucleus ? std::max(light, sampling.min_p) : sampling.min_p;
    for (int begin = 0; begin < n; begin += kBlock) {
      const int end = std::min(n, begin + kBlock);
      if (largest(weights + begin, end - begin) < bar) continue;
      for (int i = begin; i < end; ++i) {
        candidates[count] = i;
        count += weights[i] >= bar;
      }
    }
  }
  return nucleus ? shortest_beginning(weights, candidates, count, top_p * sum) : count;
}

struct Choice {
  std::int32_t token = 0;
  float cost = kInfinity;  // e / weight

  void offer(std::int32_t other, float other_cost) {
    if (other_cost < cost) *this = {other, other_cost};
  }
};

// choice: what is returned when no weight is above 0. tokens: those of the candidates; null = themselves
Choice choose(const NoiseKey& key, const float* weights, std::span<std::int32_t> candidates, const std::int32_t* tokens,
              Choice choice) {
  const auto token_of = [tokens](std::int32_t candidate) { return tokens ? tokens[candidate] : candidate; };
  std::sort(candidates.begin(), candidates.end());  // of equal costs the lower id
  for (std::size_t begin = 0; begin < candidates.size(); begin += kNoiseLanes) {
    const std::size_t count = std::min<std::size_t>(kNoiseLanes, candidates.size() - begin);
    std::uint32_t blocks[kNoiseLanes] = {}, words[kBlockWords][kNoiseLanes];
    for (std::size_t i = 0; i < count; ++i) blocks[i] = static_cast<std::uint32_t>(token_of(candidates[begin + i])) / kBlockWords;
    noise_words(key, blocks, words);
    for (std::size_t i = 0; i < count; ++i) {
      const std::int32_t candidate = candidates[begin + i];
      choice.offer(candidate, exponential(words[token_of(candidate) % kBlockWords][i]) / weights[candidate]);
    }
  }
  return choice;
}

std::uint32_t largest_word(const std::uint32_t (&words)[kBlockWords][kNoiseLanes]) {
  std::uint32_t most = 0;
  for (const auto& lanes : words)
    for (const std::uint32_t word : lanes) most = std::max(most, word);
  return most;
}

Choice choose_among_all(const NoiseKey& key, const Weigher& weigh, const float* y, int n, Choice choice) {
  for (int begin = 0; begin < n; begin += kBlock) {
    std::uint32_t blocks[kNoiseLanes], words[kBlockWords][kNoiseLanes];
    for (int i = 0; i < kNoiseLanes; ++i) blocks[i] = static_cast<std::uint32_t>(begin / kBlockWords + i);
    noise_words(key, blocks, words);

    // Most blocks cannot win, even if their least noise belonged to their largest weight.
    const int count = std::min(kBlock, n - begin);
    if (exponential(largest_word(words)) > choice.cost * weigh(largest(y + begin, count)) * 1.001f) continue;

    float minus_cost[kBlock];
    std::copy(y + begin, y + begin + count, minus_cost);
    std::fill(minus_cost + count, minus_cost + kBlock, -kInfinity);
    for (int i = 0; i < kNoiseLanes; ++i)
      for (int word = 0; word < kBlockWords; ++word) {
        float& value = minus_cost[i * kBlockWords + word];
        value = -exponential(words[word][i]) / weigh(value);
      }
    const float most = largest(minus_cost, kBlock);
    const auto at = std::find(minus_cost, minus_cost + kBlock, most) - minus_cost;
    choice.offer(begin + static_cast<std::int32_t>(at), -most);
  }
  return choice;
}

// The place of the chosen token. tokens: [n] or null; maxima: of the logits, or null; weights, candidates: [n]
std::int32_t sample_row(const float* logits, const std::int32_t* tokens, int n, const float* maxima_of_logits,
                        const graph::Selection& selection, const SelectRow& row, float* weights, std::int32_t* candidates) {
  const Sampling& sampling = selection.sampling;
  const float* y = logits;
  if (adjusts(sampling, row)) {
    if (tokens) adjust_listed(logits, tokens, n, selection, row, weights);
    else adjust(logits, n, selection, row, weights);
    y = weights;
  }
  const Maxima maxima(y, n, y == logits ? maxima_of_logits : nullptr);
  if (maxima.most() == -kInfinity) return first_allowed(sampling, row, tokens, n);
  const Choice likeliest{maxima.first()};
  if (!(sampling.temperature > 0.0f)) return likeliest.token;

  const NoiseKey key{sampling.seed, static_cast<std::uint64_t>(row.index), sampling.stream};
  const Weigher weigh{maxima.most(), std::min(1.0f / sampling.temperature, std::numeric_limits<float>::max())};
  const bool truncates =
      (sampling.top_k > 0 && sampling.top_k < n) || sampling.top_p < 1.0f || sampling.min_p > 0.0f;
  if (!truncates && !tokens) return choose_among_all(key, weigh, y, n, likeliest).token;
  const int count = truncate(sampling, maxima, weigh, y, n, weights, candidates);
  return choose(key, weights, {candidates, static_cast<std::size_t>(count)}, tokens, likeliest).token;
}

}  // namespace

void sample(int rows, In logits, InIds tokens, int n, In maxima, const graph::Selection* selection, OutIds out, Out weights,
            OutIds candidates, Part part) {
  static const graph::Selection kLargest{};
  assert(!selection || selection->rows.size() >= static_cast<std::size_t>(rows));
  for_each_own(rows, part, [&](int r) {
    const std::int32_t* listed = tokens.data ? tokens[r] : nullptr;
    const std::int32_t place =
        sample_row(logits[r], listed, n, maxima.data ? maxima[r] : nullptr, selection ? *selection : kLargest,
                   selection ? selection->rows[r] : SelectRow{}, weights[r], candidates[r]);
    out[r][0] = listed ? listed[place] : place;
  });
}

}  // namespace lapidary::cpu
