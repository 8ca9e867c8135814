// What tells checkpoints apart without reading them as a whole.
#pragma once

#include <string>

#include "checkpoint/checkpoint.hpp"

namespace lapidary {

// The SHA-256 of config.json and, of every tensor, of its name, type, shape and the bytes at both ends.
std::string fingerprint_of(const Checkpoint& checkpoint);

}  // namespace lapidary
