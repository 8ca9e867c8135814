// sample.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include "graph/row.hpp"

namespace lapidary::reference {

// Philox4x32-10.
inline std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{counter[0]} * 0xd2511f53u, b = std::uint64_t{counter[2]} * 0xcd9e8d57u;
    counter = {static_cast<std::uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(b),
               static_cast<std::uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(a)};
    key = {key[0] + 0x9e3779b9u, key[1] + 0xbb67ae85u};
  }
  return counter;
}

inline std::uint32_t noise_word(std::uint64_t seed, std::int64_t index, std::uint32_t stream, std::int32_t token) {
  const auto j = static_cast<std::uint64_t>(index);
  return philox({static_cast<std::uint32_t>(j), static_cast<std::uint32_t>(j >> 32), static_cast<std::uint32_t>(token >> 2),
                 stream},
                {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)})[token & 3];
}

inline double exponential(std::uint32_t word) { return -std::log((word + 0.5) * 0x1p-32); }

// What a row's settings leave of its logits.
struct Distribution {
  std::vector<double> probabilities;  // [n]
  double gap = 1.0;  // relative distance of the closest decision to its threshold
};

inline std::vector<double> adjusted(const std::vector<float>& logits, const graph::Selection& selection,
                                    const graph::SelectRow& row) {
  const graph::Sampling& sampling = selection.sampling;
  const auto n = static_cast<std::int32_t>(logits.size());
  std::vector<double> y;
  for (const float logit : logits) y.push_back(std::isnan(logit) ? -INFINITY : logit);
  for (const std::int32_t token : sampling.suppressed)
    if (token >= 0 && token < n) y[token] = -INFINITY;
  for (const auto& [token, bias] : sampling.bias)
    if (token >= 0 && token < n) y[token] += bias;
  for (std::int32_t token = 0; token < n; ++token) {
    int count = selection.counts.empty() ? 0 : selection.counts[token];
    if (sampling.penalises()) count += static_cast<int>(std::count(row.drafted.begin(), row.drafted.end(), token));
    if (count > 0) {
      y[token] = y[token] > 0 ? y[token] / sampling.repetition : y[token] * sampling.repetition;
      y[token] -= sampling.presence + count * static_cast<double>(sampling.frequency);
    }
    if (!row.mask.empty() && !(row.mask[token / 32] >> (token % 32) & 1)) y[token] = -INFINITY;
  }
  return y;
}

// Of logits that belong to a list of different tokens: as if all others were -inf, by place in the list.
inline std::vector<double> adjusted_listed(const std::vector<float>& logits, const std::vector<std::int32_t>& tokens,
                                           std::int32_t vocab, const graph::Selection& selection,
                                           const graph::SelectRow& row) {
  std::vector<float> all(vocab, -INFINITY);
  for (std::size_t i = 0; i < tokens.size(); ++i) all[tokens[i]] = logits[i];
  const std::vector<double> y = adjusted(all, selection, row);
  std::vector<double> listed;
  for (const std::int32_t token : tokens) listed.push_back(y[token]);
  return listed;
}

// y: [n] adjusted logits, at least one of them above -inf
inline Distribution distribution(const std::vector<double>& y, const graph::Sampling& sampling) {
  std::vector<std::int32_t> order(y.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) { return y[a] > y[b]; });

  Distribution result{std::vector<double>(y.size(), 0.0)};
  const auto decide = [&](double value, double threshold) {
    if (value != threshold) result.gap = std::min(result.gap, std::abs(value - threshold) / std::max(1e-30, threshold));
  };
  std::size_t kept = sampling.temperature > 0 ? order.size() : 1;
  if (sampling.temperature > 0 && sampling.top_k > 0 && static_cast<std::size_t>(sampling.top_k) < kept) {
    kept = static_cast<std::size_t>(sampling.top_k);
    decide(std::exp(y[order[kept - 1]] - y[order[kept]]), 1.0);
  } else if (sampling.temperature == 0 && order.size() > 1) {
    decide(std::exp(y[order[0]] - y[order[1]]), 1.0);
  }
  const double temperature = sampling.temperature > 0 ? sampling.temperature : 1.0;
  const auto weight = [&](std::size_t place) { return std::exp((y[order[place]] - y[order[0]]) / temperature); };
  if (sampling.temperature > 0 && sampling.top_p < 1) {
    double total = 0.0, sum = 0.0;
    for (std::size_t i = 0; i < kept; ++i) total += weight(i);
    std::size_t length = 0;
    while (length < kept && (length == 0 || sum < sampling.top_p * total)) {
      sum += weight(length++);
      decide(sum, sampling.top_p * total);
    }
    kept = length;
  }
  std::size_t light = 0;
  for (std::size_t i = 0; i < kept && sampling.temperature > 0 && sampling.min_p > 0; ++i) {
    decide(weight(i), sampling.min_p);
    light += weight(i) < sampling.min_p;
  }
  kept -= light;

  double total = 0.0;
  for (std::size_t i = 0; i < kept; ++i) total += weight(i);
  for (std::size_t i = 0; i < kept; ++i) result.probabilities[order[i]] = weight(i) / total;
  return result;
}

inline Distribution distribution(const std::vector<float>& logits, const graph::Selection& selection,
                                 const graph::SelectRow& row) {
  return distribution(adjusted(logits, selection, row), selection.sampling);
}

struct Pick {
  std::int32_t token = 0;
  double margin = 1.0;  // relative distance of the second best
};

// tokens: those that the probabilities belong to; empty = 0..n-1
inline Pick pick(const std::vector<double>& probabilities, const graph::Sampling& sampling, std::int64_t index,
                 std::span<const std::int32_t> tokens = {}) {
  Pick result;
  double best = INFINITY, second = INFINITY;
  for (std::size_t i = 0; i < probabilities.size(); ++i) {
    if (probabilities[i] == 0.0) continue;
    const std::int32_t token = tokens.empty() ? static_cast<std::int32_t>(i) : tokens[i];
    const double cost = exponential(noise_word(sampling.seed, index, sampling.stream, token)) / probabilities[i];
    if (cost < best) {
      second = best;
      best = cost;
      result.token = token;
    } else {
      second = std::min(second, cost);
    }
  }
  result.margin = std::min(1.0, (second - best) / best);
  return result;
}

}  // namespace lapidary::reference
