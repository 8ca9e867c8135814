// Text to token ids and back, from a checkpoint's tokenizer.json or tokenizer.model.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lapidary {
class FlatReader;
class FlatWriter;
}  // namespace lapidary

namespace lapidary::text {

enum class Specials : std::uint8_t {
  recognise,  // "<|turn>" in the text becomes its id: for what a template wrote
  as_text,    // it becomes ordinary pieces: for what a user wrote
};

// A stretch of text with one treatment of special tokens. Neighbours are merged as if they were one text.
struct Span {
  std::string text;
  Specials specials = Specials::recognise;
};

// No piece is longer, as text. It bounds the work at every position of a text, and how long a text of so many tokens can be.
inline constexpr std::size_t kMaxPieceBytes = 256;

class TokenTables;

enum class PieceKind : std::uint8_t { text, byte, special, unused };

class Tokenizer {
 public:
  // `folder` holds tokenizer.json, or only tokenizer.model.
  static Tokenizer open(const std::string& folder);
  static bool is_in(const std::string& folder);
  // The content of a tokenizer.json. `where` names it in errors.
  static Tokenizer parse(std::string_view json, std::string_view where);
  // As put() left it among other tables, which must outlive it; `keeper` sees to that.
  static Tokenizer take(FlatReader& reader, const std::string& where, std::shared_ptr<const void> keeper);
  void put(FlatWriter& writer) const;

  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  // Any bytes will do: what is not UTF-8 becomes byte tokens. Nothing is added in front or behind.
  std::vector<std::int32_t> encode(std::string_view text, Specials specials = Specials::recognise) const;
  std::vector<std::int32_t> encode(std::span<const Span> spans) const;

  std::size_t memory_bytes() const;      // that it keeps
  std::int32_t size() const;             // ids are 0 to size - 1; any other one is unused and stands for nothing
  PieceKind kind(std::int32_t id) const;
  std::string_view bytes(std::int32_t id) const;              // what the id stands for in text: spaces as spaces, a byte
                                                              // token as its byte, a special token as its name
  std::optional<std::int32_t> special(std::string_view name) const;  // "<turn|>" -> its id

 private:
  explicit Tokenizer(TokenTables tables);
  std::unique_ptr<const TokenTables> tables_;
};

}  // namespace lapidary::text
