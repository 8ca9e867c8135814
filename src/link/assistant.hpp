// Finds the assistant that drafts for a target, from configs alone.
#pragma once

#include <optional>
#include <string>

#include "checkpoint/config.hpp"
#include "graph/graph.hpp"

namespace lapidary::link {

// config.json of a checkpoint folder.
Config read_config(const std::string& folder);

// The compiled graph of the target with this assistant. Says why there is none: not an assistant, not for this target, or a
// pair that no graph was compiled for.
const graph::Graph& find_pair_graph(const graph::Shape& target, const std::string& assistant_folder);

// The folder beside the target, or the repo beside it in the cache of a hub, whose config is that of an assistant with a compiled graph
// for this target. Of several, the one whose name has the longest beginning in common with the target's.
std::optional<std::string> find_assistant(const std::string& target_folder, const graph::Shape& target);

}  // namespace lapidary::link
