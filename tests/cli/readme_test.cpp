// The commands of README.md, as they stand, where what they name is there: pebble takes the place of every model.
#include <boost/ut.hpp>

#include <sstream>
#include <vector>

#include "support/program.hpp"

namespace lapidary::test::readme_test {
namespace {

using namespace boost::ut;
namespace fs = std::filesystem;

struct Command {
  std::string line;                // "lapidary list"
  std::vector<std::string> flags;  // that are said of it
};

struct Readme {
  std::vector<Command> commands;
  std::vector<std::string> scripts;  // "tools/demo"
  std::string repo;                  // to download
};

std::vector<std::string> quoted_in(const std::string& text) {
  std::vector<std::string> pieces;
  for (std::size_t begin = text.find('`'); begin != text.npos;) {
    const std::size_t end = text.find('`', begin + 1);
    pieces.push_back(text.substr(begin + 1, end - begin - 1));
    begin = end == text.npos ? end : text.find('`', end + 1);
  }
  return pieces;
}

std::string first_word(const std::string& text) { return text.substr(0, text.find(' ')); }

// Lines of its blocks, and rows of its table of commands.
Readme read_readme() {
  Readme readme;
  std::istringstream lines(read_all(kRoot + "/README.md"));
  bool in_block = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("```")) in_block = !in_block;
    const std::string command = line.substr(0, line.find("  #"));
    if (in_block && line.starts_with("lapidary ")) readme.commands.push_back({command, {}});
    if (in_block && line.starts_with("tools/") && line.find("->") == line.npos) readme.scripts.push_back(first_word(line));
    if (in_block && line.starts_with("hf download ")) readme.repo = first_word(line.substr(12));
    if (!line.starts_with("| `lapidary ")) continue;
    const std::size_t next_cell = line.find("` | ");
    std::vector<std::string> flags;
    for (const std::string& piece : quoted_in(line.substr(next_cell + 1)))
      if (piece.starts_with("--")) flags.push_back(first_word(piece));
    for (std::string piece : quoted_in(line.substr(0, next_cell + 1))) {
      std::erase_if(piece, [](char c) { return c == '[' || c == ']'; });  // around what may be left out
      readme.commands.push_back({piece, flags});
    }
  }
  return readme;
}

const suite<"README"> readme_suite = [] {
  "its commands run"_test = [] {
    const Readme readme = read_readme();
    expect(fatal(readme.commands.size() > 10u && !readme.repo.empty()));
    for (const std::string& script : readme.scripts) expect(fs::exists(kRoot + "/" + script)) << script;

    const TemporaryFolder folder;
    const std::string pebble = kRoot + "/models/pebble", repo = "hub/models--" + std::string(readme.repo).replace(readme.repo.find('/'), 1, "--");
    fs::create_directories(folder.path(repo + "/refs"));
    fs::create_directories(folder.path(repo + "/snapshots"));
    fs::create_directories(folder.path("bin"));
    folder.write(repo + "/refs/main", "1");
    folder.write("FILE", "[[2, 100, 101]]");
    fs::copy_file(kRoot + "/models/examples/shapes.png", folder.path("picture.png"));
    fs::create_symlink(LAPIDARY_PROGRAM, folder.path("bin/lapidary"));
    for (const std::string& name : {repo + "/snapshots/1", std::string("CHECKPOINT"), std::string("DIR")}) fs::create_directory_symlink(pebble, folder.path(name));
    const std::string here = "cd " + folder.path("") + "; export HF_HUB_CACHE=$PWD/hub PATH=$PWD/bin:$PATH; ";

    for (const Command& command : readme.commands) {
      if (command.line == "lapidary metal-check") continue;          // of a Mac
      if (command.line.starts_with("lapidary check-exact")) continue;  // takes long, and drafting_test.cpp runs it
      const bool would_stay = command.line.starts_with("lapidary serve");  // tests/serve runs it
      const Outcome run = shell(here + command.line + (would_stay ? " --check-config" : "") + " </dev/null");
      expect(run.status == 0_i) << command.line << run.err;
      expect(!run.out.empty() || command.line.starts_with("lapidary chat") || command.line.find(" -o ") != std::string::npos) << command.line;
      if (command.line == "lapidary list") expect(run.out.find(readme.repo) != std::string::npos) << run.out;
      std::istringstream words(command.line);
      std::string name;
      words >> name >> name;
      const std::string help = lapidary(name + " --help").out;
      for (const std::string& flag : command.flags) expect(help.find(flag) != std::string::npos) << command.line << flag;
    }
  };
};

}  // namespace
}  // namespace lapidary::test::readme_test
