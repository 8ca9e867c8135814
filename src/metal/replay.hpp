// A recorded segment in the two ways the device takes it: as an indirect command buffer, encoded once, or encoded directly.
#pragma once

#include "metal/recording.hpp"

namespace lapidary::metal {

// All dispatches of a recording as commands.
class Replay {
 public:
  Replay(Gpu& gpu, const std::vector<RecordedStep>& steps, int rows, const std::string& label);

  void execute(MTL::ComputeCommandEncoder* encoder) const;

 private:
  Owned<MTL::IndirectCommandBuffer> commands_;
  std::size_t count_ = 0;
  std::vector<MTL::ComputePipelineState*> to_set_;  // pipelines that must be set besides
};

// Of a text: rows of a step by its row set.
struct RowCounts {
  int all = 0, outputs = 0;
  int block = 0, pending = 0;  // of the DFlash drafter

  int of(const graph::Step& step) const;
};

// Encodes a step of a recording directly, over so many rows.
void encode(MTL::ComputeCommandEncoder* encoder, const RecordedStep& step, int rows);

}  // namespace lapidary::metal
