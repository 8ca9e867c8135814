// The backends of the library. The CPU's is always there.
#include "capi/boundary.hpp"
#include "cpu/executor.hpp"
#if defined(LAPIDARY_METAL)
#include "metal/executor.hpp"
#endif

namespace lapidary::capi {

void choose_backend(engine::ModelOptions& options, const char* name) {
  const std::string_view wanted = name ? name : "";
#if defined(LAPIDARY_METAL)
  if (wanted.empty() || wanted == "metal") {
    options.link.backend = link::Backend::metal;
    options.link.room_bytes = &metal::room_bytes;
    options.make_executor = [](const link::Program& program) { return metal::make_executor(program); };
    return;
  }
#endif
  if (!wanted.empty() && wanted != "cpu")
    fail(ErrorKind::unsupported, "backend", "expected one of this library, got " + std::string(wanted));
  options.link.backend = link::Backend::cpu;
  options.link.room_bytes = &cpu::room_bytes;
  options.make_executor = [](const link::Program& program) { return cpu::make_executor(program); };
}

}  // namespace lapidary::capi
