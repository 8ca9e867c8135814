#include "cli/backend.hpp"

#include <algorithm>
#include <cstdint>
#include <filesystem>

#include <CLI/App.hpp>

#include "checkpoint/error.hpp"
#include "cli/flags.hpp"

namespace lapidary::cli {
namespace {

const link::Backend* capturing_backend() {
  const auto all = link::backends();
  const auto found = std::ranges::find(all, true, &link::Backend::captures);
  return found == all.end() ? nullptr : *found;
}

}  // namespace

void BackendFlags::add_to(CLI::App& command) {
  if (!capturing_backend()) return;
  CLI::Option* file =
      add_path(command, "--capture", capture, "FILE", "write what the GPU does in one round to FILE.gputrace, for Xcode");
  add_number(command, "--capture-round", capture_round, 1, INT32_MAX, "which round", "1")->needs(file);
}

void BackendFlags::check(const link::Backend& backend) const {
  instructions.check(backend);
  if (!capture.empty() && !backend.captures)
    fail(ErrorKind::usage, "--capture",
         "expected --backend " + std::string(capturing_backend()->name) + ", got " + std::string(backend.name));
}

void BackendFlags::check_captured() const {
  if (!capture.empty() && !std::filesystem::exists(capture))
    fail(ErrorKind::usage, "--capture-round",
         "expected one of the rounds that were played, got " + std::to_string(capture_round));
}

link::BackendOptions BackendFlags::options() const {
  return {.instructions = std::string(instructions.asked ? instructions.asked->name : ""), .capture = capture,
          .capture_round = capture_round};
}

}  // namespace lapidary::cli
