// Drafts for tests: right ones, wrong ones, or any, when the text to come is known.
#pragma once

#include <vector>

#include "decode/draft.hpp"
#include "support/random.hpp"

namespace lapidary::test {

enum class TestDraftKind { oracle, wrong, random };

class TestDrafts final : public decode::DraftSource {
 public:
  // text: what plain decoding generates after a prompt of `prompt_tokens`
  TestDrafts(TestDraftKind kind, std::vector<std::int32_t> text, std::size_t prompt_tokens, std::int32_t vocab,
             std::uint64_t seed)
      : kind_(kind), text_(std::move(text)), prompt_tokens_(prompt_tokens), vocab_(vocab), random_(seed) {}

  std::string_view name() const override { return "test"; }

  decode::Drafts propose(std::span<const std::int32_t> history, int most) override {
    const std::size_t emitted = history.size() - prompt_tokens_;
    drafts_.clear();
    for (std::size_t at = emitted; at < text_.size() && static_cast<int>(drafts_.size()) < most; ++at) {
      const std::int32_t right = text_[at], wrong = (right + 1 + random_.below(vocab_ - 1)) % vocab_;
      const bool be_right = kind_ == TestDraftKind::oracle || (kind_ == TestDraftKind::random && random_.below(4) > 0);
      drafts_.push_back(be_right ? right : wrong);
    }
    return {static_cast<int>(drafts_.size()), drafts_.data()};
  }

 private:
  TestDraftKind kind_;
  std::vector<std::int32_t> text_;
  std::size_t prompt_tokens_;
  std::int32_t vocab_;
  Random random_;
  std::vector<std::int32_t> drafts_;
};

}  // namespace lapidary::test
