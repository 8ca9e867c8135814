#include "text/detokenizer.hpp"

#include "text/utf8.hpp"

namespace lapidary::text {
namespace {

constexpr std::string_view kReplacement = "\xef\xbf\xbd";  // U+FFFD

}  // namespace

Detokenizer::Detokenizer(const Tokenizer& tokenizer, bool with_specials)
    : tokenizer_(tokenizer), with_specials_(with_specials) {}

std::string Detokenizer::push(std::int32_t id) {
  const PieceKind kind = tokenizer_.kind(id);
  if (kind != PieceKind::byte) {
    std::string text = finish();
    if (kind != PieceKind::special || with_specials_) text += tokenizer_.bytes(id);
    return text;
  }
  pending_ += tokenizer_.bytes(id);
  std::string text;
  while (!pending_.empty()) {
    const Utf8Step step = utf8_step(pending_);
    if (step.state == Utf8::cut) break;
    text += step.state == Utf8::whole ? std::string_view(pending_).substr(0, step.bytes) : kReplacement;
    pending_.erase(0, step.bytes);
  }
  return text;
}

std::string Detokenizer::finish() {
  // Only the beginning of one character is ever pending: one replacement, however many bytes.
  std::string text(pending_.empty() ? "" : kReplacement);
  pending_.clear();
  return text;
}

}  // namespace lapidary::text
