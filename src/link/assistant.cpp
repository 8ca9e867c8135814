#include "link/assistant.hpp"

#include <algorithm>
#include <vector>

#include "checkpoint/checkpoint.hpp"
#include "checkpoint/pair.hpp"
#include "checkpoint/places.hpp"
#include "link/link.hpp"

namespace lapidary::link {
namespace {

bool fits(const std::string& folder, const graph::Shape& target) {
  try {
    find_pair_graph(target, folder);
    return true;
  } catch (const Error&) {
    return false;  // whatever else lies beside a model
  }
}

std::size_t common_beginning(std::string_view a, std::string_view b) {
  return static_cast<std::size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
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
  auto [own, all] = neighbourhood_of(target_folder);
  const std::string_view name = last_part(own);  // whoever made an assistant, it is named like its target
  std::ranges::sort(all, [&](const PlacedCheckpoint& a, const PlacedCheckpoint& b) {
    const std::size_t left = common_beginning(name, last_part(a.name)), right = common_beginning(name, last_part(b.name));
    return left != right ? left > right : a.name < b.name;
  });
  for (const PlacedCheckpoint& other : all)
    if (fits(other.folder, target)) return other.folder;
  return std::nullopt;
}

}  // namespace lapidary::link
