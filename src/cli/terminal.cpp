#include "cli/terminal.hpp"

#include <unistd.h>

#include "checkpoint/environment.hpp"

namespace lapidary::cli {

bool takes_escapes(int descriptor) {
  const std::string kind = variable("TERM");
  return isatty(descriptor) && !kind.empty() && kind != "dumb";
}

bool takes_colours(int descriptor) { return takes_escapes(descriptor) && variable("NO_COLOR").empty(); }

}  // namespace lapidary::cli
