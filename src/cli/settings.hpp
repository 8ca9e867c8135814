// What can be set once for all commands: flags come first, then environment variables (LAPIDARY_CONTEXT for --context), then a file.
#pragma once

#include <span>
#include <string>

#include <CLI/CLI.hpp>

namespace lapidary::cli {

// Names of the flags, without "--".
std::span<const char* const> settings();
std::string variable_of(const std::string& setting);  // "LAPIDARY_TOP_K" of "top-k"

// Takes what variables and the file say, for the commands that have such a flag. The file is that of LAPIDARY_CONFIG, or
// lapidary/config.json in the user's folder for such files, if it is there: an object of settings.
void apply_settings(CLI::App& app);

// On the command line, that is: not by a variable or the file.
bool is_on_line(const CLI::Option& option);

}  // namespace lapidary::cli
