// JSON grown from any bytes over the words that an API knows: gets further than bytes that must be JSON first.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "text/value.hpp"

namespace lapidary::test {

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

}  // namespace lapidary::test
