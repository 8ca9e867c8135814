#include "link/drafters.hpp"

#include <algorithm>
#include <optional>

#include "checkpoint/checkpoint.hpp"
#include "checkpoint/pair.hpp"
#include "checkpoint/places.hpp"
#include "link/link.hpp"

namespace lapidary::link {
namespace {

bool all_are(Drafters wanted, const Pairing& pairing) {
  return (wanted.assistant || pairing.assistant.empty()) && (wanted.dflash || pairing.dflash.empty());
}

struct Sorted {
  Pairing pairing{};
  std::optional<graph::AssistantShape> assistant{};
  std::optional<graph::DFlashShape> dflash{};
};

Sorted sort(const graph::Shape& target, const std::vector<std::string>& drafter_folders) {
  Sorted sorted;
  for (const std::string& folder : drafter_folders) {
    const Config config = read_config(folder);
    if (!config.assistant && !config.dflash)
      fail(ErrorKind::unsupported, folder, "model_type, expected a drafter, got " + config.model_type);
    std::string& place = config.assistant ? sorted.pairing.assistant : sorted.pairing.dflash;
    if (!place.empty()) fail(ErrorKind::usage, folder, "expected one drafter of a kind, got another beside " + place);
    place = folder;
    if (config.assistant) {
      check_pair(target, *config.assistant, folder);
      sorted.assistant = config.assistant;
    } else {
      check_pair(target, *config.dflash, folder);
      sorted.dflash = config.dflash;
    }
  }
  return sorted;
}

std::size_t common_beginning(std::string_view a, std::string_view b) {
  return static_cast<std::size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}

}  // namespace

Config read_config(const std::string& folder) {
  const std::string path = folder + "/config.json";
  return parse_config(read_text_file(path), path);
}

Pairing sort_drafters(const graph::Shape& target, const std::vector<std::string>& drafter_folders) {
  return sort(target, drafter_folders).pairing;
}

Pairing pair(const graph::Shape& target, const std::vector<std::string>& drafter_folders, const std::string& target_folder) {
  if (drafter_folders.empty()) return {.graph = &find_graph(target, target_folder), .assistant = {}, .dflash = {}};
  auto [pairing, assistant, dflash] = sort(target, drafter_folders);
  pairing.graph = try_find_graph(target, assistant ? &*assistant : nullptr, dflash ? &*dflash : nullptr);
  if (!pairing.graph)
    fail(ErrorKind::no_graph, drafter_folders.back(),
         "no compiled graph has this drafter with its target; a build with -Dextra_graphs=TARGET+DRAFTER adds it");
  return pairing;
}

std::vector<std::string> find_drafters(const std::string& target_folder, const graph::Shape& target, Drafters wanted) {
  auto [own, all] = neighbourhood_of(target_folder);
  const std::string_view name = last_part(own);  // whoever made a drafter, it is named like its target
  std::ranges::sort(all, [&](const PlacedCheckpoint& a, const PlacedCheckpoint& b) {
    const std::size_t left = common_beginning(name, last_part(a.name)), right = common_beginning(name, last_part(b.name));
    return left != right ? left > right : a.name < b.name;
  });
  std::vector<std::string> found;
  for (const PlacedCheckpoint& other : all) {
    std::vector<std::string> more = found;
    more.push_back(other.folder);
    try {
      if (all_are(wanted, pair(target, more, target_folder))) found = more;
    } catch (const Error&) {
      // whatever else lies beside a model
    }
  }
  return found;
}

}  // namespace lapidary::link
