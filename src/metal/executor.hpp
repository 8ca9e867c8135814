// The Metal backend: records the rounds once as indirect command buffers and replays them, one command buffer per run.
#pragma once

#include <memory>
#include <string>

#include "link/executor.hpp"
#include "link/link.hpp"

namespace lapidary::metal {

// What the device needs to work in beside the arena and K/V, for the memory plan.
std::size_t room_bytes(const link::Program& program);

// One round as a document that Xcode opens: every command, its pipeline, its buffers.
struct CaptureOptions {
  std::string path;  // empty = none is wanted
  int round = 1;     // which one, counted from 1
};

// `program` must outlive the executor, and be linked for this backend.
std::unique_ptr<link::Executor> make_executor(const link::Program& program, const CaptureOptions& capture = {});

}  // namespace lapidary::metal
