#pragma once

#include <filesystem>

namespace lapidary {

// The file that this process runs; empty where the system does not say.
std::filesystem::path own_path();

}  // namespace lapidary
