#include "cli/terminal.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include "checkpoint/environment.hpp"

namespace lapidary::cli {

bool takes_escapes(int descriptor) {
  const std::string kind = variable("TERM");
  return isatty(descriptor) && !kind.empty() && kind != "dumb";
}

int columns_of(int descriptor) {
  winsize size{};
  return ioctl(descriptor, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

bool takes_colours(int descriptor) { return takes_escapes(descriptor) && variable("NO_COLOR").empty(); }

}  // namespace lapidary::cli
