// SHA-256 (FIPS 180-4), by the processor's own instructions where it has them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace lapidary {

enum class Sha256Code : std::uint8_t { portable, instructions };

Sha256Code fastest_sha256();  // on this processor

// 64 lower-case hexadecimal digits.
std::string sha256_hex(std::span<const std::byte> bytes, Sha256Code code = fastest_sha256());

std::string sha256_of_file(const std::string& path);

}  // namespace lapidary
