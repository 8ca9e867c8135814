// Models by name: people have them in folders, or in the cache of the Hugging Face hub.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/places.hpp"

namespace lapidary::engine {

// Where to look.
struct Places {
  std::vector<std::string> folders;  // of checkpoints: LAPIDARY_MODELS, separated by colons
  std::string hub_cache;             // HF_HUB_CACHE, HF_HOME/hub, or ~/.cache/huggingface/hub; empty = none

  static Places of_environment();
};

// The folder of a checkpoint. `name`: a folder that is there, or a path, whatever is there; a name in one of the places' folders; ORG/NAME, NAME or either with @REVISION for a repo
// in the cache, where NAME alone may be that of any ORG. `where` is who asks.
std::string find_checkpoint(const std::string& name, const Places& places, const std::string& where);

// All checkpoints in these places, whatever they are.
std::vector<PlacedCheckpoint> checkpoints_in(const Places& places);

}  // namespace lapidary::engine
