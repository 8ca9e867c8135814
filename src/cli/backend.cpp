#include "cli/backend.hpp"

#include <algorithm>
#include <cstdint>
#include <filesystem>

#include <CLI/CLI.hpp>

#include "checkpoint/error.hpp"
#include "cli/flags.hpp"

namespace lapidary::cli {
namespace {

using Ability = bool link::Backend::*;

// The first that has it; null where none does.
const link::Backend* backend_with(Ability ability) {
  const auto all = link::backends();
  const auto found = std::ranges::find(all, true, ability);
  return found == all.end() ? nullptr : *found;
}

void require(const link::Backend& backend, Ability ability, const char* flag) {
  if (backend.*ability) return;
  const link::Backend* other = backend_with(ability);
  fail(ErrorKind::usage, flag,
       "expected " + (other ? "--backend " + std::string(other->name) : "another backend") + ", got " + std::string(backend.name));
}

}  // namespace

void BackendFlags::add_latency_to(CLI::App& command) {
  command.add_flag("--pin-threads", pin_threads, "keep each thread on a core of its own");
  command.add_flag("--lock-memory", lock_memory, "let nothing of the model be paged out");
  command.add_flag("--warm-up", warm_up, "touch all memory and play some rounds at load, so that the first token does not wait for it");
  command.add_flag("--small-pages", small_pages, "do not ask the system for huge pages");
}

void BackendFlags::add_to(CLI::App& command) {
  if (!backend_with(&link::Backend::captures)) return;
  CLI::Option* file =
      add_path(command, "--capture", capture, "FILE", "write what the GPU does in one round to FILE.gputrace, for Xcode");
  add_number(command, "--capture-round", capture_round, 1, INT32_MAX, "which round", "1")->needs(file);
}

void BackendFlags::check(const link::Backend& backend) const {
  instructions.check(backend);
  for (const auto& [asked, flag] : {std::pair{pin_threads, "--pin-threads"}, {lock_memory, "--lock-memory"}, {small_pages, "--small-pages"}})
    if (asked) require(backend, &link::Backend::computes_here, flag);
  if (!capture.empty()) require(backend, &link::Backend::captures, "--capture");
}

void BackendFlags::check_captured() const {
  if (!capture.empty() && !std::filesystem::exists(capture))
    fail(ErrorKind::usage, "--capture-round",
         "expected one of the rounds that were played, got " + std::to_string(capture_round));
}

link::BackendOptions BackendFlags::options() const {
  return {.instructions = std::string(instructions.asked ? instructions.asked->name : ""), .capture = capture,
          .capture_round = capture_round, .huge_pages = !small_pages, .pin_threads = pin_threads, .lock_memory = lock_memory,
          .warm_up = warm_up};
}

}  // namespace lapidary::cli
