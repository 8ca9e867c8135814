#include "cli/terminal.hpp"

#include <unistd.h>

#include <cstdlib>
#include <string_view>

namespace lapidary::cli {
namespace {

std::string_view variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

}  // namespace

bool takes_escapes(int descriptor) {
  const std::string_view kind = variable("TERM");
  return isatty(descriptor) && !kind.empty() && kind != "dumb";
}

bool takes_colours(int descriptor) { return takes_escapes(descriptor) && variable("NO_COLOR").empty(); }

}  // namespace lapidary::cli
