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

Matrix matrix_of(const graph::WeightSlot& slot, const PlacedMatrix& placed, const GemBytes& bytes) {
  const std::byte* file = bytes.mappings[placed.file].data();
  const auto at = [&](std::uint64_t offset) { return offset == kNowhere ? nullptr : file + offset; };
  return {.storage = placed.storage, .experts = slot.experts, .rows = slot.rows, .cols = slot.cols,
          .values = at(placed.values), .scales = at(placed.scales), .biases = at(placed.biases),
          .row_bytes = placed.row_bytes, .expert_bytes = placed.expert_bytes,
          .scale_row_bytes = placed.scale_row_bytes, .scale_expert_bytes = placed.scale_expert_bytes, .clip = placed.clip};
}

// A weight is one of these.
struct Placed {
  Matrix matrix{};
  const float* vector = nullptr;
  const std::int32_t* ids = nullptr;
};

// Calls take(slot, placed) for every weight in its turn: the tables have them one after the other.
template <class Take>
void for_each_weight(const Manifest& manifest, const GemBytes& bytes, Take take) {
  const PlacedMatrix* matrix = manifest.matrices.data();
  const float* constant = bytes.constants.data();
  const std::int32_t* order = bytes.orders.data();
  for (const graph::WeightSlot& slot : manifest.graph->weights) {
    Placed placed;
    if (graph::is_matrix(slot.kind)) placed.matrix = matrix_of(slot, *matrix++, bytes);
    else if (slot.kind == graph::WeightClass::ids) placed.ids = std::exchange(order, order + slot.cols);
    else placed.vector = std::exchange(constant, constant + std::size_t(slot.rows) * slot.cols);
    take(slot, placed);
  }
}

// A checkpoint may have lacked its towers' tensors when it was cut.
TowerWeights tower_of(const Manifest& manifest, const GemBytes& bytes, const graph::Tower& tower) {
  TowerWeights weights;
  for_each_weight(manifest, bytes, [&](const graph::WeightSlot& slot, const Placed& placed) {
    const bool own = slot.owner == graph::owner_of(tower.sense);
    weights.matrices.push_back(own ? placed.matrix : Matrix{});
    weights.vectors.push_back(own ? placed.vector : nullptr);
    if (own && graph::is_matrix(slot.kind) && !placed.matrix.values)
      fail(ErrorKind::missing_tensor, std::string(slot.name), "tensor, expected in the checkpoint that was cut, got nothing of that name");
  });
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
  for_each_weight(manifest, bytes, [&](const graph::WeightSlot& slot, const Placed& placed) {
    const bool here = !is_tower(slot.owner);
    Matrix& matrix = program.matrices.emplace_back(here ? placed.matrix : Matrix{});
    if (!program.drafters().has(slot.owner)) matrix.values = nullptr;  // what was prepared of it keeps its place
    program.vectors.push_back(here ? placed.vector : nullptr);
    program.ids.push_back(placed.ids);
  });
  program.bind_tower = [&manifest, bytes](const graph::Tower& tower) { return tower_of(manifest, bytes, tower); };
  program.plan.constants_bytes = 0;  // they are mapped
  program.prepared = {manifest.prepared_kind, bytes.prepared};
  finish_program(program);
  return program;
}

}  // namespace lapidary::link
