// Any bytes as bodies of requests, and what is to be said of those that are refused.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <optional>
#include <span>
#include <string>

#include "serve/api.hpp"
#include "serve/body.hpp"
#include "text/chat.hpp"
#include "text/value.hpp"

namespace lapidary::test {

// JSON grown from bytes over the words that an API knows: gets further than bytes that must be JSON first.
class Growth {
 public:
  Growth(std::span<const std::uint8_t> bytes, std::span<const char* const> words) : bytes_(bytes), words_(words) {}

  text::Value object(int depth) {
    text::ObjectBuilder fields;
    for (int count = byte() % 8; count > 0; --count) {
      std::string key = word();
      fields.add(std::move(key), value(depth - 1));
    }
    return fields.take();
  }

  text::Value value(int depth) {
    switch (byte() % (depth > 0 ? 9 : 6)) {
      case 0: return {};
      case 1: return byte() % 2 == 0;
      case 2: return int{byte()} - 8;
      case 3: return byte() / 64.0 - 1;
      case 4: case 5: return word();
      case 6: return list(depth);
      default: return object(depth);
    }
  }

 private:
  std::uint8_t byte() {
    if (bytes_.empty()) return 0;
    const std::uint8_t first = bytes_.front();
    bytes_ = bytes_.subspan(1);
    return first;
  }

  std::string word() { return words_[byte() % words_.size()]; }

  text::Value list(int depth) {
    text::Value::Array items;
    for (int count = byte() % 5; count > 0; --count) items.push_back(value(depth - 1));
    return items;
  }

  std::span<const std::uint8_t> bytes_;
  std::span<const char* const> words_;
};

// JSON as it stands where the bytes begin like an object; nothing where they are none.
inline std::optional<text::Value> body_from(std::span<const std::uint8_t> bytes, std::span<const char* const> words) {
  if (!bytes.empty() && bytes.front() != '{') return Growth(bytes, words).object(6);
  try {
    return serve::parse_body({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  } catch (const serve::Refusal&) {
    return std::nullopt;
  }
}

inline void check(bool holds) {
  if (!holds) std::abort();
}

// What was read can be rendered, but for what is in the schemas of tools.
inline void check_prompt(const serve::ChatPrompt& prompt) {
  const text::Value messages = text::checked_messages(prompt.messages);
  check(text::joined(text::render(messages, {}, {}, {.enable_thinking = prompt.think})).starts_with("<bos>"));
}

// It is taken, or refused in a way that can be sent.
template <class Read>
void check_reading(Read read) {
  constexpr std::size_t kMaxErrorBytes = 2000;
  try {
    read();
  } catch (const serve::Refusal& refusal) {
    check((refusal.status == 400 || refusal.status == 404) && refusal.message.starts_with("["));
    for (const std::string& error : {serve::openai_error(refusal), serve::anthropic_error(refusal, "req_1")})
      check(error.size() < kMaxErrorBytes && text::parse_json(error, "error").find("error") != nullptr);
  }
}

}  // namespace lapidary::test
