// What a tokenizer knows, as flat arrays that encoding only looks up in. Where they lie, in the memory of who read a tokenizer's
// file or in a mapped one, makes no difference.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "checkpoint/flat.hpp"
#include "text/tokenizer.hpp"
#include "text/tokenizer_hash.hpp"

namespace lapidary::text {

inline constexpr std::size_t kScalarPage = 256;     // characters
inline constexpr std::size_t kScalarPages = 0x1100;  // of all characters

// A text in the arena.
struct ArenaText {
  std::uint32_t offset = 0, bytes = 0;
};
struct AddedToken {
  ArenaText name;
  std::int32_t id = -1;
};

struct TokenArrays {
  std::span<const char> arena;
  std::span<const ArenaText> pieces;           // by id
  std::span<const PieceKind> kinds;            // by id
  std::span<const std::uint16_t> page_of;      // [kScalarPages] characters in pages, of which most do not exist: page 0, the empty one
  std::span<const std::int32_t> scalars;       // [pages, kScalarPage] ids of single characters, -1 = none
  std::span<const std::int32_t> byte_ids;      // [256]
  std::span<const Merge> merges;               // places of a hash
  std::span<const std::uint64_t> merge_seed;   // [1] of that hash
  std::span<const std::uint32_t> joined;       // a bit for each pair of bytes that some merge brings together
  std::span<const AddedToken> added;           // sorted by name
  std::span<const std::uint8_t> begins_added;  // [256] whether some name begins with this byte

  // In the order in which they stand in a file.
  template <class Arrays, class Visit>
  static void each(Arrays& arrays, Visit&& visit) {
    visit(arrays.arena), visit(arrays.pieces), visit(arrays.kinds), visit(arrays.page_of), visit(arrays.scalars);
    visit(arrays.byte_ids), visit(arrays.merges), visit(arrays.merge_seed), visit(arrays.joined), visit(arrays.added);
    visit(arrays.begins_added);
  }
};

class TokenTables {
 public:
  // `keeper` keeps the arrays in memory; `memory_bytes` of them are its own.
  TokenTables(const TokenArrays& arrays, std::shared_ptr<const void> keeper, std::size_t memory_bytes)
      : arrays_(arrays), hash_(arrays.merge_seed[0]), keeper_(std::move(keeper)), memory_bytes_(memory_bytes) {}
  // As put() left them. What is in the arrays is taken as it is: whoever maps them has to know that they are whole.
  static TokenTables take(FlatReader& reader, const std::string& where, std::shared_ptr<const void> keeper);
  void put(FlatWriter& writer) const;

  std::size_t memory_bytes() const { return sizeof(TokenTables) + memory_bytes_; }
  std::int32_t size() const { return static_cast<std::int32_t>(arrays_.pieces.size()); }
  PieceKind kind(std::int32_t id) const { return arrays_.kinds[static_cast<std::size_t>(id)]; }
  std::string_view bytes(std::int32_t id) const { return text(arrays_.pieces[static_cast<std::size_t>(id)]); }
  std::optional<std::int32_t> special(std::string_view name) const;

  // The longest added token at the beginning of `text`; a special one only within the first `special_bytes`.
  struct Added {
    std::int32_t id;
    std::size_t bytes;
  };
  std::optional<Added> added_at(std::string_view text, std::size_t special_bytes) const;
  bool may_begin_added(char byte) const { return arrays_.begins_added[static_cast<unsigned char>(byte)]; }

  // For text with spaces as spaces. The id of a character, -1 when it has to be spelled in bytes.
  std::int32_t scalar(char32_t scalar) const {
    return arrays_.scalars[arrays_.page_of[scalar / kScalarPage] * kScalarPage + scalar % kScalarPage];
  }
  std::int32_t byte(char byte) const { return arrays_.byte_ids[static_cast<unsigned char>(byte)]; }
  // nullptr when the pair does not merge.
  const Merge* merge(std::int32_t left, std::int32_t right) const {
    const Merge& found = arrays_.merges[place_of(arrays_.merges, hash_, left, right)];
    return found.left >= 0 ? &found : nullptr;
  }
  // Text may be cut between two bytes that no merge ever brings together.
  bool may_cut(unsigned char before, unsigned char after) const {
    const std::size_t pair = std::size_t{before} << 8 | after;
    return !(arrays_.joined[pair / 32] >> pair % 32 & 1);
  }

 private:
  std::string_view text(ArenaText at) const { return {arrays_.arena.data() + at.offset, at.bytes}; }

  TokenArrays arrays_;
  Hash hash_;
  std::shared_ptr<const void> keeper_;
  std::size_t memory_bytes_;
};

TokenTables read_tokenizer_json(std::string_view json, std::string_view where);
TokenTables read_tokenizer_model(std::string_view model, std::string_view where);

}  // namespace lapidary::text
