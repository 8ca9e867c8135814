// Runs the lapidary program.
#pragma once

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include <sys/wait.h>

#include "support/cases.hpp"

namespace lapidary::test {

struct Outcome {
  int status = 0;
  std::string out, err;
};

inline std::string read_all(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline Outcome shell(const std::string& command) {
  const TemporaryFolder folder;
  const int status = std::system(("( " + command + " ) >" + folder.path("out") + " 2>" + folder.path("err")).c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read_all(folder.path("out")), read_all(folder.path("err"))};
}

// What is tested: the program of this build, or a gem of pebble. A gem is not asked for another model, nor for what it says otherwise.
inline const char* const kGem = std::getenv("TESTED_GEM");
inline const std::string kProgram = kGem ? kGem : LAPIDARY_PROGRAM;

// `arguments` go through the shell.
inline Outcome lapidary(const std::string& arguments) { return shell(kProgram + " " + arguments); }

}  // namespace lapidary::test
