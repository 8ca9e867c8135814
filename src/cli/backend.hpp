// The backends this program was built with. One of backend_cpu.cpp and backend_metal.cpp is linked.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "cli/instructions.hpp"
#include "link/executor.hpp"
#include "link/link.hpp"

namespace lapidary::cli {

// The first is used unless another is asked for.
std::span<const link::Backend> backends();

// What the program's backend needs to work in: link::Options::room_bytes.
std::size_t room_bytes(const link::Program& program);

// What a backend may be asked for besides running the model.
struct BackendFlags {
  InstructionsFlag instructions;  // of all commands with a model; the rest is for those that add it
  std::string capture;    // document to write what the GPU is given in one round; empty = none
  int capture_round = 1;

  void add_to(CLI::App& command);  // as far as the backends of this program know of it
  void check_captured() const;     // fails where that round was never played
};

std::unique_ptr<link::Executor> make_executor(const link::Program& program, const BackendFlags& flags);

// The commands that only they have.
void add_backend_commands(CLI::App& app);

}  // namespace lapidary::cli
