#include "metal/check/workbench.hpp"

#include <optional>

#include "checkpoint/error.hpp"
#include "metal/replay.hpp"

namespace lapidary::metal::check {

Slice Workbench::hold(const void* data, std::size_t bytes) {
  const auto& buffer = held_.emplace_back(gpu_.allocate(bytes, "check"));
  if (bytes) std::memcpy(buffer->contents(), data, bytes);
  return {buffer.get(), 0};
}

double Workbench::run(std::vector<Dispatch> dispatches, int rows, bool replayed) {
  const Pool pool;
  for (Dispatch& dispatch : dispatches) gpu_.prepare(dispatch);
  std::optional<Replay> replay;
  if (replayed) replay.emplace(gpu_, std::vector<RecordedStep>{{nullptr, true, dispatches}}, rows, "check");
  MTL::CommandBuffer* commands = gpu_.queue()->commandBuffer();
  commands->setLabel(text_of("check"));
  MTL::ComputeCommandEncoder* encoder = commands->computeCommandEncoder();
  encoder->setLabel(text_of(dispatches.front().kernel));
  for (const Dispatch& dispatch : dispatches) {
    kernels_.insert(dispatch.kernel);
    if (!replay) {
      encode(encoder, dispatch, rows);
      continue;
    }
    for (const Binding& binding : dispatch.bindings)
      encoder->useResource(buffer_of(binding.slice), MTL::ResourceUsageRead | MTL::ResourceUsageWrite);
  }
  if (replay) replay->execute(encoder);
  encoder->endEncoding();
  commands->commit();
  commands->waitUntilCompleted();
  if (NS::Error* error = commands->error()) fail(ErrorKind::io, dispatches.front().kernel, message_of(error));
  return commands->GPUEndTime() - commands->GPUStartTime();
}

}  // namespace lapidary::metal::check
