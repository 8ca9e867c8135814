#include "checkpoint/fingerprint.hpp"

#include <algorithm>

#include "checkpoint/sha256.hpp"

namespace lapidary {

std::string fingerprint_of(const Checkpoint& checkpoint) {
  constexpr std::size_t kEndBytes = 4096;
  const auto hash = [](std::string_view text) { return sha256_hex(std::as_bytes(std::span(text))); };
  std::string text = hash(read_text_file(checkpoint.folder() + "/config.json"));
  for (const NamedTensor& named : checkpoint.tensors()) {
    const std::span<const std::byte> bytes = named.tensor.bytes;
    text += "\n" + named.name + " " + std::to_string(static_cast<int>(named.tensor.type));
    for (const std::int64_t extent : named.tensor.shape) text += " " + std::to_string(extent);
    const std::size_t end_bytes = std::min(bytes.size(), kEndBytes);
    text += " " + sha256_hex(bytes.first(end_bytes)) + " " + sha256_hex(bytes.last(end_bytes));
  }
  return hash(text);
}

}  // namespace lapidary
