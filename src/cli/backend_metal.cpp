#include "cli/backend.hpp"

#include <filesystem>

#include <CLI/App.hpp>

#include "checkpoint/error.hpp"
#include "cli/metal_check.hpp"
#include "cpu/executor.hpp"
#include "metal/executor.hpp"

namespace lapidary::cli {

std::span<const link::Backend> backends() {
  static constexpr link::Backend kAll[] = {link::Backend::metal, link::Backend::cpu};
  return kAll;
}

std::size_t room_bytes(const link::Program& program) {
  return program.backend == link::Backend::metal ? metal::room_bytes(program) : cpu::room_bytes(program);
}

std::unique_ptr<link::Executor> make_executor(const link::Program& program, const BackendFlags& flags) {
  if (program.backend == link::Backend::metal) return metal::make_executor(program, {flags.capture, flags.capture_round});
  if (!flags.capture.empty()) fail(ErrorKind::usage, "--capture", "expected --backend metal, got cpu");
  return cpu::make_executor(program, flags.instructions.taken());
}

void BackendFlags::add_to(CLI::App& command) {
  CLI::Option* file =
      command.add_option("--capture", capture, "write what the GPU does in one round to FILE.gputrace, for Xcode");
  command.add_option("--capture-round", capture_round, "which round, from 1 (default: 1)")
      ->check(CLI::PositiveNumber)
      ->needs(file);
}

void BackendFlags::check_captured() const {
  if (!capture.empty() && !std::filesystem::exists(capture))
    fail(ErrorKind::usage, "--capture-round",
         "expected one of the rounds that were played, got " + std::to_string(capture_round));
}

void add_backend_commands(CLI::App& app) { add_metal_check(app); }

}  // namespace lapidary::cli
