#include "metal/read_limit.hpp"

#include <algorithm>
#include <array>

#include "checkpoint/error.hpp"
#include "metal/device_memory.hpp"

namespace lapidary::metal {
namespace {

constexpr int kGroups = 1024, kPieces = 3815, kPasses = 16;
constexpr std::size_t kBytes = std::size_t{layout::kReadStreams} * kGroups * kPieces * 16;  // 250 MB, as on most processors

MTL::CommandBuffer* submit(const Gpu& gpu, const Dispatch& dispatch) {
  MTL::CommandBuffer* commands = gpu.queue()->commandBuffer();
  commands->setLabel(text_of("read limit"));
  MTL::ComputeCommandEncoder* encoder = commands->computeCommandEncoder();
  encode(encoder, dispatch, 1);
  encoder->endEncoding();
  commands->commit();
  return commands;
}

}  // namespace

Dispatch read_memory(const Slice& params, const Slice& in, const Slice& out, int groups) {
  return {.kernel = "read_streams", .constants = {}, .bindings = {{kStepAt, params}, {kInAt, in}, {kOutAt, out}},
          .groups_x = groups, .rows_per_group = 0, .threads = 32 * kReadSums};
}

double measure_read_limit(Gpu& gpu) {
  const Pool pool;
  const auto params = gpu.allocate(sizeof(layout::Step), "read limit"), in = gpu.allocate(kBytes, "memory to read"),
             out = gpu.allocate(kGroups * kReadSums * sizeof(std::uint32_t), "sums of what was read");
  contents<layout::Step>({params.get()})->k = kPieces;
  std::fill_n(contents<std::uint8_t>({in.get()}), kBytes, 1);  // pages of their own
  Dispatch dispatch = read_memory({params.get()}, {in.get()}, {out.get()}, kGroups);
  gpu.prepare(dispatch);
  std::array<MTL::CommandBuffer*, kPasses> passes;  // without a pause: a device that waits slows down
  for (MTL::CommandBuffer*& commands : passes) commands = submit(gpu, dispatch);
  double best_s = 1e9;
  for (MTL::CommandBuffer* commands : passes) {
    commands->waitUntilCompleted();
    if (NS::Error* error = commands->error())
      fail(ErrorKind::io, "metal", "reading memory, expected it to complete, got: " + message_of(error));
    best_s = std::min(best_s, commands->GPUEndTime() - commands->GPUStartTime());
  }
  return kBytes / best_s;
}

}  // namespace lapidary::metal
