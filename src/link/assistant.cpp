#include "link/assistant.hpp"

#include <algorithm>
#include <filesystem>
#include <vector>

#include "checkpoint/checkpoint.hpp"
#include "checkpoint/pair.hpp"
#include "link/link.hpp"

namespace lapidary::link {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxFolders = 1000;  // looked at beside a target

bool fits(const std::string& folder, const graph::Shape& target) {
  try {
    find_pair_graph(target, folder);
    return true;
  } catch (const Error&) {
    return false;  // whatever else lies beside a model
  }
}

std::size_t common_beginning(const std::string& a, const std::string& b) {
  const auto end = std::mismatch(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(std::min(a.size(), b.size())), b.begin());
  return static_cast<std::size_t>(end.first - a.begin());
}

}  // namespace

Config read_config(const std::string& folder) {
  const std::string path = folder + "/config.json";
  return parse_config(read_text_file(path), path);
}

const graph::Graph& find_pair_graph(const graph::Shape& target, const std::string& assistant_folder) {
  const Config config = read_config(assistant_folder);
  if (!config.assistant)
    fail(ErrorKind::unsupported, assistant_folder, "model_type, expected an assistant, got " + config.model_type);
  check_pair(target, *config.assistant, assistant_folder);
  if (const graph::Graph* graph = try_find_graph(target, &*config.assistant)) return *graph;
  fail(ErrorKind::no_graph, assistant_folder,
       "no compiled graph has this assistant with its target; a build with -Dextra_graphs=TARGET+ASSISTANT adds it");
}

std::optional<std::string> find_assistant(const std::string& target_folder, const graph::Shape& target) {
  std::error_code error;
  const fs::path own = fs::canonical(target_folder, error);
  if (error) return std::nullopt;
  std::vector<std::string> names;
  for (fs::directory_iterator entry(own.parent_path(), fs::directory_options::skip_permission_denied, error), end;
       !error && entry != end && names.size() < kMaxFolders; entry.increment(error))
    if (fs::exists(entry->path() / "config.json", error)) names.push_back(entry->path().filename().string());

  const std::string name = own.filename().string();
  std::sort(names.begin(), names.end(), [&](const std::string& a, const std::string& b) {
    const std::size_t left = common_beginning(name, a), right = common_beginning(name, b);
    return left != right ? left > right : a < b;
  });
  for (const std::string& other : names) {
    const std::string folder = (own.parent_path() / other).string();
    if (fits(folder, target)) return folder;
  }
  return std::nullopt;
}

}  // namespace lapidary::link
