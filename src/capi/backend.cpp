#include <algorithm>

#include "capi/boundary.hpp"
#include "checkpoint/error.hpp"
#include "link/backend.hpp"

namespace lapidary::capi {

void choose_backend(engine::ModelOptions& options, const char* name) {
  if (!name) return;
  const auto all = link::backends();
  const auto found = std::ranges::find(all, std::string_view(name), &link::Backend::name);
  if (found == all.end()) fail(ErrorKind::unsupported, "backend", "expected one of this library, got " + std::string(name));
  options.link.backend = *found;
}

}  // namespace lapidary::capi
