// lapidary metal-check, where Metal is built in.
#pragma once

#include <CLI/CLI.hpp>

namespace lapidary::cli {

void add_metal_check(CLI::App& app);

}  // namespace lapidary::cli
