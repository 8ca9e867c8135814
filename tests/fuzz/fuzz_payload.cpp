// Any bytes as the payload of a cut program: refused, or tables whose sizes fit.
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "cut/payload.hpp"
#include "cut/tables.hpp"
#include "text/grammar_vocabulary.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lapidary;
  // The trailer, with what the manifest expects at the front so that it can be met.
  link::Manifest manifest;
  if (size >= 16) {
    std::memcpy(&manifest.payload_bytes, data, 8);
    std::memcpy(&manifest.payload_id, data + 8, 8);
  }
  const std::span<const std::byte> file(reinterpret_cast<const std::byte*>(data), size);
  try {
    const auto payload = cut::find_payload(file, "payload", manifest);
    if (payload.size() != manifest.payload_bytes) __builtin_trap();
  } catch (const Error&) {
  }
  // Tables begin on a line.
  static std::vector<std::byte> room(1u << 22);
  std::byte* begin = room.data() + (kFlatLine - reinterpret_cast<std::uintptr_t>(room.data()) % kFlatLine) % kFlatLine;
  const std::size_t used = std::min(size, room.size() - kFlatLine);
  std::memcpy(begin, data, used);
  try {
    FlatReader reader({begin, used}, "tables");
    cut::Tables::take(reader, "tables", nullptr);
    text::Vocabulary::take(reader, "tables");
  } catch (const Error&) {
  }
  return 0;
}
