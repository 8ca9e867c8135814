#include "cpu/q8_steps.hpp"

#include <algorithm>
#include <vector>

#include "graph/op_table.hpp"

namespace lapidary::cpu {

bool is_q8(const link::Program& program, const graph::Step& step) {
  if (program.numeric != link::Numeric::fast || !graph::info_of(step.op).multiplies) return false;
  return std::ranges::all_of(step.weights, [&](graph::WeightId id) {
    return id == graph::kNone || has_q8(program.matrices[id]);
  });
}

Q8RoomSize q8_room_size(const link::Program& program) {
  Q8RoomSize room;
  for (const graph::Segment& segment : program.graph->segments)
    for (const graph::Step& step : segment.steps) {
      if (!is_q8(program, step)) continue;
      room.inputs = std::max<std::size_t>(room.inputs, step.dims->k);
      for (const graph::WeightId id : step.weights)
        if (id != graph::kNone) room.groups = std::max<std::size_t>(room.groups, step.dims->k / program.matrices[id].storage.group);
      if (graph::info_of(step.op).gates)
        room.outputs = std::max<std::size_t>(room.outputs, step.dims->n[0]);
    }
  return room;
}

ScaleCopies scale_copies(const link::Program& program, const Q8Kernels& kernels) {
  ScaleCopies copies;
  std::vector<bool> seen(program.matrices.size());
  for (const graph::Segment& segment : program.graph->segments)
    for (const graph::Step& step : segment.steps) {
      if (!is_q8(program, step)) continue;
      for (const graph::WeightId id : step.weights) {
        if (id == graph::kNone || seen[id]) continue;
        seen[id] = true;
        const link::Matrix& matrix = program.matrices[id];
        for (int expert = 0; expert < std::max(1, matrix.experts); ++expert, copies.words += scale_words(kernels, matrix))
          copies.list.push_back({id, expert, copies.words});
      }
    }
  return copies;
}

std::size_t q8_scale_bytes(const link::Program& program, const Q8Kernels& kernels) { return scale_copies(program, kernels).words * sizeof(std::uint32_t); }

}  // namespace lapidary::cpu
