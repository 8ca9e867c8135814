#include "text/detokenizer.hpp"

#include "text/utf8.hpp"

namespace lapidary::text {
namespace {

constexpr std::string_view kReplacement = "\xef\xbf\xbd";  // U+FFFD

}  // namespace

Detokenizer::Detokenizer(const Tokenizer& tokenizer, bool with_specials)
    : tokenizer_(tokenizer), with_specials_(with_specials) {}

std::string Detokenizer::push(std::int32_t id) {
  Origins ignored;
  return push(id, 0, ignored);
}

std::string Detokenizer::finish() {
  Origins ignored;
  return finish(ignored);
}

std::string Detokenizer::push(std::int32_t id, int number, Origins& origins) {
  const PieceKind kind = tokenizer_.kind(id);
  if (kind != PieceKind::byte) {
    std::string text = finish(origins);
    if (kind == PieceKind::special && !with_specials_) return text;
    const std::string_view bytes = tokenizer_.bytes(id);
    origins.add({number, bytes.size()});
    return text.append(bytes);
  }
  pending_ += tokenizer_.bytes(id);
  numbers_.push_back(number);
  std::string text;
  while (!pending_.empty()) {
    const Utf8Step step = utf8_step(pending_);
    if (step.state == Utf8::cut) break;
    text += take_pending(step.bytes, step.state == Utf8::whole ? pending_.substr(0, step.bytes) : std::string(kReplacement), origins);
  }
  return text;
}

std::string Detokenizer::finish(Origins& origins) {
  // Only the beginning of one character is ever pending: one replacement, however many bytes.
  return pending_.empty() ? "" : take_pending(pending_.size(), std::string(kReplacement), origins);
}

// The first pending bytes, as `text`: a byte of it for each id, and the rest for the last.
std::string Detokenizer::take_pending(std::size_t bytes, std::string text, Origins& origins) {
  for (std::size_t i = 0; i + 1 < bytes; ++i) origins.add({numbers_[i], 1});
  origins.add({numbers_[bytes - 1], text.size() - (bytes - 1)});
  pending_.erase(0, bytes);
  numbers_.erase(numbers_.begin(), numbers_.begin() + static_cast<std::ptrdiff_t>(bytes));
  return text;
}

}  // namespace lapidary::text
