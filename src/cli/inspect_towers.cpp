#include "cli/inspect_towers.hpp"

#include <cstdio>
#include <iostream>
#include <optional>
#include <string>

#include "checkpoint/error.hpp"
#include "cli/size_text.hpp"

namespace lapidary::cli {
namespace {

using graph::Tower;
using text::Value;

// What its cost is given for: a picture of the usual budget, 280 soft tokens, or 30 s of sound.
struct Usual {
  std::int32_t rows, columns;
  explicit Usual(const Tower& tower)
      : rows(tower.sense == graph::Sense::vision ? 14 * tower.vision.pool : tower.audio.layer_count ? 2999 : 750),
        columns(tower.sense == graph::Sense::vision ? 20 * tower.vision.pool : 1) {}
};

struct Facts {
  std::size_t bytes = 0;
  std::string storage{};               // of its matrices, each once
  std::optional<std::string> missing{};  // why it cannot run
  std::int64_t products = 0;
};

Facts facts_of(const link::Program& program, const Tower& tower) {
  const Usual usual(tower);
  Facts facts{.products = link::products_of(*program.graph, tower, usual.rows, usual.columns)};
  try {
    const link::TowerWeights weights = program.bind_tower(tower);
    for (std::size_t id = 0; id < weights.matrices.size(); ++id) {
      const link::Matrix& matrix = weights.matrices[id];
      const graph::WeightSlot& slot = program.graph->weights[id];
      if (weights.vectors[id]) facts.bytes += static_cast<std::size_t>(slot.rows) * slot.cols * sizeof(float);
      if (!matrix.values) continue;
      facts.bytes += matrix.total_bytes();
      const std::string storage = name_of(matrix.storage);
      if (facts.storage.find(storage) == std::string::npos) facts.storage += (facts.storage.empty() ? "" : ", ") + storage;
    }
  } catch (const Error& error) {
    facts.missing = error.message();
  }
  return facts;
}

std::string shape_text(const Tower& tower) {
  if (tower.sense == graph::Sense::vision) {
    const graph::VisionShape& v = tower.vision;
    const std::string patches = "patches of " + std::to_string(v.patch) + " x " + std::to_string(v.patch) + " pixels";
    if (!v.layer_count) return patches + ", hidden " + std::to_string(v.hidden) + ", no layers";
    return std::to_string(v.layer_count) + " layers, hidden " + std::to_string(v.hidden) + ", " + std::to_string(v.heads) + " heads of " +
           std::to_string(v.head_dim) + ", " + patches + ", " + std::to_string(v.pool * v.pool) + " to a soft token";
  }
  const graph::AudioShape& a = tower.audio;
  if (!a.layer_count) return "frames of " + std::to_string(a.input) + " samples, no layers";
  return std::to_string(a.layer_count) + " layers, hidden " + std::to_string(a.hidden) + ", " + std::to_string(a.heads) + " heads, spectra of " +
         std::to_string(a.input) + " bands, 4 to a soft token";
}

}  // namespace

void print_towers(const link::Program& program) {
  for (const Tower& tower : program.graph->towers) {
    const Facts facts = facts_of(program, tower);
    const Usual usual(tower);
    const bool sees = tower.sense == graph::Sense::vision;
    std::cout << "\n" << (sees ? "vision" : "audio") << " tower\n  shape          " << shape_text(tower) << "\n  weights        "
              << (facts.missing ? "missing: " + *facts.missing : size_text(facts.bytes) + ", " + facts.storage) << "\n";
    std::printf("  %-14s %d soft tokens, %.1f billion products\n", sees ? "per picture" : "per 30 s", tower.soft_tokens(usual.rows, usual.columns),
                static_cast<double>(facts.products) / 1e9);
  }
  std::fflush(stdout);
}

Value json_of_towers(const link::Program& program) {
  Value::Array towers;
  for (const Tower& tower : program.graph->towers) {
    const Facts facts = facts_of(program, tower);
    const Usual usual(tower);
    const bool sees = tower.sense == graph::Sense::vision;
    Value::Object object{{"sense", sees ? "vision" : "audio"},
                         {"layers", sees ? tower.vision.layer_count : tower.audio.layer_count},
                         {"hidden", sees ? tower.vision.hidden : tower.audio.hidden},
                         {"input_width", tower.input_width},
                         {"soft_tokens", tower.soft_tokens(usual.rows, usual.columns)},
                         {"products", facts.products},
                         {"bytes", static_cast<std::int64_t>(facts.bytes)}};
    if (facts.missing) object.emplace_back("missing", *facts.missing);
    towers.push_back(std::move(object));
  }
  return towers;
}

std::vector<link::Matrix> tower_matrices(const link::Program& program) {
  std::vector<link::Matrix> all(program.graph->weights.size());
  for (const Tower& tower : program.graph->towers) {
    try {
      const link::TowerWeights weights = program.bind_tower(tower);
      for (std::size_t id = 0; id < all.size(); ++id)
        if (weights.matrices[id].values) all[id] = weights.matrices[id];
    } catch (const Error&) {
      // Its weights are listed without what nobody knows of them.
    }
  }
  return all;
}

}  // namespace lapidary::cli
