#include "link/link_gem.hpp"

#include <utility>

namespace lapidary::link {
namespace {

Origin origin_of(const CutOrigin& cut, const GemBytes& bytes) {
  Origin origin{.folder = std::string(cut.folder), .model_type = std::string(cut.model_type), .max_positions = cut.max_positions,
                .mappings = bytes.mappings, .hashes = {}, .fingerprint = [cut] { return std::string(cut.fingerprint); },
                .files = bytes.keeper};
  origin.hashes = [cut] {
    FileHashes hashes;
    for (const CutHash& hash : cut.hashes) hashes.emplace(hash.file, hash.sha256);
    return hashes;
  };
  return origin;
}

bool is_widened(const graph::WeightSlot& slot) {
  return slot.kind == graph::WeightClass::vector || slot.kind == graph::WeightClass::kernel;
}

Matrix matrix_of(const Manifest& manifest, const GemBytes& bytes, std::size_t id) {
  const graph::WeightSlot& slot = manifest.graph->weights[id];
  const PlacedMatrix& placed = manifest.matrices[id];
  const std::byte* file = bytes.mappings[placed.file].data();
  const auto at = [&](std::uint64_t offset) { return offset == kNowhere ? nullptr : file + offset; };
  return {.storage = placed.storage, .experts = slot.experts, .rows = slot.rows, .cols = slot.cols,
          .values = at(placed.values), .scales = at(placed.scales), .biases = at(placed.biases),
          .row_bytes = placed.row_bytes, .expert_bytes = placed.expert_bytes,
          .scale_row_bytes = placed.scale_row_bytes, .scale_expert_bytes = placed.scale_expert_bytes, .clip = placed.clip};
}

bool carries(const Manifest& manifest, graph::Owner owner) {
  return Drafters{.assistant = manifest.assistant != nullptr, .dflash = manifest.dflash != nullptr}.has(owner);
}

// A checkpoint may have lacked its towers' tensors when it was cut.
TowerWeights tower_of(const Manifest& manifest, const GemBytes& bytes, const graph::Tower& tower) {
  TowerWeights weights;
  const float* constant = bytes.constants.data();
  for (std::size_t id = 0; id < manifest.graph->weights.size(); ++id) {
    const graph::WeightSlot& slot = manifest.graph->weights[id];
    Matrix& matrix = weights.matrices.emplace_back();
    const float*& vector = weights.vectors.emplace_back();
    if (!carries(manifest, slot.owner)) continue;
    const bool own = slot.owner == graph::owner_of(tower.sense);
    if (is_widened(slot)) {
      const float* here = std::exchange(constant, constant + std::size_t(slot.rows) * slot.cols);
      if (own) vector = here;
    } else if (own) {
      matrix = matrix_of(manifest, bytes, id);
      if (!matrix.values)
        fail(ErrorKind::missing_tensor, std::string(slot.name), "tensor, expected in the checkpoint that was cut, got nothing of that name");
    }
  }
  return weights;
}

}  // namespace

Program link(const Manifest& manifest, const GemBytes& bytes, Drafters wanted, const Options& options) {
  const auto drafter = [&](const CutOrigin* cut, bool is_wanted) -> std::optional<Origin> {
    if (!cut || !is_wanted) return std::nullopt;
    Origin origin = origin_of(*cut, bytes);
    origin.mappings.clear();  // the target's
    return origin;
  };
  Program program = begin_program(origin_of(manifest.target, bytes), drafter(manifest.assistant, wanted.assistant), *manifest.graph, options,
                                  drafter(manifest.dflash, wanted.dflash));
  const float* constant = bytes.constants.data();
  const std::int32_t* order = bytes.orders.data();
  for (std::size_t id = 0; id < manifest.graph->weights.size(); ++id) {
    const graph::WeightSlot& slot = manifest.graph->weights[id];
    Matrix& matrix = program.matrices.emplace_back();
    const float*& vector = program.vectors.emplace_back();
    const std::int32_t*& ids = program.ids.emplace_back();
    if (!carries(manifest, slot.owner)) continue;
    if (is_widened(slot)) {
      const float* here = std::exchange(constant, constant + std::size_t(slot.rows) * slot.cols);
      if (!is_tower(slot.owner)) vector = here;
    } else if (slot.kind == graph::WeightClass::ids) {
      ids = std::exchange(order, order + slot.cols);
    } else if (!is_tower(slot.owner) && program.drafters().has(slot.owner)) {
      matrix = matrix_of(manifest, bytes, id);
    }
  }
  program.bind_tower = [&manifest, bytes](const graph::Tower& tower) { return tower_of(manifest, bytes, tower); };
  program.plan.constants_bytes = 0;  // they are mapped
  program.prepared = {manifest.prepared_kind, bytes.prepared};
  finish_program(program);
  return program;
}

}  // namespace lapidary::link
