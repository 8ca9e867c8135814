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
    std::uint8_t byte;
  };
  std::vector<Node> nodes;  // and one more, which only ends the last one's tokens
  std::vector<std::int32_t> tokens;
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

  // What the vocabulary of a tokenizer keeps at most: as much as if no two tokens began alike.
  static std::size_t most_bytes(const Tokenizer& tokenizer);
  std::size_t memory_bytes() const;

  std::int32_t size() const { return static_cast<std::int32_t>(ends_.size()); }
  // Of any id, also one beyond the vocabulary: a model may have more.
  std::string_view bytes(std::int32_t id) const;  // empty when the piece is no text, or too long for any use
  bool is_special(std::int32_t id) const { return has(id) && special_[static_cast<std::size_t>(id)]; }

  const TokenTree& all() const { return all_; }
  // Plain tokens are whole characters that a JSON string may hold as they are, at most kMaxPlainCharacters.
  const TokenTree& not_plain() const { return not_plain_; }
  // One bit per token: plain tokens of at most so many characters, 1 to kMaxPlainCharacters.
  std::span<const std::uint32_t> plain(std::uint32_t characters) const;

 private:
  bool has(std::int32_t id) const { return id >= 0 && id < size(); }

  std::string bytes_;                // of all text pieces, one after the other
  std::vector<std::uint32_t> ends_;  // by id
  std::vector<bool> special_;
  TokenTree all_, not_plain_;
  std::vector<std::uint32_t> plain_;  // [kMaxPlainCharacters, mask words]
};

// The one for tool calls; fails where the tokenizer lacks one of their tokens.
std::shared_ptr<const Vocabulary> call_vocabulary(const Tokenizer& tokenizer);

}  // namespace lapidary::text
