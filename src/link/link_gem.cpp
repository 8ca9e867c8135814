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

}  // namespace

Program link(const Manifest& manifest, const GemBytes& bytes, bool drafting, const Options& options) {
  std::optional<Origin> assistant;
  if (drafting && manifest.assistant) {
    assistant = origin_of(*manifest.assistant, bytes);
    assistant->mappings.clear();  // the target's
  }
  Program program = begin_program(origin_of(manifest.target, bytes), std::move(assistant), *manifest.graph, options);
  const float* constant = bytes.constants.data();
  const std::int32_t* order = bytes.orders.data();
  for (std::size_t id = 0; id < manifest.graph->weights.size(); ++id) {
    const graph::WeightSlot& slot = manifest.graph->weights[id];
    Matrix& matrix = program.matrices.emplace_back();
    const float*& vector = program.vectors.emplace_back();
    const std::int32_t*& ids = program.ids.emplace_back();
    if (slot.owner == graph::Owner::assistant && !manifest.assistant) continue;
    if (slot.kind == graph::WeightClass::vector) {
      vector = std::exchange(constant, constant + slot.cols);
    } else if (slot.kind == graph::WeightClass::ids) {
      ids = std::exchange(order, order + slot.cols);
    } else if (slot.owner == graph::Owner::target || program.assistant) {
      const PlacedMatrix& placed = manifest.matrices[id];
      const std::byte* file = bytes.mappings[placed.file].data();
      const auto at = [&](std::uint64_t offset) { return offset == kNowhere ? nullptr : file + offset; };
      matrix = {.storage = placed.storage, .experts = slot.experts, .rows = slot.rows, .cols = slot.cols,
                .values = at(placed.values), .scales = at(placed.scales), .biases = at(placed.biases),
                .row_bytes = placed.row_bytes, .expert_bytes = placed.expert_bytes,
                .scale_row_bytes = placed.scale_row_bytes, .scale_expert_bytes = placed.scale_expert_bytes};
    }
  }
  program.plan.constants_bytes = 0;  // they are mapped
  program.prepared = {manifest.prepared_kind, bytes.prepared};
  finish_program(program);
  return program;
}

}  // namespace lapidary::link
