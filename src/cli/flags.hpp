// Flags that are numbers, files, or one of some names: each read in one way, and its range and default said in one way in the help.
#pragma once

#include <cstddef>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "checkpoint/error.hpp"

namespace lapidary::cli {

// "--max-tokens" of "-n,--max-tokens"
std::string main_name(const std::string& names);

// Fails as usage where the text of a flag is not a number from `least` to `most`. T: int, std::uint64_t, float or double.
template <class T>
T read_flag(const std::string& name, const std::string& text, T least, T most);
template <class T>
std::string range_text(T least, T most);  // "from 0 to 100", "of at least 1"

// "help (0 to 100, default: 1)"
std::string described(const std::string& help, std::string range, const std::string& usual);

// `usual`: what it is when it is not given.
template <class T, class Target>
CLI::Option* add_number(CLI::App& command, const std::string& names, Target& target, T least, T most, const std::string& help,
                        const std::string& usual = "") {
  const auto read = [name = main_name(names), &target, least, most](const std::string& text) {
    target = read_flag<T>(name, text, least, most);
  };
  return command.add_option_function<std::string>(names, read, described(help, range_text(least, most), usual))
      ->type_name(std::numeric_limits<T>::is_integer ? "N" : "X");
}

// The same, several of them with commas between.
template <class T>
CLI::Option* add_numbers(CLI::App& command, const std::string& names, std::vector<T>& target, T least, T most,
                         const std::string& help, const std::string& usual = "") {
  const auto read = [name = main_name(names), &target, least, most](const std::vector<std::string>& texts) {
    target.clear();
    for (const std::string& text : texts) target.push_back(read_flag<T>(name, text, least, most));
  };
  return command.add_option_function<std::vector<std::string>>(names, read, described(help, range_text(least, most), usual))
      ->type_name(std::numeric_limits<T>::is_integer ? "N,..." : "X,...")->delimiter(',')->allow_extra_args(false);
}

// "8G", "8GB", "8g" and "8GiB" are the same: memory comes in powers of two.
std::size_t parse_bytes(const std::string& flag, const std::string& text);

// A file or a folder; `kind` is its name in the help.
CLI::Option* add_path(CLI::App& command, const std::string& names, std::string& target, const std::string& kind,
                      const std::string& help);
// The same, may be repeated.
CLI::Option* add_paths(CLI::App& command, const std::string& names, std::vector<std::string>& target, const std::string& kind,
                       const std::string& help);

// One of `values`, which the help and the completions list.
CLI::Option* add_choice(CLI::App& command, const std::string& names, const std::vector<std::string>& values,
                        const std::function<void(const std::string&)>& take, const std::string& help);
std::vector<std::string> choices_of(const CLI::Option& option);  // empty for other flags

}  // namespace lapidary::cli
