// What runs a graph: a row of a table that the build makes of the backends it has compiled.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "graph/graph.hpp"

namespace lapidary::link {

struct Program;
class Executor;

// What a backend may be asked for besides running the model; each takes what it knows.
struct BackendOptions {
  std::string instructions{};  // set of instructions, by name; empty = the best that the processor has
  std::string capture{};       // document to write what the device is given in one round; empty = none
  int capture_round = 1;       // which one, counted from 1
};

struct Backend {
  std::string_view name{};
  bool captures = false;                                     // knows BackendOptions::capture
  std::size_t (*repacked_bytes)(const Program&) = nullptr;   // copies of weights beside the mapped ones
  std::size_t (*room_bytes)(const Program&) = nullptr;       // to work in, besides what is planned for all
  std::string (*variant_of)(const Program&, const graph::Step&) = nullptr;  // "linear_q8 affine4/64"
  // `program` must be linked for this backend and outlive the executor, which allocates and starts what is planned.
  std::unique_ptr<Executor> (*make)(const Program& program) = nullptr;
};

// Those that were built; the first is used unless another is asked for.
std::span<const Backend* const> backends();

}  // namespace lapidary::link
