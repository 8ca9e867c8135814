// Finds the drafters of a target and the graph that has them all, from configs alone.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/config.hpp"
#include "graph/graph.hpp"
#include "link/plan.hpp"

namespace lapidary::link {

// config.json of a checkpoint folder.
Config read_config(const std::string& folder);

// The graph to run a target with, and the folders of its drafters; empty = none of that kind.
struct Pairing {
  const graph::Graph* graph = nullptr;
  std::string assistant, dflash;
};

// These drafters of the target, without a graph. Refuses what is not a drafter, not for this target, or a second one of its kind.
Pairing sort_drafters(const graph::Shape& target, const std::vector<std::string>& drafter_folders);

// The same with the compiled graph of all of them. Refuses also what no graph was compiled for.
Pairing pair(const graph::Shape& target, const std::vector<std::string>& drafter_folders, const std::string& target_folder);

// At most one of each kind that is wanted: the folder beside the target, or the repo beside it in the cache of a hub, whose config is that of a drafter
// with a compiled graph for this target. Of several, the one whose name has the longest beginning in common with the target's.
std::vector<std::string> find_drafters(const std::string& target_folder, const graph::Shape& target, Drafters wanted = {true, true});

}  // namespace lapidary::link
