#include "text/tokenizer_tables.hpp"

#include <algorithm>

#include "checkpoint/error.hpp"
#include "checkpoint/json.hpp"
#include "text/utf8.hpp"

namespace lapidary::text {
namespace {

constexpr std::string_view kSpaceMark = "\xe2\x96\x81";  // U+2581, how a vocabulary writes a space
constexpr std::size_t kMaxAddedBytes = 256;             // bounds the work at every position of a text

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

std::string in_quotes(std::string_view text) { return '"' + printable(text) + '"'; }

}  // namespace

ScalarTable::Page ScalarTable::empty_page() {
  Page page;
  page.fill(-1);
  return page;
}

void ScalarTable::set(char32_t scalar, std::int32_t id) {
  std::uint16_t& page = page_of_[scalar >> 8];
  if (page == 0) {
    page = static_cast<std::uint16_t>(pages_.size());
    pages_.push_back(empty_page());
  }
  pages_[page][scalar & 0xff] = id;
}

TokenTables::TokenTables(std::string_view where, std::size_t most_pieces, std::size_t most_merges)
    : where_(where), pieces_(most_pieces), merges_(most_merges) {
  byte_ids_.fill(-1);
}

void TokenTables::refuse(std::string what) const { fail(ErrorKind::bad_value, std::string(where_), std::move(what)); }

// Puts the bytes of a piece into the arena.
void TokenTables::store(Piece& piece, std::string_view text, bool marks_are_spaces) {
  piece.offset = static_cast<std::uint32_t>(arena_.size());
  for (std::size_t mark; marks_are_spaces && (mark = text.find(kSpaceMark)) != text.npos;) {
    arena_.append(text.substr(0, mark)) += ' ';
    text.remove_prefix(mark + kSpaceMark.size());
  }
  arena_ += text;
  piece.bytes = static_cast<std::uint32_t>(arena_.size() - piece.offset);
}

void TokenTables::add_piece(std::int32_t id, std::string_view text) {
  if (id < 0 || id >= size()) {
    refuse("id of " + in_quotes(text) + ", expected less than the number of pieces, " + std::to_string(size()) + ", got " +
           std::to_string(id));
  }
  Piece& piece = pieces_[id];
  if (piece.defined) {
    refuse("id " + std::to_string(id) + ", expected one piece, got " + in_quotes(bytes(id)) + " and " + in_quotes(text));
  }
  piece.defined = true;
  if (const int byte = byte_named(text); byte >= 0) {
    piece.kind = PieceKind::byte;
    const char spelled = static_cast<char>(byte);
    store(piece, {&spelled, 1}, false);
    byte_ids_[byte] = id;
    return;
  }
  piece.kind = is_placeholder(text) ? PieceKind::unused : PieceKind::text;
  store(piece, text, true);
  // A piece that is a space itself, not U+2581, is never met: a text's spaces are marks when the merging begins.
  const std::string_view plain = bytes(id);
  if (plain.empty() || text == " ") return;
  if (const Utf8Step first = utf8_step(plain); first.bytes == plain.size()) scalars_.set(first.scalar, id);
}

void TokenTables::add_token(std::int32_t id, std::string_view name, bool special) {
  Piece& piece = pieces_[id];
  const std::string token = "added token " + in_quotes(name) + ", expected ";
  if (name.empty() || name.size() > kMaxAddedBytes)
    refuse(token + "1 to " + std::to_string(kMaxAddedBytes) + " bytes, got " + std::to_string(name.size()));
  if (piece.kind == PieceKind::byte) refuse(token + "a name, got that of a byte");
  if (special) {
    piece.kind = PieceKind::special;
    store(piece, name, false);
    // Only its name in a text that may have special tokens gives a special token.
    if (const Utf8Step first = utf8_step(name); first.bytes == name.size()) scalars_.set(first.scalar, -1);
  }
  added_.push_back({std::string(name), id});
  added_begins_.set(static_cast<unsigned char>(name[0]));
}

void TokenTables::add_merge(std::int32_t left, std::int32_t right, std::int32_t result) {
  const auto complain = [&](const char* problem) {
    refuse("merge " + std::to_string(merge_count_) + " of " + in_quotes(bytes(left)) + " and " + in_quotes(bytes(right)) +
           ", expected " + problem);
  };
  // Every id then stands for the very bytes of text it covers, which is what may_cut() relies on.
  if (kind(left) == PieceKind::byte || kind(right) == PieceKind::byte || kind(result) == PieceKind::byte)
    complain("text, got a byte token");
  if (kind(result) == PieceKind::special) complain("text, got a special token");
  if (!merges_.insert({left, right, merge_count_, result})) complain("a pair once, got it twice");
  ++merge_count_;
  if (result == last_result_) return;  // most pieces have several merges, one after the other
  last_result_ = result;
  const std::string_view joined = bytes(result);
  for (std::size_t i = 1; i < joined.size(); ++i)
    joined_.set(pair_of(static_cast<unsigned char>(joined[i - 1]), static_cast<unsigned char>(joined[i])));
}

void TokenTables::finish() {
  while (!pieces_.empty() && !pieces_.back().defined) pieces_.pop_back();
  if (const auto hole = std::ranges::find(pieces_, false, &Piece::defined); hole != pieces_.end())
    refuse("id " + std::to_string(hole - pieces_.begin()) + ", expected a piece, got none");
  if (const auto hole = std::ranges::find(byte_ids_, -1); hole != byte_ids_.end())
    refuse("byte tokens, expected <0x00> to <0xFF>, got none for byte " + std::to_string(hole - byte_ids_.begin()));
  std::ranges::sort(added_, {}, &AddedToken::name);
  if (const auto twice = std::ranges::adjacent_find(added_, {}, &AddedToken::name); twice != added_.end())
    refuse("added token " + in_quotes(twice->name) + ", expected once, got it twice");
  arena_.shrink_to_fit();
  where_ = {};
}

std::size_t TokenTables::memory_bytes() const {
  std::size_t added = added_.capacity() * sizeof(AddedToken);
  for (const AddedToken& token : added_) added += token.name.capacity();
  return sizeof(TokenTables) + arena_.capacity() + pieces_.capacity() * sizeof(Piece) + scalars_.memory_bytes() +
         merges_.memory_bytes() + added;
}

std::optional<std::int32_t> TokenTables::special(std::string_view name) const {
  const auto found = std::ranges::lower_bound(added_, name, std::less<std::string_view>{}, &AddedToken::name);
  if (found == added_.end() || found->name != name || kind(found->id) != PieceKind::special) return std::nullopt;
  return found->id;
}

std::optional<TokenTables::Added> TokenTables::added_at(std::string_view text, std::size_t special_bytes) const {
  std::optional<Added> longest;
  // The names that agree with the text so far, fewer with every byte; the shortest of them comes first.
  auto begin = added_.begin(), end = added_.end();
  for (std::size_t length = 0; length < text.size(); ++length) {
    const auto byte = [length](const AddedToken& token) {
      return length < token.name.size() ? static_cast<unsigned char>(token.name[length]) : -1;
    };
    const auto same = std::ranges::equal_range(begin, end, static_cast<unsigned char>(text[length]), {}, byte);
    begin = same.begin();
    end = same.end();
    if (begin == end) break;
    const bool complete = begin->name.size() == length + 1;
    if (complete && (kind(begin->id) != PieceKind::special || length < special_bytes)) longest = {begin->id, length + 1};
  }
  return longest;
}

}  // namespace lapidary::text
