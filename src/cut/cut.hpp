// Cutting: a program for one checkpoint, in which everything is decided that can be known of that.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "cut/kit.hpp"
#include "cut/layout.hpp"
#include "engine/parts.hpp"

namespace lapidary::cut {

enum class Weights {
  embed,   // in the program itself
  beside,  // in a file of its name and .weights
  mapped,  // where they are
};

struct CutOptions {
  engine::ModelOptions model;
  Weights weights = Weights::beside;
  Product product = Product::program;
  std::string output;
  std::string version;   // of lapidary
  std::string compiler;  // in place of the kit's; empty = that
  std::vector<std::pair<std::string, std::string>> defaults;  // flag, value
  Layout::Progress progress;
};

struct CutReport {
  std::uint64_t program_bytes = 0, payload_bytes = 0;
  double compile_seconds = 0, write_seconds = 0;
};

// Files appear under their names as a whole or not at all.
CutReport cut(const CutOptions& options);

}  // namespace lapidary::cut
