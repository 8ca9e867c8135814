#include "text/tokenizer_builder.hpp"

#include <algorithm>
#include <bit>

#include "checkpoint/error.hpp"
#include "checkpoint/json.hpp"
#include "text/utf8.hpp"

namespace lapidary::text {
namespace {

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// "<0x0A>" -> 10; -1 for any other text.
int byte_named(std::string_view text) {
  if (text.size() != 6 || !text.starts_with("<0x") || text[5] != '>') return -1;
  const int high = hex_digit(text[3]), low = hex_digit(text[4]);
  return high < 0 || low < 0 ? -1 : high * 16 + low;
}

// Places of a vocabulary that were never given a meaning.
bool is_placeholder(std::string_view text) {
  constexpr std::string_view kBegin = "<unused";
  if (text == "[multimodal]") return true;
  return text.starts_with(kBegin) && text.ends_with('>') &&
         text.find_first_not_of("0123456789", kBegin.size()) == text.size() - 1;
}

std::string quoted_piece(std::string_view text) { return '"' + printable(text) + '"'; }

}  // namespace

TokenTablesBuilder::TokenTablesBuilder(std::string_view where, std::size_t most_pieces, std::size_t most_merges)
    : where_(where), defined_(most_pieces) {
  arrays_->pieces.resize(most_pieces);
  arrays_->kinds.resize(most_pieces, PieceKind::unused);
  arrays_->merges.resize(std::bit_ceil(2 * most_merges + 2));
  arrays_->merge_seed = {hash_.seed()};
}

void TokenTablesBuilder::refuse(std::string what) const { fail(ErrorKind::bad_value, std::string(where_), std::move(what)); }

// Puts a text into the arena.
ArenaText TokenTablesBuilder::store(std::string_view text, bool marks_are_spaces) {
  std::string& arena = arrays_->arena;
  const auto offset = static_cast<std::uint32_t>(arena.size());
  for (std::size_t mark; marks_are_spaces && (mark = text.find(kSpaceMark)) != text.npos;) {
    arena.append(text.substr(0, mark)) += ' ';
    text.remove_prefix(mark + kSpaceMark.size());
  }
  arena += text;
  return {offset, static_cast<std::uint32_t>(arena.size() - offset)};
}

void TokenTablesBuilder::set_scalar(char32_t scalar, std::int32_t id) {
  std::uint16_t& page = arrays_->page_of[scalar / kScalarPage];
  std::vector<std::int32_t>& scalars = arrays_->scalars;
  if (page == 0) {
    page = static_cast<std::uint16_t>(scalars.size() / kScalarPage);
    scalars.resize(scalars.size() + kScalarPage, -1);
  }
  scalars[page * kScalarPage + scalar % kScalarPage] = id;
}

void TokenTablesBuilder::add_piece(std::int32_t id, std::string_view text) {
  if (id < 0 || static_cast<std::size_t>(id) >= defined_.size()) {
    refuse("id of " + quoted_piece(text) + ", expected less than the number of pieces, " + std::to_string(defined_.size()) + ", got " +
           std::to_string(id));
  }
  const auto place = static_cast<std::size_t>(id);
  if (defined_[place]) {
    refuse("id " + std::to_string(id) + ", expected one piece, got " + quoted_piece(bytes(id)) + " and " + quoted_piece(text));
  }
  defined_[place] = true;
  if (const int byte = byte_named(text); byte >= 0) {
    kind(id) = PieceKind::byte;
    const char spelled = static_cast<char>(byte);
    arrays_->pieces[place] = store({&spelled, 1}, false);
    arrays_->byte_ids[static_cast<std::size_t>(byte)] = id;
    return;
  }
  kind(id) = is_placeholder(text) ? PieceKind::unused : PieceKind::text;
  arrays_->pieces[place] = store(text, true);
  // A piece that is a space itself, not U+2581, is never met: a text's spaces are marks when the merging begins.
  const std::string_view plain = bytes(id);
  if (plain.size() > kMaxPieceBytes)
    refuse("piece " + std::to_string(id) + ", expected at most " + std::to_string(kMaxPieceBytes) + " bytes, got " + std::to_string(plain.size()));
  if (plain.empty() || text == " ") return;
  if (const Utf8Step first = utf8_step(plain); first.bytes == plain.size()) set_scalar(first.scalar, id);
}

void TokenTablesBuilder::add_token(std::int32_t id, std::string_view name, bool special) {
  const std::string token = "added token " + quoted_piece(name) + ", expected ";
  if (name.empty() || name.size() > kMaxPieceBytes)
    refuse(token + "1 to " + std::to_string(kMaxPieceBytes) + " bytes, got " + std::to_string(name.size()));
  if (kind(id) == PieceKind::byte) refuse(token + "a name, got that of a byte");
  const ArenaText stored = store(name, false);
  if (special) {
    kind(id) = PieceKind::special;
    arrays_->pieces[static_cast<std::size_t>(id)] = stored;
    // Only its name in a text that may have special tokens gives a special token.
    if (const Utf8Step first = utf8_step(name); first.bytes == name.size()) set_scalar(first.scalar, -1);
  }
  arrays_->added.push_back({stored, id});
  arrays_->begins_added[static_cast<unsigned char>(name[0])] = true;
}

void TokenTablesBuilder::add_merge(std::int32_t left, std::int32_t right, std::int32_t result) {
  const auto complain = [&](const char* problem) {
    refuse("merge " + std::to_string(merge_count_) + " of " + quoted_piece(bytes(left)) + " and " + quoted_piece(bytes(right)) +
           ", expected " + problem);
  };
  // Every id then stands for the very bytes of text it covers, which is what may_cut() relies on.
  if (kind(left) == PieceKind::byte || kind(right) == PieceKind::byte || kind(result) == PieceKind::byte)
    complain("text, got a byte token");
  if (kind(result) == PieceKind::special) complain("text, got a special token");
  Merge& merge = arrays_->merges[place_of(arrays_->merges, hash_, left, right)];
  if (merge.left >= 0) complain("a pair once, got it twice");
  merge = {left, right, merge_count_++, result};
  if (result == last_result_) return;  // most pieces have several merges, one after the other
  last_result_ = result;
  const std::string_view joined = bytes(result);
  for (std::size_t i = 1; i < joined.size(); ++i) {
    const std::size_t pair = std::size_t{static_cast<unsigned char>(joined[i - 1])} << 8 | static_cast<unsigned char>(joined[i]);
    arrays_->joined[pair / 32] |= 1u << pair % 32;
  }
}

TokenTables TokenTablesBuilder::finish() && {
  while (!defined_.empty() && !defined_.back()) defined_.pop_back();
  if (const auto hole = std::ranges::find(defined_, false); hole != defined_.end())
    refuse("id " + std::to_string(hole - defined_.begin()) + ", expected a piece, got none");
  if (const auto hole = std::ranges::find(arrays_->byte_ids, -1); hole != arrays_->byte_ids.end())
    refuse("byte tokens, expected <0x00> to <0xFF>, got none for byte " + std::to_string(hole - arrays_->byte_ids.begin()));
  const auto name_of = [this](const AddedToken& token) { return text(token.name); };
  std::ranges::sort(arrays_->added, {}, name_of);
  if (const auto twice = std::ranges::adjacent_find(arrays_->added, {}, name_of); twice != arrays_->added.end())
    refuse("added token " + quoted_piece(name_of(*twice)) + ", expected once, got it twice");
  arrays_->pieces.resize(defined_.size());
  arrays_->kinds.resize(defined_.size());
  std::size_t memory_bytes = sizeof(Arrays);
  TokenArrays::each(*arrays_, [&](auto& array) {
    array.shrink_to_fit();
    memory_bytes += array.capacity() * sizeof(array[0]);
  });
  const Arrays& done = *arrays_;
  const TokenArrays shown{.arena = done.arena, .pieces = done.pieces, .kinds = done.kinds, .page_of = done.page_of,
                          .scalars = done.scalars, .byte_ids = done.byte_ids, .merges = done.merges,
                          .merge_seed = done.merge_seed, .joined = done.joined, .added = done.added,
                          .begins_added = done.begins_added};
  return TokenTables(shown, std::move(arrays_), memory_bytes);
}

}  // namespace lapidary::text
