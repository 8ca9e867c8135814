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
  bool huge_pages = true;      // for what is worked in, where the system has them
  bool pin_threads = false;    // to a core each; the thread that calls is its owner's
  bool lock_memory = false;    // weights, K/V and what is worked in stay in memory
  bool warm_up = false;        // every page of these is touched before the first run
};

struct Backend {
  std::string_view name{};
  bool captures = false;                                     // knows BackendOptions::capture
  bool computes_here = false;                                // on threads and in memory of this process: knows what is said of them
  std::size_t (*repacked_bytes)(const Program&) = nullptr;   // copies of weights beside the mapped ones
  // Which form these copies have, and writing them: repacked_bytes() of a program that has none prepared.
  std::string_view (*prepared_kind)(const Program&) = nullptr;
  void (*prepare)(const Program&, std::span<std::byte> out) = nullptr;
  std::size_t (*room_bytes)(const Program&) = nullptr;       // to work in, besides what is planned for all
  std::string (*variant_of)(const Program&, const graph::Step&) = nullptr;  // "linear_q8 affine4/64"
  // `program` must be linked for this backend and outlive the executor, which allocates and starts what is planned.
  std::unique_ptr<Executor> (*make)(const Program& program) = nullptr;
};

// Those that were built; the first is used unless another is asked for.
std::span<const Backend* const> backends();

}  // namespace lapidary::link
