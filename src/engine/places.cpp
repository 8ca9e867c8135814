#include "engine/places.hpp"

#include <algorithm>
#include <filesystem>

#include "checkpoint/environment.hpp"
#include "checkpoint/error.hpp"

namespace lapidary::engine {

namespace fs = std::filesystem;

Places Places::of_environment() {
  Places places;
  const std::string folders = variable("LAPIDARY_MODELS");
  for (std::size_t begin = 0; begin < folders.size();) {
    const std::size_t end = std::min(folders.find(':', begin), folders.size());
    if (end > begin) places.folders.push_back(folders.substr(begin, end - begin));
    begin = end + 1;
  }
  places.hub_cache = variable("HF_HUB_CACHE");
  if (const fs::path home = user_folder("HF_HOME", ".cache/huggingface"); places.hub_cache.empty() && !home.empty())
    places.hub_cache = (home / "hub").string();
  return places;
}

std::string find_checkpoint(const std::string& name, const Places& places, const std::string& where) {
  std::error_code error;
  if (name.starts_with('/') || name.starts_with('.') || fs::exists(name, error)) return name;
  for (const std::string& folder : places.folders)
    if (const fs::path path = fs::path(folder) / name; is_checkpoint(path)) return path.string();
  const std::size_t at = name.find('@');
  const std::string revision = at == name.npos ? "" : name.substr(at + 1);
  std::string repo = name.substr(0, at);
  if (repo.find('/') == repo.npos) {
    std::vector<PlacedCheckpoint> same = checkpoints_in_hub(places.hub_cache);
    std::erase_if(same, [&](const PlacedCheckpoint& other) { return last_part(other.name) != repo; });
    if (same.size() > 1)
      fail(ErrorKind::usage, where, name + ", expected one model of this name, got " + same[0].name + " and " + same[1].name);
    if (!same.empty()) repo = same[0].name;
  }
  if (const auto folder = find_snapshot(places.hub_cache, repo, revision)) return *folder;
  std::string looked;
  for (const std::string& folder : places.folders) looked += ", a name in " + folder;
  if (!places.hub_cache.empty()) looked += ", a repo in " + places.hub_cache;
  fail(ErrorKind::io, where, name + ", expected a folder" + looked + ", got none");
}

std::vector<PlacedCheckpoint> checkpoints_in(const Places& places) {
  std::vector<PlacedCheckpoint> all;
  for (const std::string& folder : places.folders) std::ranges::move(lapidary::checkpoints_in(folder), std::back_inserter(all));
  std::ranges::move(checkpoints_in_hub(places.hub_cache), std::back_inserter(all));
  return all;
}

}  // namespace lapidary::engine
