#include "cli/backend.hpp"
#include "cpu/executor.hpp"

namespace lapidary::cli {

std::span<const link::Backend> backends() {
  static constexpr link::Backend kAll[] = {link::Backend::cpu};
  return kAll;
}

std::size_t room_bytes(const link::Program& program) { return cpu::room_bytes(program); }

std::unique_ptr<link::Executor> make_executor(const link::Program& program, const BackendFlags& flags) {
  return cpu::make_executor(program, flags.instructions.taken());
}

void BackendFlags::add_to(CLI::App&) {}
void BackendFlags::check_captured() const {}

void add_backend_commands(CLI::App&) {}

}  // namespace lapidary::cli
