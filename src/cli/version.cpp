#include "cli/version.hpp"

#include "link/backend.hpp"
#include "link/link.hpp"

namespace lapidary::cli {

std::string version_text() {
  std::string backends, graphs;
  for (const link::Backend* backend : link::backends()) backends += " " + std::string(backend->name);
  for (const graph::Graph* graph : graph::compiled_graphs()) graphs += " " + std::string(graph->name);
#if defined(__clang__)
  const std::string compiler = __VERSION__;
#else
  const std::string compiler = std::string("gcc ") + __VERSION__;
#endif
  return "lapidary " LAPIDARY_VERSION "\ncompiler: " + compiler + "\nbackends:" + backends + "\ngraphs:" + graphs;
}

}  // namespace lapidary::cli
