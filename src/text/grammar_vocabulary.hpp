// The pieces of a vocabulary in an order that a grammar can go through quickly.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.hpp"

namespace lapidary::text {

// The bytes of many tokens as a tree. Nodes stand in depth-first order, so that a branch is left by going to its end.
struct TokenTree {
  struct Node {
    std::uint32_t end;          // the first node after this branch
    std::uint32_t first_token;  // tokens that end here: up to the next node's first
    std::uint16_t depth;        // bytes up to and including this one
    std::uint16_t byte;
  };
  std::span<const Node> nodes;  // and one more, which only ends the last one's tokens
  std::span<const std::int32_t> tokens;
};

// What a vocabulary is made of, wherever it lies.
struct VocabularyArrays {
  std::span<const char> bytes;           // of all text pieces, one after the other
  std::span<const std::uint32_t> ends;   // by id
  std::span<const std::uint8_t> special;  // by id
  TokenTree all, not_plain;
  std::span<const std::uint32_t> plain;  // [kMaxPlainCharacters, mask words]

  // In the order in which they stand in a file.
  template <class Arrays, class Visit>
  static void each(Arrays& arrays, Visit&& visit) {
    visit(arrays.bytes), visit(arrays.ends), visit(arrays.special), visit(arrays.all.nodes), visit(arrays.all.tokens);
    visit(arrays.not_plain.nodes), visit(arrays.not_plain.tokens), visit(arrays.plain);
  }
};

// Built once for a tokenizer, shared by all grammars.
class Vocabulary {
 public:
  struct Piece {
    std::string_view bytes;
    PieceKind kind;
  };
  explicit Vocabulary(const Tokenizer& tokenizer);
  // For tool calls: the special token `quote` is read as kQuoteByte, and no other one is.
  Vocabulary(const Tokenizer& tokenizer, std::int32_t quote);
  explicit Vocabulary(std::span<const Piece> pieces);  // by id
  // As put() left it among other tables, which must outlive it.
  static Vocabulary take(FlatReader& reader, const std::string& where);
  void put(FlatWriter& writer) const;

  // What the vocabulary of a tokenizer keeps at most: as much as if no two tokens began alike.
  static std::size_t most_bytes(const Tokenizer& tokenizer);
  std::size_t memory_bytes() const { return sizeof(Vocabulary) + memory_bytes_; }

  std::int32_t size() const { return static_cast<std::int32_t>(arrays_.ends.size()); }
  // Of any id, also one beyond the vocabulary: a model may have more.
  std::string_view bytes(std::int32_t id) const;  // empty when the piece is no text, or too long for any use
  bool is_special(std::int32_t id) const { return has(id) && arrays_.special[static_cast<std::size_t>(id)]; }

  const TokenTree& all() const { return arrays_.all; }
  // Plain tokens are whole characters that a JSON string may hold as they are, at most kMaxPlainCharacters.
  const TokenTree& not_plain() const { return arrays_.not_plain; }
  // One bit per token: plain tokens of at most so many characters, 1 to kMaxPlainCharacters.
  std::span<const std::uint32_t> plain(std::uint32_t characters) const;

 private:
  bool has(std::int32_t id) const { return id >= 0 && id < size(); }

  explicit Vocabulary(const VocabularyArrays& arrays) : arrays_(arrays) {}

  VocabularyArrays arrays_;
  std::shared_ptr<const void> keeper_;  // of arrays of its own
  std::size_t memory_bytes_ = 0;        // of these
};

bool has_calls(const Tokenizer& tokenizer);  // all tokens that a tool call is written with
// The one for tool calls; fails where the tokenizer lacks one of their tokens.
std::shared_ptr<const Vocabulary> call_vocabulary(const Tokenizer& tokenizer);

}  // namespace lapidary::text
