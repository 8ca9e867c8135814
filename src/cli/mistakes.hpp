// Mistakes in the names of commands and flags: the word at fault, and what was probably meant.
#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace lapidary::cli {

// The words after the program's name. "--top_k" is "--top-k", up to a word "--".
std::vector<std::string> words_of_line(int argc, char** argv);

// The one of `known` that differs from the word in the fewest letters; empty where none is near.
std::string nearest(const std::string& word, const std::vector<std::string>& known);

// Fails with the word that nothing took; returns where that is not what was wrong.
void blame_word(const CLI::App& app);

}  // namespace lapidary::cli
