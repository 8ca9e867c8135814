#include "text/base64.hpp"

#include <array>
#include <cstdint>

namespace lapidary::text {
namespace {

constexpr std::string_view kLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr std::uint8_t kNoValue = 255;

constexpr auto kLetterValues = [] {
  std::array<std::uint8_t, 256> values{};
  values.fill(kNoValue);
  for (std::size_t i = 0; i < kLetters.size(); ++i) values[static_cast<unsigned char>(kLetters[i])] = static_cast<std::uint8_t>(i);
  return values;
}();

}  // namespace

// Three bytes are four letters; the last group may have fewer bytes, and then signs of equality.
std::string to_base64(std::string_view bytes) {
  std::string letters;
  letters.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    const std::string_view three = bytes.substr(at, 3);
    std::uint32_t group = 0;
    for (std::size_t i = 0; i < 3; ++i) group = group << 8 | (i < three.size() ? static_cast<unsigned char>(three[i]) : 0u);
    for (std::size_t i = 0; i < 4; ++i) letters += i <= three.size() ? kLetters[group >> (18 - 6 * i) & 63] : '=';
  }
  return letters;
}

std::optional<std::string> from_base64(std::string_view letters) {
  if (letters.size() % 4 != 0) return std::nullopt;
  for (int padding = 0; padding < 2 && letters.ends_with('='); ++padding) letters.remove_suffix(1);
  std::string bytes;
  bytes.reserve(letters.size() / 4 * 3 + 2);
  std::uint32_t bits = 0;
  int count = 0;  // of bits that are no byte yet
  for (const char letter : letters) {
    const std::uint8_t value = kLetterValues[static_cast<unsigned char>(letter)];
    if (value == kNoValue) return std::nullopt;
    bits = bits << 6 | value;
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes += static_cast<char>(bits >> count & 255);
  }
  if ((bits & ((1u << count) - 1)) != 0) return std::nullopt;
  return bytes;
}

std::optional<std::string> read_data_url(std::string_view url) {
  constexpr std::string_view kScheme = "data:", kBase64 = ";base64";
  const std::size_t comma = url.find(',');
  if (!url.starts_with(kScheme) || comma == url.npos || !url.substr(0, comma).ends_with(kBase64)) return std::nullopt;
  return from_base64(url.substr(comma + 1));
}

}  // namespace lapidary::text
