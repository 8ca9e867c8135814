// The code of a cut program: its graph, its manifest and its table of backends, as C++.
#pragma once

#include <string>
#include <vector>

#include "link/manifest.hpp"

namespace lapidary::cut {

// `graph` is the code of a graph named `gem`; `backend` the namespace of the backend that runs it; `decoders` entries of media::Decoders.
std::string code_of(const link::Manifest& manifest, const std::string& graph, const std::string& backend, const std::vector<std::string>& decoders);

}  // namespace lapidary::cut
