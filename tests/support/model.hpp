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

  explicit Loaded(const std::string& folder, link::Options options = {}, int threads = 1, const std::string& assistant = "",
                  const std::string& dflash = "")
      : program(load(folder, with(options, threads), assistant, dflash)), executor(program.backend->make(program)) {}

  static link::Options with(link::Options options, int threads) {
    options.threads = threads;
    return options;
  }

  static link::Program load(const std::string& folder, const link::Options& options, const std::string& assistant = "",
                            const std::string& dflash = "") {
    Checkpoint checkpoint = Checkpoint::open(folder);
    std::optional<Checkpoint> step_drafter, block_drafter;
    if (!assistant.empty()) step_drafter = Checkpoint::open(assistant);
    if (!dflash.empty()) block_drafter = Checkpoint::open(dflash);
    const graph::Graph* graph = link::try_find_graph(checkpoint.config().shape, step_drafter ? &*step_drafter->config().assistant : nullptr,
                                                     block_drafter ? &*block_drafter->config().dflash : nullptr);
    if (!graph) fail(ErrorKind::no_graph, folder, "expected a graph of the model and its drafters, got none");
    return link::link(std::move(checkpoint), std::move(step_drafter), *graph, options, std::move(block_drafter));
  }
};

}  // namespace lapidary::test
