// How likely the model itself held a token: the logarithm of softmax over its logits, before penalties and temperature.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace lapidary::decode {

struct TokenLogprob {
  std::int32_t id = 0;
  float logprob = 0.0f;  // natural; minus infinity where the logit is not a number
};

struct Logprobs {
  TokenLogprob chosen;
  std::vector<TokenLogprob> top;  // the likeliest first, of equal ones the smaller id
};

// logits: [vocab]; `top` (a few) of them, or all when there are fewer.
Logprobs logprobs(std::span<const float> logits, std::int32_t chosen, int top);

}  // namespace lapidary::decode
