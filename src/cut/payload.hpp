// The bytes that come with a cut program: behind its own code, or in a file beside it. A trailer at the very end says how many they
// are and which program they belong to.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "checkpoint/flat.hpp"
#include "checkpoint/mapped_file.hpp"
#include "link/link_gem.hpp"
#include "link/manifest.hpp"

namespace lapidary::cut {

// Where a payload begins and its blocks do: no system has larger pages, but for huge ones.
inline constexpr std::size_t kPayloadPage = 65536;  // bytes
inline constexpr std::string_view kPayloadMagic = "lapidary-payload";

struct Trailer {
  std::uint64_t payload_bytes = 0, payload_id = 0;
  std::array<char, 64> sha256{};  // of the payload, in hexadecimal
  std::array<char, 16> magic{};
};

// The payload of `file`. Fails where there is none, or another one than `manifest` speaks of.
std::span<const std::byte> find_payload(std::span<const std::byte> file, const std::string& path, const link::Manifest& manifest);

// What tells files of a checkpoint apart in some microseconds: the size, the beginning and samples of all parts.
std::uint64_t sampled_checksum(std::span<const std::byte> file);

// A cut program's bytes in memory.
class Payload {
 public:
  // `path` names a file to use in place of the one that the manifest does; empty = that one.
  Payload(const link::Manifest& manifest, const std::string& path);

  const std::string& path() const { return own_->path(); }
  std::string where() const { return path() + ": payload"; }
  // Fails where a byte of them was changed.
  std::span<const std::byte> block(const link::PlacedBlock& placed) const;
  std::vector<std::span<const std::byte>> mappings() const;
  // Reads everything: the payload and the checkpoint's files that are used where they lie.
  void verify() const;

 private:
  const link::Manifest& manifest_;
  std::unique_ptr<const MappedFile> own_;
  std::vector<std::unique_ptr<const MappedFile>> files_;  // as Manifest::files
  std::span<const std::byte> bytes_;
};

}  // namespace lapidary::cut
