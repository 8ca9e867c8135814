#include "metal/backend.hpp"

#include "gpu/alignment.hpp"
#include "metal/executor.hpp"

namespace lapidary::metal {

constexpr link::Backend kBackend{
    .name = "metal",
    .captures = true,
    .repacked_bytes = gpu::misaligned_bytes,
    .room_bytes = room_bytes,
    .variant_of = [](const link::Program& program, const graph::Step& step) { return link::variant_name(program, step, "f32"); },
    .make = [](const link::Program& program) {
      return make_executor(program, {program.backend_options.capture, program.backend_options.capture_round});
    },
};

}  // namespace lapidary::metal
