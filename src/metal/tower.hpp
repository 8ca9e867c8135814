// Towers on the device: bound and recorded when they first perceive, one percept at a time. They are encoded directly, so what they bind
// need not be made resident.
#pragma once

#include <array>
#include <optional>

#include "link/executor.hpp"
#include "metal/recording.hpp"

namespace lapidary::metal {

// What towers take of the device's memory beside the arena that is planned for them.
std::size_t tower_room_bytes(const link::Program& program);

class Towers {
 public:
  // `program` and `files` must outlive it.
  Towers(Gpu& gpu, const link::Program& program, const MappedFiles& files) : gpu_(gpu), program_(program), files_(files) {}

  // A percept to where its tower takes it, while no run is in flight.
  void take(const graph::Tower& tower, const link::Percept& percept);
  void encode(MTL::ComputeCommandEncoder* encoder, const graph::Tower& tower, const link::Percept& percept) const;
  // Of the percept that was taken, once it is done.
  void give(const graph::Tower& tower, std::span<float> soft, std::span<float> tower_rows) const;

 private:
  struct Bound {
    link::TowerWeights origin;
    Weights weights;
    Owned<MTL::Buffer> params;         // layout::Step, one each kParamsStride
    std::vector<RecordedStep> steps;
  };

  void allocate();
  void bind(const graph::Tower& tower);
  BoundOperand bind_operand(const graph::Tower& tower, graph::BufferId id) const;
  void write_runs(const graph::Tower& tower, const link::Percept& percept);
  Slice run_of(graph::RowSet set) const;

  Gpu& gpu_;
  const link::Program& program_;
  const MappedFiles& files_;
  Owned<MTL::Buffer> arena_;           // of all towers, one after the other
  Owned<MTL::Buffer> percept_, soft_;  // float32 [rows, input width], [tokens, soft width]
  Owned<MTL::Buffer> runs_;            // layout::Run by row set: how many rows its steps have
  std::array<std::optional<Bound>, 2> bound_;  // by Sense
};

}  // namespace lapidary::metal
