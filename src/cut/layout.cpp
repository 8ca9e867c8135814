#include "cut/layout.hpp"

#include <algorithm>

#include "checkpoint/checksum.hpp"
#include "checkpoint/flat.hpp"
#include "checkpoint/mapped_file.hpp"
#include "cut/payload.hpp"

namespace lapidary::cut {
namespace {

using graph::SegmentId;

// Weights in the order in which rounds read them; then those that only prompts do, and towers.
std::vector<graph::WeightId> reading_order(const link::Program& program) {
  std::vector<graph::WeightId> order;
  std::vector<bool> seen(program.matrices.size());
  const auto add = [&](const graph::Segment& segment) {
    for (const graph::Step& step : segment.steps)
      for (const graph::WeightId weight : step.weights) {
        if (weight == graph::kNone || seen[weight] || !program.matrices[weight].values) continue;
        seen[weight] = true;
        order.push_back(weight);
      }
  };
  for (const SegmentId id : {SegmentId::forward, SegmentId::head, SegmentId::draft, SegmentId::catch_up, SegmentId::block, SegmentId::prefill, SegmentId::prefill_all,
                             SegmentId::extend})
    add(program.graph->segment(id));
  for (const graph::Tower& tower : program.graph->towers) add(tower.segment);
  return order;
}

link::PlacedMatrix like(const link::Matrix& matrix) {
  return {.storage = matrix.storage, .row_bytes = matrix.row_bytes, .expert_bytes = matrix.expert_bytes,
          .scale_row_bytes = matrix.scale_row_bytes, .scale_expert_bytes = matrix.scale_expert_bytes, .clip = matrix.clip};
}

}  // namespace

std::uint64_t Layout::place(std::uint64_t bytes, std::size_t alignment) {
  const std::uint64_t offset = (bytes_ + alignment - 1) / alignment * alignment;
  bytes_ = offset + bytes;
  return offset;
}

std::uint64_t Layout::copy_experts(const std::byte* from, std::size_t experts, std::size_t expert_bytes, std::size_t stride_bytes) {
  const std::uint64_t offset = place(experts * expert_bytes, kFlatLine);
  for (std::size_t e = 0; e < experts; ++e) copies_.push_back({offset + e * expert_bytes, {from + e * stride_bytes, expert_bytes}});
  return offset;
}

void Layout::add_weights(const link::Program& program) {
  matrices_.resize(program.matrices.size());
  const std::vector<graph::WeightId> order = reading_order(program);
  const auto experts_of = [](const link::Matrix& matrix) { return static_cast<std::size_t>(std::max(1, matrix.experts)); };
  for (const graph::WeightId id : order) {
    const link::Matrix& matrix = program.matrices[id];
    link::PlacedMatrix& placed = matrices_[id] = like(matrix);
    placed.expert_bytes = matrix.row_bytes * static_cast<std::size_t>(matrix.rows);
    placed.values = copy_experts(matrix.values, experts_of(matrix), placed.expert_bytes, matrix.expert_bytes);
  }
  for (const graph::WeightId id : order) {
    const link::Matrix& matrix = program.matrices[id];
    link::PlacedMatrix& placed = matrices_[id];
    placed.scale_expert_bytes = matrix.scale_row_bytes * static_cast<std::size_t>(matrix.rows);
    const auto copy = [&](const std::byte* from) {
      return from ? copy_experts(from, experts_of(matrix), placed.scale_expert_bytes, matrix.scale_expert_bytes) : link::kNowhere;
    };
    placed.scales = copy(matrix.scales);
    placed.biases = copy(matrix.biases);
  }
}

void Layout::leave_weights(const link::Program& program) {
  std::vector<std::span<const std::byte>> mappings = program.target.mappings;
  for (const std::optional<link::Origin>* drafter : {&program.assistant, &program.dflash})
    if (*drafter) mappings.insert(mappings.end(), (*drafter)->mappings.begin(), (*drafter)->mappings.end());
  for (const std::span<const std::byte> mapping : mappings) files_.emplace_back(mapped_file_at(mapping.data()));
  for (const link::Matrix& matrix : program.matrices) {
    link::PlacedMatrix& placed = matrices_.emplace_back(like(matrix));
    if (!matrix.values) continue;
    const auto file = std::ranges::find_if(mappings, [&](std::span<const std::byte> mapping) {
      return matrix.values >= mapping.data() && matrix.values < mapping.data() + mapping.size();
    });
    // Scales may lie in another shard; one base for all would be wrong then.
    const auto offset = [&](const std::byte* at) -> std::uint64_t {
      if (!at) return link::kNowhere;
      if (at < file->data() || at >= file->data() + file->size())
        fail(ErrorKind::unsupported, program.target.folder, "weights, expected a matrix and its scales in one file, got them in two; "
                                                            "--weights beside copies them");
      return static_cast<std::uint64_t>(at - file->data());
    };
    placed.file = static_cast<std::uint8_t>(file - mappings.begin() + 1);
    placed.values = offset(matrix.values);
    placed.scales = offset(matrix.scales);
    placed.biases = offset(matrix.biases);
  }
}

link::PlacedBlock Layout::add_block(std::string bytes) {
  const std::string& kept = blocks_.emplace_back(std::move(bytes));
  const auto view = std::as_bytes(std::span(kept));
  const std::uint64_t offset = place(kept.size(), kPayloadPage);
  copies_.push_back({offset, view});
  return {.offset = offset, .bytes = kept.size(), .checksum = checksum_of(view)};
}

void Layout::finish() { place(0, kPayloadPage); }

void Layout::write(const Write& write, const Progress& progress) const {
  constexpr std::size_t kPieceBytes = 4u << 20;
  static constexpr std::byte kZeros[4096] = {};
  std::uint64_t done = 0;
  const auto fill_to = [&](std::uint64_t offset) {
    while (done < offset) {
      const auto size = static_cast<std::size_t>(std::min<std::uint64_t>(offset - done, sizeof kZeros));
      write(std::span(kZeros).first(size));
      done += size;
    }
  };
  for (const Copy& copy : copies_) {
    fill_to(copy.offset);
    for (std::span<const std::byte> left = copy.from; !left.empty();) {
      const auto piece = left.first(std::min(left.size(), kPieceBytes));
      write(piece);
      left = left.subspan(piece.size());
      done += piece.size();
      progress(done, bytes_);
    }
  }
  fill_to(bytes_);
  progress(done, bytes_);
}

}  // namespace lapidary::cut
