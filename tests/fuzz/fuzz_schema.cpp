// Any bytes as a JSON schema: an Error, or a grammar under which a short walk and its end never get stuck.
#include <cstdint>
#include <cstdlib>

#include "checkpoint/error.hpp"
#include "text/grammar.hpp"
#include "text/grammar_vocabulary.hpp"

namespace {

using namespace lapidary::text;

std::shared_ptr<const Vocabulary> bytes_only() {
  std::string bytes;
  for (int byte = 0; byte < 256; ++byte) bytes += static_cast<char>(byte);
  std::vector<Vocabulary::Piece> pieces;
  for (std::size_t i = 0; i < bytes.size(); ++i) pieces.push_back({std::string_view(bytes).substr(i, 1), PieceKind::byte});
  return std::make_shared<const Vocabulary>(pieces);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const auto vocabulary = bytes_only();
  try {
    const Value schema = parse_json(std::string_view(reinterpret_cast<const char*>(data), size), "fuzz");
    GrammarState state(Grammar::schema(vocabulary, schema));
    std::vector<std::uint32_t> mask(mask_words(vocabulary->size()));
    for (int step = 0; step < 64; ++step) {
      state.fill_mask(mask, {});
      int next = -1;
      for (int i = 0; i < 256 && next < 0; ++i) {
        const int byte = (i + 37 * step + static_cast<int>(size)) % 256;  // some order, not always the same
        const bool allowed = mask[static_cast<std::size_t>(byte / 32)] >> (byte % 32) & 1;
        if (allowed != state.allows(byte)) std::abort();
        if (allowed) next = byte;
      }
      if (next < 0 && !state.complete()) std::abort();
      if (next < 0) break;
      if (!state.accept(next)) std::abort();
    }
  } catch (const lapidary::Error&) {
  }
  return 0;
}
