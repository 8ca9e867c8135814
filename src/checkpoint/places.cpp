#include "checkpoint/places.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>

namespace lapidary {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kModels = "models--";

// Names of what is in a folder, sorted; what cannot be read is not there.
std::vector<std::string> names_in(const fs::path& folder) {
  std::error_code error;
  std::vector<std::string> names;
  for (fs::directory_iterator entry(folder, fs::directory_options::skip_permission_denied, error), end;
       !error && entry != end && names.size() < kMaxFolders; entry.increment(error))
    names.push_back(entry->path().filename().string());
  std::ranges::sort(names);
  return names;
}

// models--ORG--NAME; a repo without ORG has one part.
std::string folder_of(std::string_view repo) {
  std::string name(kModels);
  for (const char c : repo) name += c == '/' ? std::string("--") : std::string(1, c);
  return name;
}

std::string repo_of(std::string_view folder) {
  std::string name(folder.substr(kModels.size()));
  if (const std::size_t cut = name.find("--"); cut != name.npos) name.replace(cut, 2, "/");
  return name;
}

std::string first_line(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::optional<std::string> snapshot_in(const fs::path& repo, std::string_view revision) {
  const auto snapshot = [&](const std::string& commit) -> std::optional<std::string> {
    const fs::path folder = repo / "snapshots" / commit;
    if (commit.empty() || fs::path(commit).filename() != commit || !is_checkpoint(folder)) return std::nullopt;
    return folder.string();
  };
  if (!revision.empty()) {
    const auto named = snapshot(first_line(repo / "refs" / revision));
    return named ? named : snapshot(std::string(revision));
  }
  if (const auto main = snapshot(first_line(repo / "refs" / "main"))) return main;
  const auto all = names_in(repo / "snapshots");
  return all.size() == 1 ? snapshot(all[0]) : std::nullopt;
}

}  // namespace

bool is_checkpoint(const std::string& folder) {
  std::error_code error;
  return fs::exists(fs::path(folder) / "config.json", error);
}

std::string_view last_part(std::string_view repo) { return repo.substr(repo.rfind('/') + 1); }

std::vector<PlacedCheckpoint> checkpoints_in(const std::string& folder) {
  std::vector<PlacedCheckpoint> all;
  for (const std::string& name : names_in(folder))
    if (const fs::path path = fs::path(folder) / name; is_checkpoint(path)) all.push_back({name, path.string()});
  return all;
}

std::vector<PlacedCheckpoint> checkpoints_in_hub(const std::string& cache) {
  std::vector<PlacedCheckpoint> all;
  for (const std::string& name : names_in(cache)) {
    if (!name.starts_with(kModels)) continue;
    if (const auto folder = snapshot_in(fs::path(cache) / name, {})) all.push_back({repo_of(name), *folder});
  }
  return all;
}

std::optional<std::string> find_snapshot(const std::string& cache, std::string_view repo, std::string_view revision) {
  if (cache.empty() || repo.empty() || repo.find("..") != repo.npos || revision.find("..") != revision.npos) return std::nullopt;
  return snapshot_in(fs::path(cache) / folder_of(repo), revision);
}

Neighbourhood neighbourhood_of(const std::string& folder) {
  std::error_code error;
  const fs::path own = fs::canonical(folder, error);
  if (error) return {};
  const fs::path repo = own.parent_path().parent_path();
  if (own.parent_path().filename() == "snapshots" && repo.filename().string().starts_with(kModels))
    return {repo_of(repo.filename().string()), checkpoints_in_hub(repo.parent_path().string())};
  return {own.filename().string(), checkpoints_in(own.parent_path().string())};
}

}  // namespace lapidary
