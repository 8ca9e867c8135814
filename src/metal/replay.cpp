#include "metal/replay.hpp"

#include <algorithm>

#include "checkpoint/error.hpp"

namespace lapidary::metal {

constexpr int kMaxBindings = 31;

int RowCounts::of(const graph::Step& step) const {
  switch (rows_of(step.rows)) {
    case layout::kOneRow: return 1;
    case layout::kOutputRows: return outputs;
    case layout::kWaitingRows: return pending;
    case layout::kBlockRows: return block;
    default: return all;
  }
}

Replay::Replay(Gpu& gpu, const std::vector<RecordedStep>& steps, int rows, const std::string& label) {
  const Pool pool;
  for (const RecordedStep& step : steps) count_ += step.dispatches.size();
  const auto descriptor = NS::TransferPtr(MTL::IndirectCommandBufferDescriptor::alloc()->init());
  descriptor->setCommandTypes(MTL::IndirectCommandTypeConcurrentDispatch);
  descriptor->setInheritBuffers(false);
  descriptor->setInheritPipelineState(false);
  descriptor->setMaxKernelBufferBindCount(kMaxBindings);
  descriptor->setMaxKernelThreadgroupMemoryBindCount(1);
  commands_ = NS::TransferPtr(gpu.device()->newIndirectCommandBuffer(descriptor.get(), count_, MTL::ResourceStorageModeShared));
  if (!commands_)
    fail(ErrorKind::out_of_memory, "metal", label + ", expected " + std::to_string(count_) + " indirect commands, got none");
  commands_->setLabel(text_of(label));
  NS::UInteger number = 0;
  for (const RecordedStep& step : steps)
    for (std::size_t i = 0; i < step.dispatches.size(); ++i) {
      const Dispatch& dispatch = step.dispatches[i];
      MTL::IndirectComputeCommand* command = commands_->indirectComputeCommand(number++);
      if (gpu.forgets_pipelines() && std::ranges::find(to_set_, pipeline_of(dispatch)) == to_set_.end())
        to_set_.push_back(pipeline_of(dispatch));
      command->setComputePipelineState(pipeline_of(dispatch));
      for (const Binding& binding : dispatch.bindings)
        command->setKernelBuffer(buffer_of(binding.slice), binding.slice.offset_bytes, static_cast<NS::UInteger>(binding.index));
      if (dispatch.threadgroup_bytes)
        command->setThreadgroupMemoryLength(static_cast<NS::UInteger>(dispatch.threadgroup_bytes), 0);
      if (step.barrier || i > 0) command->setBarrier();
      command->concurrentDispatchThreadgroups(groups_of(dispatch, rows), MTL::Size(static_cast<NS::UInteger>(dispatch.threads), 1, 1));
    }
}

void Replay::execute(MTL::ComputeCommandEncoder* encoder) const {
  for (const MTL::ComputePipelineState* pipeline : to_set_) {
    encoder->setComputePipelineState(pipeline);
    encoder->dispatchThreadgroups(MTL::Size(0, 0, 0), MTL::Size(0, 0, 0));
  }
  encoder->executeCommandsInBuffer(commands_.get(), NS::Range(0, count_));
}

void encode(MTL::ComputeCommandEncoder* encoder, const RecordedStep& step, int rows) {
  if (rows == 0) return;
  for (std::size_t i = 0; i < step.dispatches.size(); ++i) {
    if (step.barrier || i > 0) encoder->memoryBarrier(MTL::BarrierScopeBuffers);
    encode(encoder, step.dispatches[i], rows);
  }
}

}  // namespace lapidary::metal
