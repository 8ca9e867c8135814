// The flags for the backends of this program, besides which one runs the model.
#pragma once

#include <string>

#include "cli/instructions.hpp"
#include "link/link.hpp"

namespace lapidary::cli {

struct BackendFlags {
  InstructionsFlag instructions;  // of all commands with a model; the rest is for those that add it
  std::string capture;            // document to write what the device is given in one round; empty = none
  int capture_round = 1;
  bool small_pages = false, pin_threads = false, lock_memory = false, warm_up = false;

  void add_latency_to(CLI::App& command);
  void add_to(CLI::App& command);  // as far as the backends of this program know of it
  void check(const link::Backend& backend) const;  // fails where it cannot do what is asked
  void check_captured() const;     // fails where that round was never played
  link::BackendOptions options() const;
};

}  // namespace lapidary::cli
