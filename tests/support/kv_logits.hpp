// Logits of a text with K/V of any kind.
#pragma once

#include <string>
#include <vector>

#include "support/model.hpp"

namespace lapidary::test {

using Logits = std::vector<std::vector<float>>;  // by position

inline Logits logits_of(const std::string& folder, const link::KvFormat* kv, const std::vector<std::int32_t>& tokens,
                        link::Numeric numeric = link::Numeric::exact) {
  Loaded model(folder, {.context_tokens = static_cast<std::int32_t>(tokens.size()), .numeric = numeric, .kv = kv}, 2);
  decode::Session session(model.program, *model.executor);
  Logits all;
  decode::Session::Observer observer;
  observer.window = [&](std::int32_t, std::int32_t count) {
    for (int i = 0; i < count; ++i) all.emplace_back(session.logits(i).begin(), session.logits(i).end());
  };
  session.prefill_all(tokens, observer);
  return all;
}

}  // namespace lapidary::test
