// What a tokenizer knows, in flat tables. The readers of tokenizer.json and tokenizer.model fill it; encoding only looks up.
#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.hpp"
#include "text/tokenizer_hash.hpp"

namespace lapidary::text {

// Single characters to ids, in pages of 256 characters of which most do not exist.
class ScalarTable {
 public:
  std::int32_t find(char32_t scalar) const { return pages_[page_of_[scalar >> 8]][scalar & 0xff]; }
  void set(char32_t scalar, std::int32_t id);
  std::size_t memory_bytes() const { return pages_.capacity() * sizeof(Page); }  // beside itself

 private:
  using Page = std::array<std::int32_t, 256>;
  static Page empty_page();

  std::array<std::uint16_t, 0x1100> page_of_{};  // page 0 is the empty one
  std::vector<Page> pages_{empty_page()};
};

class TokenTables {
 public:
  // Filling: pieces, then added tokens, then merges in the order of their ranks, then finish(). A contradiction is an Error
  // about `where`, which must outlive the filling.
  TokenTables(std::string_view where, std::size_t most_pieces, std::size_t most_merges);
  void add_piece(std::int32_t id, std::string_view text);  // U+2581 stands for a space
  void add_token(std::int32_t id, std::string_view name, bool special);  // of a piece that is there
  void add_merge(std::int32_t left, std::int32_t right, std::int32_t result);
  void finish();

  std::size_t memory_bytes() const;
  std::int32_t size() const { return static_cast<std::int32_t>(pieces_.size()); }
  PieceKind kind(std::int32_t id) const { return pieces_[id].kind; }
  std::string_view bytes(std::int32_t id) const { return {arena_.data() + pieces_[id].offset, pieces_[id].bytes}; }
  std::optional<std::int32_t> special(std::string_view name) const;

  // The longest added token at the beginning of `text`; a special one only within the first `special_bytes`.
  struct Added {
    std::int32_t id;
    std::size_t bytes;
  };
  std::optional<Added> added_at(std::string_view text, std::size_t special_bytes) const;
  bool may_begin_added(char byte) const { return added_begins_[static_cast<unsigned char>(byte)]; }

  // For text with spaces as spaces. The id of a character, -1 when it has to be spelled in bytes.
  std::int32_t scalar(char32_t scalar) const { return scalars_.find(scalar); }
  std::int32_t byte(char byte) const { return byte_ids_[static_cast<unsigned char>(byte)]; }
  const Merge* merge(std::int32_t left, std::int32_t right) const { return merges_.find(left, right); }
  // Text may be cut between two bytes that no merge ever brings together.
  bool may_cut(unsigned char before, unsigned char after) const { return !joined_[pair_of(before, after)]; }

 private:
  struct Piece {
    std::uint32_t offset = 0, bytes = 0;  // in the arena
    bool defined = false;
    PieceKind kind = PieceKind::unused;
  };
  struct AddedToken {
    std::string name;
    std::int32_t id;
  };

  [[noreturn]] void refuse(std::string what) const;
  void store(Piece& piece, std::string_view text, bool marks_are_spaces);
  static std::size_t pair_of(unsigned char before, unsigned char after) { return std::size_t{before} << 8 | after; }

  std::string_view where_;
  std::string arena_;
  std::vector<Piece> pieces_;
  ScalarTable scalars_;
  std::array<std::int32_t, 256> byte_ids_;
  MergeIndex merges_;
  std::uint32_t merge_count_ = 0;
  std::int32_t last_result_ = -1;
  std::bitset<65536> joined_;  // by pair_of
  std::vector<AddedToken> added_;  // sorted by name
  std::bitset<256> added_begins_;
};

TokenTables read_tokenizer_json(std::string_view json, std::string_view where);
TokenTables read_tokenizer_model(std::string_view model, std::string_view where);

}  // namespace lapidary::text
