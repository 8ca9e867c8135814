// lapidary list: the models on this machine that can run.
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <iostream>

#include "cli/commands.hpp"
#include "cli/model.hpp"
#include "cli/size_text.hpp"
#include "link/drafters.hpp"
#include "text/value.hpp"

namespace lapidary::cli {
namespace {

namespace fs = std::filesystem;
using text::Value;

struct Entry {
  std::string name, folder, storage, assistant, dflash;  // of its drafters the names; empty = none
  std::size_t weight_bytes = 0, memory_bytes = 0;
  std::string why_not;                           // it cannot run
};

std::size_t machine_bytes() {
  return static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

std::string storage_of(const Config& config) {
  if (!config.quantization) return "bf16";
  const QuantizedAs& as = config.quantization->everywhere;
  return name_of(graph::Storage{.encoding = as.encoding, .bits = as.bits, .group = as.group});
}

std::vector<PlacedCheckpoint> all_places() {
  std::vector<PlacedCheckpoint> all = engine::checkpoints_in(engine::Places::of_environment());
  if (const auto pebble = find_pebble()) all.insert(all.begin(), {"pebble", *pebble});
  return all;
}

// Nothing where it is no model of ours, or a drafter: that is listed with its target.
std::optional<Entry> entry_of(const PlacedCheckpoint& place) {
  Entry entry;
  entry.name = place.name;
  entry.folder = place.folder;
  try {
    const Config config = link::read_config(place.folder);
    if (config.assistant || config.dflash) return std::nullopt;
    entry.storage = storage_of(config);
  } catch (const Error&) {
    return std::nullopt;
  }
  try {
    ModelFlags model;
    model.checkpoint = place.folder;
    engine::ModelOptions options = model.options_with(DraftFlags());
    options.notice = {};
    const link::Program program = engine::open_program(options);
    entry.weight_bytes = program.plan.weights_mapped_bytes;
    entry.memory_bytes = program.plan.weights_mapped_bytes + program.plan.anonymous_bytes();
    if (program.assistant) entry.assistant = neighbourhood_of(program.assistant->folder).name;
    if (program.dflash) entry.dflash = neighbourhood_of(program.dflash->folder).name;
  } catch (const Error& error) {
    entry.why_not = error.message();
  }
  return entry;
}

Value value_of(const Entry& entry) {
  Value::Object object{{"name", entry.name}, {"folder", entry.folder}, {"storage", entry.storage}};
  if (!entry.why_not.empty()) {
    object.emplace_back("error", entry.why_not);
    return object;
  }
  object.emplace_back("weight_bytes", static_cast<std::int64_t>(entry.weight_bytes));
  object.emplace_back("memory_bytes", static_cast<std::int64_t>(entry.memory_bytes));
  object.emplace_back("fits", entry.memory_bytes <= machine_bytes());
  for (const auto& [kind, name] : {std::pair{"assistant", entry.assistant}, {"dflash", entry.dflash}})
    object.emplace_back(kind, name.empty() ? Value() : Value(name));
  return object;
}

void print(const std::vector<Entry>& entries, bool all) {
  std::size_t width = 5, broken = 0;
  for (const Entry& entry : entries) width = std::max(width, entry.name.size());
  std::printf("%-*s  %9s  %-10s  %9s  %s\n", static_cast<int>(width), "MODEL", "WEIGHTS", "STORAGE", "MEMORY", "DRAFTERS");
  for (const Entry& entry : entries) {
    if (!entry.why_not.empty()) {
      ++broken;
      continue;
    }
    const std::string drafters = entry.assistant + (entry.assistant.empty() || entry.dflash.empty() ? "" : ", ") + entry.dflash;
    std::printf("%-*s  %9s  %-10s  %9s  %s%s\n", static_cast<int>(width), entry.name.c_str(), size_text(entry.weight_bytes).c_str(),
                entry.storage.c_str(), size_text(entry.memory_bytes).c_str(), drafters.empty() ? "-" : drafters.c_str(),
                entry.memory_bytes > machine_bytes() ? "  (more than this machine's memory)" : "");
  }
  if (!broken) return;
  if (!all) {
    std::fprintf(stderr, "%zu more cannot run; --all says why\n", broken);
    return;
  }
  for (const Entry& entry : entries)
    if (!entry.why_not.empty()) std::printf("%s cannot run: %s\n", entry.name.c_str(), entry.why_not.c_str());
}

}  // namespace

void add_list(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "list", "Show the models on this machine that can run: pebble, those in the folders of LAPIDARY_MODELS, those in the hub's cache");
  struct ListFlags {
    bool all = false, json = false;
  };
  const auto flags = std::make_shared<ListFlags>();
  command->add_flag("--all", flags->all, "also those that cannot, and why");
  command->add_flag("--json", flags->json, "one JSON object per model");
  command->callback([flags] {
    std::vector<Entry> entries;
    for (const PlacedCheckpoint& place : all_places())
      if (auto entry = entry_of(place)) entries.push_back(std::move(*entry));
    if (!flags->json) return print(entries, flags->all);
    for (const Entry& entry : entries)
      if (flags->all || entry.why_not.empty()) std::cout << text::to_json(value_of(entry)) << "\n";
  });
}

}  // namespace lapidary::cli
