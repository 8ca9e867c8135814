// Fills the tables of a tokenizer; for the readers of tokenizer.json and tokenizer.model.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer_tables.hpp"

namespace lapidary::text {

inline constexpr std::string_view kSpaceMark = "\xe2\x96\x81";  // U+2581, how a vocabulary writes a space

class TokenTablesBuilder {
 public:
  // Pieces, then added tokens, then merges in the order of their ranks, then finish(). A contradiction is an Error about `where`,
  // which must outlive the builder.
  TokenTablesBuilder(std::string_view where, std::size_t most_pieces, std::size_t most_merges);
  void add_piece(std::int32_t id, std::string_view text);  // U+2581 stands for a space
  void add_token(std::int32_t id, std::string_view name, bool special);  // of a piece that is there
  void add_merge(std::int32_t left, std::int32_t right, std::int32_t result);
  TokenTables finish() &&;

 private:
  // What TokenArrays shows.
  struct Arrays {
    std::string arena;
    std::vector<ArenaText> pieces;
    std::vector<PieceKind> kinds;
    std::vector<std::uint16_t> page_of = std::vector<std::uint16_t>(kScalarPages);
    std::vector<std::int32_t> scalars = std::vector<std::int32_t>(kScalarPage, -1);
    std::vector<std::int32_t> byte_ids = std::vector<std::int32_t>(256, -1);
    std::vector<Merge> merges;  // at most half of the places are taken
    std::vector<std::uint64_t> merge_seed;
    std::vector<std::uint32_t> joined = std::vector<std::uint32_t>(65536 / 32);
    std::vector<AddedToken> added;
    std::vector<std::uint8_t> begins_added = std::vector<std::uint8_t>(256);
  };

  [[noreturn]] void refuse(std::string what) const;
  ArenaText store(std::string_view text, bool marks_are_spaces);
  void set_scalar(char32_t scalar, std::int32_t id);
  std::string_view text(ArenaText at) const { return std::string_view(arrays_->arena).substr(at.offset, at.bytes); }
  std::string_view bytes(std::int32_t id) const { return text(arrays_->pieces[static_cast<std::size_t>(id)]); }
  PieceKind& kind(std::int32_t id) const { return arrays_->kinds[static_cast<std::size_t>(id)]; }

  std::string_view where_;
  std::shared_ptr<Arrays> arrays_ = std::make_shared<Arrays>();
  std::vector<bool> defined_;  // by id
  Hash hash_;
  std::uint32_t merge_count_ = 0;
  std::int32_t last_result_ = -1;
};

}  // namespace lapidary::text
