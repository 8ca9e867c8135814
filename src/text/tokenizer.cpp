#include "text/tokenizer.hpp"

#include "checkpoint/error.hpp"
#include "text/tokenizer_bpe.hpp"
#include "text/tokenizer_tables.hpp"

namespace lapidary::text {
namespace {

// A stretch of one text with one treatment of special tokens. Neighbours differ.
struct Stretch {
  std::size_t end;
  Specials specials;
};

// Added tokens are found first, from left to right, the longest at each place; what lies between them is merged.
std::vector<std::int32_t> encode_stretches(const TokenTables& tables, std::string_view text, std::span<const Stretch> stretches) {
  if (text.size() >= UINT32_MAX) {
    fail(ErrorKind::usage, "text", "length, expected less than 4294967295 bytes, got " + std::to_string(text.size()));
  }
  std::vector<std::int32_t> ids;
  BpeEncoder encoder(tables, ids);
  std::size_t at = 0, encoded = 0;
  for (const Stretch& stretch : stretches) {
    while (at < stretch.end) {
      std::optional<TokenTables::Added> token;
      if (tables.may_begin_added(text[at]))
        token = tables.added_at(text.substr(at), stretch.specials == Specials::recognise ? stretch.end - at : 0);
      if (!token) {
        ++at;
        continue;
      }
      encoder.encode(text.substr(encoded, at - encoded));
      ids.push_back(token->id);
      encoded = at += token->bytes;
    }
  }
  encoder.encode(text.substr(encoded));
  return ids;
}

}  // namespace

Tokenizer::Tokenizer(TokenTables tables) : tables_(std::make_unique<const TokenTables>(std::move(tables))) {}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

Tokenizer Tokenizer::take(FlatReader& reader, const std::string& where, std::shared_ptr<const void> keeper) {
  return Tokenizer(TokenTables::take(reader, where, std::move(keeper)));
}

void Tokenizer::put(FlatWriter& writer) const { tables_->put(writer); }

std::vector<std::int32_t> Tokenizer::encode(std::string_view text, Specials specials) const {
  const Stretch run{text.size(), specials};
  return encode_stretches(*tables_, text, {&run, 1});
}

std::vector<std::int32_t> Tokenizer::encode(std::span<const Span> spans) const {
  std::string text;
  std::vector<Stretch> stretches;
  for (const Span& span : spans) {
    text += span.text;
    if (stretches.empty() || stretches.back().specials != span.specials) stretches.push_back({0, span.specials});
    stretches.back().end = text.size();
  }
  return encode_stretches(*tables_, text, stretches);
}

std::size_t Tokenizer::memory_bytes() const { return tables_->memory_bytes(); }

std::int32_t Tokenizer::size() const { return tables_->size(); }

PieceKind Tokenizer::kind(std::int32_t id) const {
  return id >= 0 && id < size() ? tables_->kind(id) : PieceKind::unused;
}

std::string_view Tokenizer::bytes(std::int32_t id) const {
  return id >= 0 && id < size() ? tables_->bytes(id) : std::string_view();
}

std::optional<std::int32_t> Tokenizer::special(std::string_view name) const { return tables_->special(name); }

}  // namespace lapidary::text
