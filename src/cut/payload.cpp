#include "cut/payload.hpp"

#include <algorithm>
#include <cstring>

#include "checkpoint/checksum.hpp"
#include "checkpoint/own_path.hpp"
#include "checkpoint/sha256.hpp"

namespace lapidary::cut {
namespace {

Trailer trailer_of(std::span<const std::byte> file) {
  Trailer trailer;
  if (file.size() >= sizeof trailer) std::memcpy(&trailer, file.data() + file.size() - sizeof trailer, sizeof trailer);
  return trailer;
}

std::string payload_path(const link::Manifest& manifest, const std::string& path) {
  if (!path.empty()) return path;
  if (manifest.payload_path.empty()) return own_path().string();
  return (own_path().parent_path() / manifest.payload_path).string();
}

void check_file(const MappedFile& file, const link::PlacedFile& placed) {
  if (file.bytes().size() != placed.bytes || sampled_checksum(file.bytes()) != placed.checksum)
    fail(ErrorKind::bad_value, file.path(), "expected the file that this program was cut for, got another");
}

}  // namespace

std::span<const std::byte> find_payload(std::span<const std::byte> file, const std::string& path, const link::Manifest& manifest) {
  const Trailer trailer = trailer_of(file);
  if (std::string_view(trailer.magic.data(), trailer.magic.size()) != kPayloadMagic)
    fail(ErrorKind::truncated, path, "payload, expected at the end of the file, got none");
  if (trailer.payload_id != manifest.payload_id || trailer.payload_bytes != manifest.payload_bytes)
    fail(ErrorKind::bad_value, path, "payload, expected the one of this program, got another's");
  const std::size_t most_bytes = file.size() - sizeof trailer;
  if (trailer.payload_bytes > most_bytes || (most_bytes - trailer.payload_bytes) % kPayloadPage != 0)
    fail(ErrorKind::truncated, path, "payload, expected " + std::to_string(trailer.payload_bytes) + " bytes, got less");
  return file.subspan(most_bytes - static_cast<std::size_t>(trailer.payload_bytes), static_cast<std::size_t>(trailer.payload_bytes));
}

std::uint64_t sampled_checksum(std::span<const std::byte> file) {
  constexpr std::size_t kSamples = 64, kSampleBytes = 256, kBeginningBytes = 1u << 20;
  std::uint64_t sum = checksum_of(file.first(std::min(file.size(), kBeginningBytes)));
  for (std::size_t i = 0; i < kSamples && file.size() > kBeginningBytes; ++i) {
    const std::size_t at = (file.size() - kSampleBytes) / (kSamples - 1) * i;
    sum = sum * 0x9e3779b97f4a7c15u + checksum_of(file.subspan(at, kSampleBytes));
  }
  return sum;
}

Payload::Payload(const link::Manifest& manifest, const std::string& path)
    : manifest_(manifest), own_(std::make_unique<const MappedFile>(payload_path(manifest, path))),
      bytes_(find_payload(own_->bytes(), own_->path(), manifest)) {
  for (const link::PlacedFile& placed : manifest.files) {
    files_.push_back(std::make_unique<const MappedFile>(std::string(placed.path)));
    check_file(*files_.back(), placed);
  }
}

std::span<const std::byte> Payload::block(const link::PlacedBlock& placed) const {
  const auto bytes = bytes_.subspan(static_cast<std::size_t>(placed.offset), static_cast<std::size_t>(placed.bytes));
  if (checksum_of(bytes) != placed.checksum) fail(ErrorKind::bad_value, where(), "damaged: tables, expected those of their checksum, got others");
  return bytes;
}

std::vector<std::span<const std::byte>> Payload::mappings() const {
  std::vector<std::span<const std::byte>> all{bytes_};
  for (const auto& file : files_) all.push_back(file->bytes());
  return all;
}

void Payload::verify() const {
  const Trailer trailer = trailer_of(own_->bytes());
  if (const std::string found = sha256_hex(bytes_); found != std::string_view(trailer.sha256.data(), trailer.sha256.size()))
    fail(ErrorKind::bad_value, where(), "damaged: SHA-256, expected " + std::string(trailer.sha256.data(), trailer.sha256.size()) + ", got " + found);
  for (const auto& file : files_) {
    const std::string name = file->path().substr(file->path().rfind('/') + 1), found = sha256_hex(file->bytes());
    const auto knows = [&](const link::CutOrigin* origin) {
      return std::ranges::any_of(origin->hashes, [&](const link::CutHash& hash) { return hash.file == name && hash.sha256 == found; });
    };
    if (std::ranges::none_of(manifest_.origins(), knows))
      fail(ErrorKind::bad_value, file->path(), "damaged: SHA-256, expected that of the file this program was cut for, got " + found);
  }
}

}  // namespace lapidary::cut
