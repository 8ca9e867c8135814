#include "text/tokenizer_tables.hpp"

#include <algorithm>
#include <bit>

namespace lapidary::text {

TokenTables TokenTables::take(FlatReader& reader, const std::string& where, std::shared_ptr<const void> keeper) {
  TokenArrays arrays;
  TokenArrays::each(arrays, [&](auto& array) { reader.take(array); });
  const bool sizes_fit = arrays.kinds.size() == arrays.pieces.size() && arrays.page_of.size() == kScalarPages &&
                         arrays.scalars.size() % kScalarPage == 0 && arrays.byte_ids.size() == 256 &&
                         std::has_single_bit(arrays.merges.size()) && arrays.merge_seed.size() == 1 &&
                         arrays.joined.size() == 65536 / 32 && arrays.begins_added.size() == 256;
  if (!sizes_fit) fail(ErrorKind::bad_value, where, "tables of the tokenizer, expected their sizes, got others");
  return TokenTables(arrays, std::move(keeper), 0);
}

void TokenTables::put(FlatWriter& writer) const {
  TokenArrays::each(arrays_, [&](const auto& array) { writer.put(array); });
}

std::optional<std::int32_t> TokenTables::special(std::string_view name) const {
  const auto name_of = [this](const AddedToken& token) { return text(token.name); };
  const auto found = std::ranges::lower_bound(arrays_.added, name, {}, name_of);
  if (found == arrays_.added.end() || name_of(*found) != name || kind(found->id) != PieceKind::special) return std::nullopt;
  return found->id;
}

std::optional<TokenTables::Added> TokenTables::added_at(std::string_view text, std::size_t special_bytes) const {
  std::optional<Added> longest;
  // The names that agree with the text so far, fewer with every byte; the shortest of them comes first.
  auto begin = arrays_.added.begin(), end = arrays_.added.end();
  for (std::size_t length = 0; length < text.size(); ++length) {
    const auto byte = [&](const AddedToken& token) {
      return length < token.name.bytes ? static_cast<unsigned char>(this->text(token.name)[length]) : -1;
    };
    const auto same = std::ranges::equal_range(begin, end, static_cast<unsigned char>(text[length]), {}, byte);
    begin = same.begin();
    end = same.end();
    if (begin == end) break;
    const bool complete = begin->name.bytes == length + 1;
    if (complete && (kind(begin->id) != PieceKind::special || length < special_bytes)) longest = {begin->id, length + 1};
  }
  return longest;
}

}  // namespace lapidary::text
