// Drafts for tests: right ones, wrong ones, or any, when the text to come is known.
#pragma once

#include "decode/scripted_drafts.hpp"

namespace lapidary::test {

enum class TestDraftKind { oracle, wrong, random };

class TestDrafts final : public decode::ScriptedDrafts {
 public:
  TestDrafts(TestDraftKind kind, std::span<const std::int32_t> text, std::size_t prompt_tokens, std::int32_t vocab,
             std::uint64_t seed)
      : ScriptedDrafts(text, prompt_tokens, vocab,
                       kind == TestDraftKind::oracle ? 1 : kind == TestDraftKind::wrong ? 0 : 0.75, seed) {}
};

}  // namespace lapidary::test
