// A checkpoint linked and ready to run on the backend that the test program is about.
#pragma once

#include <memory>
#include <string>

#include "decode/session.hpp"
#include "link/link.hpp"

namespace lapidary::test {

struct Loaded {
  link::Program program;
  std::unique_ptr<link::Executor> executor;

  explicit Loaded(const std::string& folder, link::Options options = {}, int threads = 1, const std::string& assistant = "")
      : program(load(folder, with(options, threads), assistant)), executor(program.backend->make(program)) {}

  static link::Options with(link::Options options, int threads) {
    options.threads = threads;
    return options;
  }

  static link::Program load(const std::string& folder, const link::Options& options, const std::string& assistant = "") {
    Checkpoint checkpoint = Checkpoint::open(folder);
    const graph::Graph& graph = link::find_graph(checkpoint.config().shape, folder);
    std::optional<Checkpoint> drafter;
    if (!assistant.empty()) drafter = Checkpoint::open(assistant);
    return link::link(std::move(checkpoint), std::move(drafter), graph, options);
  }
};

}  // namespace lapidary::test
