// What this program is.
#pragma once

#include <string>

namespace lapidary::cli {

std::string version_text();  // version, compiler, backends, graphs: a line each

}  // namespace lapidary::cli
