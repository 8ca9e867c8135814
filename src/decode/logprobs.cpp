#include "decode/logprobs.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <limits>

#include "numeric/math.hpp"

namespace lapidary::decode {
namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();
constexpr std::size_t kBlock = 64;

using numeric::or_lowest;

// The natural logarithm of the sum of exp(logit - most).
double log_sum(std::span<const float> logits, float most) {
  std::array<double, 8> lanes{};
  for (std::size_t begin = 0; begin < logits.size(); begin += kBlock) {
    const auto some = logits.subspan(begin, std::min(kBlock, logits.size() - begin));
    std::array<float, kBlock> block;
    block.fill(kMinusInfinity);
    std::copy(some.begin(), some.end(), block.begin());
    for (float& value : block) value = numeric::exp(or_lowest(value) - most);
    for (std::size_t i = 0; i < kBlock; ++i) lanes[i % lanes.size()] += static_cast<double>(block[i]);
  }
  double sum = 0.0;
  for (const double lane : lanes) sum += lane;
  return std::log(sum);
}

}  // namespace

Logprobs logprobs(std::span<const float> logits, std::int32_t chosen, int top) {
  assert(chosen >= 0 && static_cast<std::size_t>(chosen) < logits.size() && top >= 0);
  float most = kMinusInfinity;
  for (const float logit : logits) most = logit > most ? logit : most;

  // Where no logit is a finite number, the model has said nothing of any token.
  const bool says_something = std::isfinite(most);
  const double rest = says_something ? log_sum(logits, most) : 0.0;
  const auto entry = [&](std::int32_t id) {
    const double distance = static_cast<double>(or_lowest(logits[id])) - static_cast<double>(most);
    return TokenLogprob{id, says_something ? static_cast<float>(distance - rest) : kMinusInfinity};
  };

  // The best so far, in order: most logits lose against the last of them.
  const std::size_t wanted = std::min(static_cast<std::size_t>(top), logits.size());
  std::vector<std::int32_t> best;
  for (std::int32_t id = 0; wanted > 0 && id < static_cast<std::int32_t>(logits.size()); ++id) {
    const float logit = or_lowest(logits[id]);
    if (best.size() == wanted && !(logit > or_lowest(logits[best.back()]))) continue;
    if (best.size() == wanted) best.pop_back();
    const auto loses = [&](std::int32_t other) { return logit > or_lowest(logits[other]); };
    const auto place = std::find_if(best.begin(), best.end(), loses);
    best.insert(place, id);
  }

  Logprobs result{.chosen = entry(chosen), .top = {}};
  for (const std::int32_t id : best) result.top.push_back(entry(id));
  return result;
}

}  // namespace lapidary::decode
