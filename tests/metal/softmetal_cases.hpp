// The software device's planted mistakes: each is made in a program of its own, which is this one started again.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <string>

#include <Metal/Metal.hpp>
#include <unistd.h>

#include "support/program.hpp"

namespace lapidary::test {

inline const std::string kSoftmetal = kRoot + "/tests/softmetal";

inline NS::String* metal_text(const std::string& text) { return NS::String::string(text.c_str(), NS::UTF8StringEncoding); }

class MetalPool {
 public:
  MetalPool() : pool_(NS::AutoreleasePool::alloc()->init()) {}
  ~MetalPool() { pool_->release(); }
  MetalPool(const MetalPool&) = delete;
  MetalPool& operator=(const MetalPool&) = delete;

 private:
  NS::AutoreleasePool* pool_;
};

// A device with a library from tests/softmetal/cases, and short ways to what tests need of it.
struct Rig {
  NS::SharedPtr<MTL::Device> device = NS::TransferPtr(MTL::CreateSystemDefaultDevice());
  NS::SharedPtr<MTL::CommandQueue> queue = NS::TransferPtr(device->newCommandQueue());
  NS::SharedPtr<MTL::Library> library;
  std::string problem;  // of the text

  explicit Rig(const std::string& file, const std::string& more_text = "") {
    const MetalPool pool;
    NS::Error* error = nullptr;
    const auto options = NS::TransferPtr(MTL::CompileOptions::alloc()->init());
    options->setMathMode(MTL::MathModeSafe);
    const std::string text = read_all(kSoftmetal + "/cases/" + file) + more_text;
    library = NS::TransferPtr(device->newLibrary(metal_text(text), options.get(), &error));
    if (!library) problem = error->localizedDescription()->utf8String();
  }

  NS::SharedPtr<MTL::ComputePipelineState> pipeline(const std::string& kernel, bool indirect = false,
                                                    const MTL::FunctionConstantValues* constants = nullptr) {
    const MetalPool pool;
    NS::Error* error = nullptr;
    const auto function = constants ? NS::TransferPtr(library->newFunction(metal_text(kernel), constants, &error))
                                    : NS::TransferPtr(library->newFunction(metal_text(kernel)));
    const auto descriptor = NS::TransferPtr(MTL::ComputePipelineDescriptor::alloc()->init());
    descriptor->setComputeFunction(function.get());
    descriptor->setSupportIndirectCommandBuffers(indirect);
    auto pipeline =
        NS::TransferPtr(device->newComputePipelineState(descriptor.get(), MTL::PipelineOptionNone, nullptr, &error));
    if (!pipeline) problem = error->localizedDescription()->utf8String();
    return pipeline;
  }

  template <class T>
  NS::SharedPtr<MTL::Buffer> buffer(const std::vector<T>& values) {
    return NS::TransferPtr(device->newBuffer(values.data(), values.size() * sizeof(T), MTL::ResourceStorageModeShared));
  }
  NS::SharedPtr<MTL::Buffer> buffer(std::size_t bytes) {
    return NS::TransferPtr(device->newBuffer(bytes, MTL::ResourceStorageModeShared));
  }

  NS::SharedPtr<MTL::IndirectCommandBuffer> indirect(int commands, NS::UInteger buffers = 2) {
    const auto descriptor = NS::TransferPtr(MTL::IndirectCommandBufferDescriptor::alloc()->init());
    descriptor->setCommandTypes(MTL::IndirectCommandTypeConcurrentDispatch);
    descriptor->setInheritBuffers(false);
    descriptor->setInheritPipelineState(false);
    descriptor->setMaxKernelBufferBindCount(buffers);
    return NS::TransferPtr(device->newIndirectCommandBuffer(descriptor.get(), static_cast<NS::UInteger>(commands), 0));
  }

  // What the device says of a command buffer; "" = nothing.
  std::string run(const std::function<void(MTL::ComputeCommandEncoder*)>& encode) {
    const MetalPool pool;
    MTL::CommandBuffer* commands = queue->commandBuffer();
    MTL::ComputeCommandEncoder* encoder = commands->computeCommandEncoder();
    encode(encoder);
    encoder->endEncoding();
    commands->commit();
    commands->waitUntilCompleted();
    return commands->error() ? commands->error()->localizedDescription()->utf8String() : "";
  }

  // A kernel over two buffers, 64 threads in a threadgroup.
  std::string run(const std::string& kernel, MTL::Buffer* x, MTL::Buffer* y, int groups = 4) {
    const auto compiled = pipeline(kernel);
    return run([&](MTL::ComputeCommandEncoder* encoder) {
      encoder->setComputePipelineState(compiled.get());
      encoder->setBuffer(x, 0, 0);
      encoder->setBuffer(y, 0, 1);
      encoder->dispatchThreadgroups(MTL::Size(static_cast<NS::UInteger>(groups), 1, 1), MTL::Size(64, 1, 1));
    });
  }
};

inline constexpr int kNumbers = 256;

inline std::vector<float> numbers() {
  std::vector<float> values(kNumbers);
  for (int i = 0; i < kNumbers; ++i) values[static_cast<std::size_t>(i)] = static_cast<float>(i) * 0.37f;
  return values;
}

// Prints the bits of the result, or what is wrong.
inline void run_planted_bug(const std::string& kernel) {
  Rig rig("bugs.metal");
  std::printf("%s\n", rig.problem.c_str());
  std::fflush(stdout);
  const auto x = rig.buffer(numbers()), y = rig.buffer(kNumbers * sizeof(float));
  const std::string problem = rig.run(kernel, x.get(), y.get());
  std::printf("%s\n", problem.c_str());
  const auto* result = static_cast<const float*>(y->contents());
  std::uint64_t hash = 1469598103934665603u;
  bool finite = true;
  for (int i = 0; i < kNumbers; ++i) {
    std::uint32_t bits;
    std::memcpy(&bits, result + i, sizeof bits);
    hash = (hash ^ bits) * 1099511628211u;
    finite = finite && std::isfinite(result[i]);
  }
  std::printf(finite ? "bits %016lx\n" : "not a number\n", static_cast<unsigned long>(hash));
}

// One deliberate misuse of Metal.
inline void run_planted_mistake(const std::string& name) {
  const auto is = [&](const char* other) { return name == other; };
  if (is("no pool")) {
    NS::TransferPtr(NS::TransferPtr(MTL::CreateSystemDefaultDevice())->newCommandQueue())->commandBuffer();
    return;
  }
  const MetalPool pool;
  if (is("pools in the wrong order")) {
    auto* outer = NS::AutoreleasePool::alloc()->init();
    NS::AutoreleasePool::alloc()->init();
    outer->release();
  }
  const char* broken = "kernel void broken(device float* x [[buffer(0)]]) { x[0] = y; }\n";
  if (is("a second try to compile")) Rig("bugs.metal", broken);
  Rig rig("bugs.metal", is("text that does not compile") || is("a second try to compile") ? broken : "");
  std::printf("%s\n", rig.problem.c_str());
  if (!rig.library) return;
  const auto x = rig.buffer(numbers()), y = rig.buffer(kNumbers * sizeof(float));
  if (is("memory that is not whole pages"))
    rig.device->newBuffer(static_cast<char*>(x->contents()) + 16, 4096, 0,
                          static_cast<void (^)(void*, NS::UInteger)>(nullptr));
  if (is("released too often")) {
    MTL::Buffer* freed = rig.device->newBuffer(16, 0);
    freed->release();
    freed->length();
  }
  if (is("a method that is not there")) rig.queue->commandBuffer()->blitCommandEncoder();
  if (is("a class that is not there")) MTL::TextureDescriptor::alloc();
  const auto compiled = rig.pipeline("add_one", !is("a pipeline that is not for indirect commands"));
  const auto indirect = rig.indirect(is("a barrier too late") ? 2 : 1, is("too few bindings") ? 1 : 2);
  MTL::IndirectComputeCommand* command = indirect->indirectComputeCommand(0);
  command->setComputePipelineState(compiled.get());
  command->setKernelBuffer(x.get(), is("an odd offset in an indirect command") ? 2 : 0, 0);
  if (!is("nothing bound")) command->setKernelBuffer(y.get(), 0, 1);
  if (is("another type of command")) command->concurrentDispatchThreads(MTL::Size(256, 1, 1), MTL::Size(64, 1, 1));
  command->concurrentDispatchThreadgroups(MTL::Size(is("an empty grid") ? 0 : 4, 1, 1),
                                          MTL::Size(is("too many threads") ? 2048 : 64, 1, 1));
  if (is("a barrier too late")) command->setBarrier();

  MTL::CommandBuffer* commands = rig.queue->commandBuffer();
  MTL::ComputeCommandEncoder* encoder = commands->computeCommandEncoder();
  if (is("bytes too many")) encoder->setBytes(std::vector<char>(8192).data(), 8192, 0);
  if (is("no pipeline")) encoder->dispatchThreadgroups(MTL::Size(1, 1, 1), MTL::Size(32, 1, 1));
  if (is("an offset behind the end")) encoder->setBuffer(x.get(), 4096, 0);
  if (is("an odd offset")) {
    encoder->setComputePipelineState(compiled.get());
    encoder->setBuffer(x.get(), 2, 0);
    encoder->setBuffer(y.get(), 0, 1);
    encoder->dispatchThreadgroups(MTL::Size(1, 1, 1), MTL::Size(32, 1, 1));
  }
  if (is("threadgroup memory of 20 bytes")) encoder->setThreadgroupMemoryLength(20, 0);
  if (is("an index too high")) encoder->setBuffer(x.get(), 0, 31);
  if (is("a sample between dispatches")) encoder->sampleCountersInBuffer(nullptr, 0, false);
  if (is("a debug group left open")) encoder->pushDebugGroup(MTLSTR("open"));
  const MTL::Resource* used[] = {x.get(), y.get()};
  encoder->useResources(used, is("not resident") ? 1 : 2, MTL::ResourceUsageRead | MTL::ResourceUsageWrite);
  encoder->executeCommandsInBuffer(indirect.get(), NS::Range(0, is("a range too long") ? 3 : 1));
  if (!is("an encoder left open")) encoder->endEncoding();
  if (is("a second encoder")) {
    commands->computeCommandEncoder();
    commands->computeCommandEncoder();
  }
  if (is("used after its end")) encoder->setBuffer(x.get(), 0, 0);
  const auto event = NS::TransferPtr(rig.device->newSharedEvent());
  if (is("changed while it runs")) commands->encodeWait(event.get(), 1);
  if (is("an event that goes back")) {
    commands->encodeSignalEvent(event.get(), 2);
    commands->encodeSignalEvent(event.get(), 1);
  }
  commands->commit();
  if (is("changed while it runs")) command->reset();
  if (is("committed twice")) commands->commit();
  commands->waitUntilCompleted();
}

// Two command buffers in flight over memory whose hazards Metal does not track, and nothing that orders them.
inline void run_passes(bool tracked, bool waits) {
  Rig rig("bugs.metal");
  const MetalPool pool;
  const auto descriptor = NS::TransferPtr(MTL::HeapDescriptor::alloc()->init());
  descriptor->setSize(8192);
  descriptor->setStorageMode(MTL::StorageModeShared);
  descriptor->setHazardTrackingMode(tracked ? MTL::HazardTrackingModeTracked : MTL::HazardTrackingModeDefault);
  const auto heap = NS::TransferPtr(rig.device->newHeap(descriptor.get()));
  const auto x = NS::TransferPtr(heap->newBuffer(1024, 0)), y = NS::TransferPtr(heap->newBuffer(1024, 0));
  const auto event = NS::TransferPtr(rig.device->newSharedEvent());
  const auto compiled = rig.pipeline("add_one");
  MTL::CommandBuffer* last = nullptr;
  for (int i = 0; i < 2; ++i) {
    MTL::CommandBuffer* commands = last = rig.queue->commandBuffer();
    if (waits && i == 1) commands->encodeWait(event.get(), 1);
    MTL::ComputeCommandEncoder* encoder = commands->computeCommandEncoder();
    encoder->setComputePipelineState(compiled.get());
    encoder->setBuffer(i == 0 ? x.get() : y.get(), 0, 0);
    encoder->setBuffer(i == 0 ? y.get() : x.get(), 0, 1);
    encoder->dispatchThreadgroups(MTL::Size(4, 1, 1), MTL::Size(64, 1, 1));
    encoder->endEncoding();
    if (i == 0) commands->encodeSignalEvent(event.get(), 1);
    commands->commit();
  }
  last->waitUntilCompleted();
  std::printf("%s\n", last->error() ? last->error()->localizedDescription()->utf8String() : "no error");
}

inline void run_planted(const std::string& name) {
  const std::size_t colon = name.find(": ");
  const std::string kind = name.substr(0, colon), rest = name.substr(colon + 2);
  if (kind == "kernel") run_planted_bug(rest);
  if (kind == "host") run_planted_mistake(rest);
  if (kind == "passes") run_passes(rest == "tracked", rest == "after an event");
  std::puts("nothing noticed");
  std::fflush(stdout);
}

// Makes a planted mistake in a program of its own, with these settings of the software device.
inline Outcome outcome_of_planted(const std::string& name, const std::string& settings) {
  char self[4096] = "";
  const auto length = ::readlink("/proc/self/exe", self, sizeof self - 1);
  return length < 0
             ? Outcome{}
             : shell("SOFTMETAL_PLANTED='" + name + "' " + settings + " '" + self + "' 'a planted mistake' || exit 1");
}

}  // namespace lapidary::test
