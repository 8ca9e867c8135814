// Any bytes as tokenizer.json: an Error, or a tokenizer that gives back any bytes as text.
#include <cstdint>
#include <cstdlib>

#include "checkpoint/error.hpp"
#include "text/tokenizer.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  try {
    const auto tokenizer = lapidary::text::Tokenizer::parse(input, "fuzz");
    std::string text, expected;
    for (const std::int32_t id : tokenizer.encode(input, lapidary::text::Specials::as_text)) {
      if (tokenizer.kind(id) == lapidary::text::PieceKind::special) std::abort();
      text += tokenizer.bytes(id);
    }
    expected = input;
    for (std::size_t at; (at = expected.find("\u2581")) != expected.npos;) expected.replace(at, 3, " ");
    if (text != expected) std::abort();
  } catch (const lapidary::Error&) {
  }
  return 0;
}
