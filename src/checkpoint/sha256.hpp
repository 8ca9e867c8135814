// SHA-256 (FIPS 180-4), by the processor's own instructions where it has them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace lapidary {

enum class Sha256Code : std::uint8_t { portable, instructions };

Sha256Code fastest_sha256();  // on this processor

// Of bytes that come one after the other.
class Sha256 {
 public:
  static constexpr std::size_t kBlock = 64;  // bytes

  explicit Sha256(Sha256Code code = fastest_sha256());
  void add_blocks(std::span<const std::byte> bytes);       // whole ones
  std::string finish(std::span<const std::byte> rest);

 private:
  void (*add_)(std::array<std::uint32_t, 8>& state, const std::byte* data, std::size_t blocks);
  std::array<std::uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::uint64_t size_bytes_ = 0;
};

// 64 lower-case hexadecimal digits.
std::string sha256_hex(std::span<const std::byte> bytes, Sha256Code code = fastest_sha256());

std::string sha256_of_file(const std::string& path);

}  // namespace lapidary
