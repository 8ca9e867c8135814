// Where checkpoints lie: folders beside each other, and the cache that tools of the Hugging Face hub keep, where a repo ORG/NAME is
// a folder models--ORG--NAME with its revisions in snapshots/ and their names in refs/.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lapidary {

struct PlacedCheckpoint {
  std::string name;    // of the folder, or of the repo: "google/gemma-4-E2B-it"
  std::string folder;  // has a config.json
};

inline constexpr std::size_t kMaxFolders = 1000;  // looked at in one place

bool is_checkpoint(const std::string& folder);
std::string_view last_part(std::string_view repo);  // "gemma-4-E2B-it" of "google/gemma-4-E2B-it"

// In order of their names; none where there is no such folder.
std::vector<PlacedCheckpoint> checkpoints_in(const std::string& folder);
std::vector<PlacedCheckpoint> checkpoints_in_hub(const std::string& cache);

// The snapshot of a repo in a cache: that of `revision`, a name or a commit, or without one that of main or, if there is but one, that.
std::optional<std::string> find_snapshot(const std::string& cache, std::string_view repo, std::string_view revision = {});

// What lies where a checkpoint does, itself included: the folders beside it or, if it is a snapshot in a cache, the repos beside its
// own. `name` is its own among them.
struct Neighbourhood {
  std::string name;
  std::vector<PlacedCheckpoint> all;
};
Neighbourhood neighbourhood_of(const std::string& folder);

}  // namespace lapidary
