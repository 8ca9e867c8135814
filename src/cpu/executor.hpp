// The CPU backend: records each segment as a list of bound steps and replays it on a thread team.
#pragma once

#include <memory>

#include "cpu/instructions.hpp"
#include "link/executor.hpp"
#include "link/link.hpp"

namespace lapidary::cpu {

// `program` must outlive the executor. Allocates memory and starts threads as planned.
std::unique_ptr<link::Executor> make_executor(const link::Program& program, const Instructions& instructions = best_instructions());

// What it allocates beside the plan of all backends and the rooms of its threads.
std::size_t room_bytes(const link::Program& program);

}  // namespace lapidary::cpu
