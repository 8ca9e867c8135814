// What the user hands in: files, pipes and standard input alike.
#pragma once

#include <cstddef>
#include <string>

#include "text/value.hpp"

namespace lapidary::cli {

// More than any context holds: input without an end must not take all memory.
inline constexpr std::size_t kMaxInputBytes = std::size_t{64} << 20;

// All of a file; '-' is standard input, which can be read once.
std::string read_input(const std::string& path, std::size_t most_bytes = kMaxInputBytes);
text::Value read_json_input(const std::string& path);
// A schema as it stands, or the file with it. `where`: who asks.
text::Value read_schema_input(const std::string& given, const std::string& where);

}  // namespace lapidary::cli
