// Which format a file has.
#pragma once

#include <algorithm>
#include <string>

#include "checkpoint/error.hpp"
#include "media/formats.hpp"

namespace lapidary::media {

// Fails with `where` for a file that is larger than `most_bytes`, has none of the formats, or one that this program cannot decode.
template <class Decoder>
Decoder& decoder_of(std::span<const Format<Decoder>> formats, std::span<const std::byte> file, std::string_view where, std::size_t most_bytes,
                    const Decoders& decoders = kDecoders) {
  constexpr std::size_t kFirstBytes = 12;  // all formats can be told by so many, and no file is shorter
  const auto stop = [&](ErrorKind kind, const std::string& what) { fail(kind, std::string(where), what); };
  if (file.size() < kFirstBytes)
    stop(ErrorKind::truncated, "file, expected at least " + std::to_string(kFirstBytes) + " bytes, got " + std::to_string(file.size()));
  if (file.size() > most_bytes)
    stop(ErrorKind::too_large, "file, expected at most " + std::to_string(most_bytes) + " bytes, got " + std::to_string(file.size()));
  const auto format = std::ranges::find_if(formats, [&](const auto& candidate) { return candidate.begins(file); });
  if (format == formats.end()) {
    std::string names, got;
    for (const auto& candidate : formats) names += (names.empty() ? "" : ", ") + std::string(candidate.name);
    for (const std::byte byte : file.first(4)) {
      constexpr char kDigits[] = "0123456789abcdef";
      got += {' ', kDigits[std::to_integer<int>(byte) / 16], kDigits[std::to_integer<int>(byte) % 16]};
    }
    stop(ErrorKind::unsupported, "format, expected one of " + names + ", got a file that begins with" + got);
  }
  Decoder* const decode = decoders.*format->decode;
  if (!decode)
    stop(ErrorKind::unsupported, std::string(format->name) + " file, expected a program built with " + std::string(format->library) + ", got one without");
  return *decode;
}

}  // namespace lapidary::media
