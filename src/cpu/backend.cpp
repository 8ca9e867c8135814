#include "cpu/backend.hpp"

#include <algorithm>

#include "checkpoint/error.hpp"
#include "cpu/bound_steps.hpp"
#include "cpu/executor.hpp"
#include "cpu/q8_steps.hpp"
#include "cpu/tower.hpp"

namespace lapidary::cpu {
namespace {

const Instructions& instructions_of(const link::Program& program) {
  const std::string& name = program.backend_options.instructions;
  if (name.empty()) return best_instructions();
  const auto all = all_instructions();
  const auto found = std::ranges::find(all, name, &Instructions::name);
  if (found == all.end() || !found->here) fail(ErrorKind::usage, "instructions", "expected a set that this processor has, got " + name);
  return *found;
}

}  // namespace

constexpr link::Backend kBackend{
    .name = "cpu",
    .computes_here = true,
    .repacked_bytes = [](const link::Program& program) { return repacked_bytes(program, instructions_of(program)); },
    .prepared_kind = [](const link::Program& program) { return std::string_view(instructions_of(program).name); },
    .prepare = [](const link::Program& program, std::span<std::byte> out) { prepare_scales(program, instructions_of(program), out); },
    .room_bytes = [](const link::Program& program) {
      return room_bytes(program) + q8_room_size(program).bytes() * static_cast<std::size_t>(program.plan.threads) +
             tower_room_bytes(program, instructions_of(program));
    },
    .variant_of = [](const link::Program& program, const graph::Step& step) {
      return link::variant_name(program, step, is_q8(program, step) ? "q8" : "f32");
    },
    .make = [](const link::Program& program) { return make_executor(program, instructions_of(program)); },
};

}  // namespace lapidary::cpu
