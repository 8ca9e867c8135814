#include "cli/json.hpp"

#include <cstdio>

namespace lapidary::cli {

void JsonWriter::string(std::string_view text) {
  separate();
  out_ << '"';
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out_ << '\\' << c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char escape[8];
      std::snprintf(escape, sizeof escape, "\\u%04x", c);
      out_ << escape;
    } else {
      out_ << c;
    }
  }
  out_ << '"';
}

}  // namespace lapidary::cli
