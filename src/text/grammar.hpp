// Constrains output to JSON, to JSON of a schema, or to calls of given tools: which tokens may come next, token by token.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "text/grammar_readings.hpp"
#include "text/tokenizer.hpp"
#include "text/value.hpp"

namespace lapidary::text {

class Vocabulary;

// One bit per token id, 32 to a word, lowest first: 1 = allowed.
using TokenMask = std::span<std::uint32_t>;
inline std::size_t mask_words(std::int32_t vocab) { return (static_cast<std::size_t>(vocab) + 31) / 32; }
inline void set_bit(TokenMask mask, std::int32_t id, bool allowed) {
  std::uint32_t& word = mask[static_cast<std::size_t>(id / 32)];
  const std::uint32_t bit = 1u << (id % 32);
  word = allowed ? word | bit : word & ~bit;
}

// A compiled schema for one vocabulary. Immutable; shared by all states over it.
class Grammar {
 public:
  // Any JSON value.
  static std::shared_ptr<const Grammar> json(std::shared_ptr<const Vocabulary> vocabulary);
  // JSON that the schema accepts. An unsupported keyword is an error that names it.
  static std::shared_ptr<const Grammar> schema(const Tokenizer& tokenizer, const Value& schema);
  static std::shared_ptr<const Grammar> schema(std::shared_ptr<const Vocabulary> vocabulary, const Value& schema);

  // A call of one of the tools, as it stands between <|tool_call> and <tool_call|>: call:NAME{...} with arguments that the
  // tool's schema accepts. `tools` is the list that chat templates take; the vocabulary is one for tool calls.
  static std::shared_ptr<const Grammar> calls(const Tokenizer& tokenizer, const Value& tools);
  static std::shared_ptr<const Grammar> calls(std::shared_ptr<const Vocabulary> vocabulary, const Value& tools);

  Grammar(std::shared_ptr<const Vocabulary> vocabulary, Automaton automaton);
  const Vocabulary& vocabulary() const { return *vocabulary_; }
  const Automaton& automaton() const { return automaton_; }

 private:
  std::shared_ptr<const Vocabulary> vocabulary_;
  Automaton automaton_;
};

// Where in the grammar a text stands. Cheap to copy: a block of drafts walks a copy. Copies share the memory that they walk in, so they
// belong to one thread. From every state that accept() can reach, tokens lead to a complete text.
class GrammarState {
 public:
  explicit GrammarState(std::shared_ptr<const Grammar> grammar);

  // Fills the mask, at least the vocabulary's size, of tokens that may follow. `stop_ids` are allowed exactly when the text is
  // complete.
  void fill_mask(TokenMask mask, std::span<const std::int32_t> stop_ids) const;
  bool allows(std::int32_t id) const;  // as a part of the text
  // Takes a token that is allowed; false and no change when it is not. A special token changes nothing and is taken exactly
  // when the text is complete.
  bool accept(std::int32_t id);
  bool complete() const { return readings_.complete; }

 private:
  std::shared_ptr<const Grammar> grammar_;
  std::shared_ptr<Walk> walk_;
  Readings readings_;
};

}  // namespace lapidary::text
