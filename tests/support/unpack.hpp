// Fixtures that are stored packed.
#pragma once

#include <array>
#include <cstdio>
#include <string>

#include "checkpoint/error.hpp"

namespace lapidary::test {

inline std::string printed_by(const std::string& command) {
  FILE* pipe = ::popen(command.c_str(), "r");
  std::string text;
  std::array<char, 1 << 16> block;
  for (std::size_t bytes; (bytes = std::fread(block.data(), 1, block.size(), pipe)) > 0;) text.append(block.data(), bytes);
  if (::pclose(pipe) != 0) fail(ErrorKind::io, command, "expected success, got another status");
  return text;
}

// The content of a .xz file, or of a file in a .tar.xz archive.
inline std::string unpacked(const std::string& path) { return printed_by("xz -dc '" + path + "'"); }
inline std::string unpacked(const std::string& archive, const std::string& member) {
  return printed_by("tar -xOf '" + archive + "' '" + member + "'");
}
// All files of an archive.
inline void unpack(const std::string& archive, const std::string& folder) { printed_by("tar -xf '" + archive + "' -C '" + folder + "'"); }

}  // namespace lapidary::test
