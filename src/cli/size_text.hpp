// Bytes for people: "576.0 KiB", "10.1 MiB".
#pragma once

#include <cstddef>
#include <cstdio>
#include <iterator>
#include <string>

namespace lapidary::cli {

inline std::string size_text(std::size_t bytes) {
  constexpr const char* kUnits[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
  auto size = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; size >= 1024 && unit + 1 < std::size(kUnits); ++unit) size /= 1024;
  char text[32];
  std::snprintf(text, sizeof text, "%.*f %s", unit ? 1 : 0, size, kUnits[unit]);
  return text;
}

}  // namespace lapidary::cli
