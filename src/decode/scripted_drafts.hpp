// Drafts of a text that is known beforehand, right as often as asked for: to measure and to test what becomes of them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <span>
#include <string_view>
#include <vector>

#include "decode/draft.hpp"

namespace lapidary::decode {

// Whether the draft of a position is right depends on the seed alone, so all ways to decode the text get the same drafts.
class ScriptedDrafts : public DraftSource {
 public:
  // text: what plain decoding generates after a prompt of `prompt_tokens`; acceptance: of a draft, 0 to 1
  ScriptedDrafts(std::span<const std::int32_t> text, std::size_t prompt_tokens, std::int32_t vocab, double acceptance,
                 std::uint64_t seed)
      : prompt_tokens_(prompt_tokens), drafts_(text.begin(), text.end()) {
    std::mt19937_64 random(seed);
    for (std::int32_t& token : drafts_) {
      const bool right = static_cast<double>(random() >> 11) * 0x1p-53 < acceptance;
      const auto away = static_cast<std::int32_t>(1 + random() % static_cast<std::uint64_t>(vocab - 1));
      if (!right) token = (token + away) % vocab;
    }
  }

  std::string_view name() const override { return "scripted"; }

  Drafts propose(std::span<const std::int32_t> history, int most) override {
    const std::size_t begin = std::min(history.size() - prompt_tokens_, drafts_.size());
    return {static_cast<int>(std::min<std::size_t>(most, drafts_.size() - begin)), drafts_.data() + begin};
  }

 private:
  std::size_t prompt_tokens_;
  std::vector<std::int32_t> drafts_;  // by position in the text
};

}  // namespace lapidary::decode
