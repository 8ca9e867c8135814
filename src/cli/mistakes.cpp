#include "cli/mistakes.hpp"

#include <algorithm>
#include <numeric>

#include "checkpoint/error.hpp"

namespace lapidary::cli {
namespace {

// Letters to add, drop or change to make one word of another.
std::size_t distance(const std::string& from, const std::string& to) {
  std::vector<std::size_t> row(to.size() + 1);  // to the beginnings of `to`
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < from.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < to.size(); ++j) {
      const std::size_t changed = diagonal + (from[i] != to[j]);
      diagonal = row[j + 1];
      row[j + 1] = std::min({changed, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

std::string suggestion(const std::string& word, const std::vector<std::string>& known) {
  const std::string meant = nearest(word, known);
  return meant.empty() ? "" : "; did you mean " + meant + "?";
}

[[noreturn]] void blame_command(const std::string& word, const CLI::App& app) {
  std::vector<std::string> names;
  std::string listed;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(command->get_name());
    listed += (listed.empty() ? "" : ", ") + command->get_name();
  }
  fail(ErrorKind::usage, app.get_name(), "expected one of " + listed + ", got '" + word + "'" + suggestion(word, names));
}

[[noreturn]] void blame_flag(const std::string& word, const CLI::App& command) {
  const std::string flag = word.substr(0, word.find('='));
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  fail(ErrorKind::usage, command.get_name(), "expected flags that --help lists, got " + flag + suggestion(flag, names));
}

}  // namespace

std::vector<std::string> words_of_line(int argc, char** argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  for (std::string& word : words) {
    if (word == "--") break;
    if (word.starts_with("--")) std::replace(word.begin(), std::find(word.begin(), word.end(), '='), '_', '-');
  }
  return words;
}

std::string nearest(const std::string& word, const std::vector<std::string>& known) {
  const auto found = std::ranges::min_element(known, {}, [&](const std::string& one) { return distance(word, one); });
  return found != known.end() && distance(word, *found) <= std::max<std::size_t>(2, word.size() / 3) ? *found : "";
}

void blame_word(const CLI::App& app) {
  const std::vector<std::string> left = app.remaining();
  if (left.empty()) {
    for (const CLI::App* command : app.get_subcommands()) blame_word(*command);
    return;
  }
  const auto flag = std::ranges::find_if(left, [](const std::string& word) { return word.starts_with('-') && word.size() > 1; });
  if (flag != left.end()) blame_flag(*flag, app);
  if (!app.get_subcommands([](const CLI::App*) { return true; }).empty()) blame_command(left.front(), app);
  fail(ErrorKind::usage, app.get_name(), "expected no more words, got '" + left.front() + "'; a text with spaces goes in quotes");
}

}  // namespace lapidary::cli
