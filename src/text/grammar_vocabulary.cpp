#include "text/grammar_vocabulary.hpp"

#include <algorithm>
#include <optional>

#include "checkpoint/error.hpp"
#include "checkpoint/flat.hpp"
#include "text/chat_format.hpp"
#include "text/grammar.hpp"
#include "text/grammar_json.hpp"
#include "text/utf8.hpp"

namespace lapidary::text {
namespace {

constexpr std::size_t kMaxSpelledBytes = 1024;

std::vector<Vocabulary::Piece> pieces_of(const Tokenizer& tokenizer) {
  std::vector<Vocabulary::Piece> pieces;
  for (std::int32_t id = 0; id < tokenizer.size(); ++id) pieces.push_back({tokenizer.bytes(id), tokenizer.kind(id)});
  return pieces;
}

std::vector<Vocabulary::Piece> pieces_of_calls(const Tokenizer& tokenizer, std::int32_t quote) {
  static constexpr std::string_view kQuotePiece(&kQuoteByte, 1);
  std::vector<Vocabulary::Piece> pieces = pieces_of(tokenizer);
  for (Vocabulary::Piece& piece : pieces) {
    if (piece.bytes == kQuotePiece) piece.kind = PieceKind::unused;
  }
  pieces[static_cast<std::size_t>(quote)] = {kQuotePiece, PieceKind::text};
  return pieces;
}

// The number of characters of a plain piece.
std::optional<std::uint32_t> plain_characters(std::string_view bytes) {
  std::uint32_t count = 0;
  while (!bytes.empty()) {
    const Utf8Step step = utf8_step(bytes);
    if (step.state != Utf8::whole || step.scalar < 0x20 || step.scalar == '"' || step.scalar == '\\') return std::nullopt;
    if (++count > kMaxPlainCharacters) return std::nullopt;
    bytes.remove_prefix(step.bytes);
  }
  return count;
}

bool is_text(const Vocabulary::Piece& piece) {
  return (piece.kind == PieceKind::text || piece.kind == PieceKind::byte) && piece.bytes.size() <= kMaxSpelledBytes;
}

struct Entry {
  std::uint64_t start;  // the first eight bytes, which decide most comparisons
  std::string_view bytes;
  std::int32_t id;

  Entry(std::string_view text, std::int32_t token) : start(0), bytes(text), id(token) {
    for (std::size_t i = 0; i < 8; ++i) start = start << 8 | (i < text.size() ? static_cast<unsigned char>(text[i]) : 0u);
  }
  bool operator<(const Entry& other) const {
    if (start != other.start) return start < other.start;
    const int order = bytes.compare(other.bytes);
    return order != 0 ? order < 0 : id < other.id;
  }
};

// What VocabularyArrays shows.
struct OwnTree {
  std::vector<TokenTree::Node> nodes;
  std::vector<std::int32_t> tokens;

  TokenTree shown() const { return {nodes, tokens}; }
};
struct OwnArrays {
  std::string bytes;
  std::vector<std::uint32_t> ends;
  std::vector<std::uint8_t> special;
  OwnTree all, not_plain;
  std::vector<std::uint32_t> plain;
};

// `entries` is ascending.
OwnTree tree_of(std::span<const Entry> entries) {
  OwnTree tree;
  std::vector<std::uint32_t> path;  // the nodes of the last entry's bytes
  const auto close_below = [&](std::size_t depth) {
    for (; path.size() > depth; path.pop_back()) tree.nodes[path.back()].end = static_cast<std::uint32_t>(tree.nodes.size());
  };
  std::string_view last;
  for (const Entry& entry : entries) {
    const auto fork = std::ranges::mismatch(last, entry.bytes).in2 - entry.bytes.begin();
    close_below(static_cast<std::size_t>(fork));
    for (std::size_t i = path.size(); i < entry.bytes.size(); ++i) {
      path.push_back(static_cast<std::uint32_t>(tree.nodes.size()));
      tree.nodes.push_back({0, static_cast<std::uint32_t>(tree.tokens.size()), static_cast<std::uint16_t>(i + 1),
                            static_cast<unsigned char>(entry.bytes[i])});
    }
    tree.tokens.push_back(entry.id);
    last = entry.bytes;
  }
  close_below(0);
  tree.nodes.push_back({0, static_cast<std::uint32_t>(tree.tokens.size()), 0, 0});
  return tree;
}

// What a grammar may have to read one byte at a time, lest it gets stuck: all bytes of UTF-8.
void check_bytes(std::span<const Entry> entries) {
  std::vector<bool> found(256);
  for (const Entry& entry : entries) {
    if (entry.bytes.size() == 1) found[static_cast<unsigned char>(entry.bytes[0])] = true;
  }
  for (int byte = 0; byte < 0xf5; ++byte) {
    if (found[static_cast<std::size_t>(byte)] || byte == 0xc0 || byte == 0xc1) continue;
    fail(ErrorKind::unsupported, "tokenizer", "tokens of one byte, expected one for each byte of UTF-8, got none for byte " +
                                                  std::to_string(byte));
  }
}

}  // namespace

Vocabulary::Vocabulary(const Tokenizer& tokenizer) : Vocabulary(pieces_of(tokenizer)) {}

Vocabulary::Vocabulary(const Tokenizer& tokenizer, std::int32_t quote) : Vocabulary(pieces_of_calls(tokenizer, quote)) {}

Vocabulary::Vocabulary(std::span<const Piece> pieces) {
  const auto own = std::make_shared<OwnArrays>();
  own->ends.reserve(pieces.size());
  own->special.reserve(pieces.size());
  for (const Piece& piece : pieces) {
    if (is_text(piece)) own->bytes += piece.bytes;
    own->ends.push_back(static_cast<std::uint32_t>(own->bytes.size()));
    own->special.push_back(piece.kind == PieceKind::special);
  }
  arrays_.bytes = own->bytes;
  arrays_.ends = own->ends;
  const std::size_t words = mask_words(size());
  std::vector<std::uint32_t>& plain = own->plain;
  plain.resize(words * kMaxPlainCharacters);
  std::vector<Entry> all, not_plain;
  for (std::int32_t id = 0; id < size(); ++id) {
    if (bytes(id).empty()) continue;
    all.emplace_back(bytes(id), id);
    if (const auto characters = plain_characters(bytes(id))) {
      plain[(*characters - 1) * words + static_cast<std::size_t>(id / 32)] |= 1u << (id % 32);
    } else {
      not_plain.emplace_back(bytes(id), id);
    }
  }
  for (std::size_t i = words; i < plain.size(); ++i) plain[i] |= plain[i - words];
  check_bytes(all);
  std::ranges::sort(all, std::less());
  std::ranges::sort(not_plain, std::less());
  own->all = tree_of(all);
  own->not_plain = tree_of(not_plain);
  memory_bytes_ = sizeof(OwnArrays);
  VocabularyArrays::each(*own, [&](auto& array) {
    array.shrink_to_fit();
    memory_bytes_ += array.capacity() * sizeof(array[0]);
  });
  arrays_ = {.bytes = own->bytes, .ends = own->ends, .special = own->special, .all = own->all.shown(),
             .not_plain = own->not_plain.shown(), .plain = plain};
  keeper_ = own;
}

Vocabulary Vocabulary::take(FlatReader& reader, const std::string& where) {
  VocabularyArrays arrays;
  VocabularyArrays::each(arrays, [&](auto& array) { reader.take(array); });
  const auto words = mask_words(static_cast<std::int32_t>(arrays.ends.size()));
  if (arrays.special.size() != arrays.ends.size() || arrays.plain.size() != words * kMaxPlainCharacters ||
      arrays.all.nodes.empty() || arrays.not_plain.nodes.empty())
    fail(ErrorKind::bad_value, where, "tables of the grammar's vocabulary, expected their sizes, got others");
  return Vocabulary(arrays);
}

void Vocabulary::put(FlatWriter& writer) const {
  VocabularyArrays::each(arrays_, [&](const auto& array) { writer.put(array); });
}

namespace {

constexpr std::string_view kCallTokens[] = {"<|tool_call>", "<tool_call|>", kQuote};

}  // namespace

bool has_calls(const Tokenizer& tokenizer) {
  return std::ranges::all_of(kCallTokens, [&](std::string_view name) { return tokenizer.special(name).has_value(); });
}

std::shared_ptr<const Vocabulary> call_vocabulary(const Tokenizer& tokenizer) {
  for (const std::string_view name : kCallTokens) {
    if (tokenizer.special(name)) continue;
    fail(ErrorKind::unsupported, "tokenizer", "special tokens, expected " + std::string(name) + " among them, got none");
  }
  return std::make_shared<const Vocabulary>(tokenizer, *tokenizer.special(kQuote));
}

std::size_t Vocabulary::most_bytes(const Tokenizer& tokenizer) {
  const auto tree_bytes = [](std::size_t nodes, std::size_t tokens) {
    return (nodes + 1) * sizeof(TokenTree::Node) + tokens * sizeof(std::int32_t);
  };
  std::size_t text = 0, odd_text = 0, odd_tokens = 0;  // odd: not plain
  for (std::int32_t id = 0; id < tokenizer.size(); ++id) {
    const Piece piece{tokenizer.bytes(id), tokenizer.kind(id)};
    if (!is_text(piece)) continue;
    text += piece.bytes.size();
    if (plain_characters(piece.bytes)) continue;
    odd_text += piece.bytes.size();
    ++odd_tokens;
  }
  const auto size = static_cast<std::size_t>(tokenizer.size());
  return sizeof(Vocabulary) + sizeof(OwnArrays) + text + size * sizeof(std::uint32_t) + size + tree_bytes(text, size) +
         tree_bytes(odd_text, odd_tokens) + kMaxPlainCharacters * mask_words(tokenizer.size()) * sizeof(std::uint32_t);
}

std::string_view Vocabulary::bytes(std::int32_t id) const {
  if (!has(id)) return {};
  const auto i = static_cast<std::size_t>(id);
  const std::size_t begin = i == 0 ? 0 : arrays_.ends[i - 1];
  return {arrays_.bytes.data() + begin, arrays_.ends[i] - begin};
}

std::span<const std::uint32_t> Vocabulary::plain(std::uint32_t characters) const {
  const std::size_t words = mask_words(size());
  return arrays_.plain.subspan((characters - 1) * words, words);
}

}  // namespace lapidary::text
