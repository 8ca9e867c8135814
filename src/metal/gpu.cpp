#include "metal/gpu.hpp"

#include "checkpoint/error.hpp"

namespace lapidary::metal {
namespace {

// "linear_round 1=1536 2=2048": what makes a pipeline different from another
std::string key_of(const Dispatch& dispatch) {
  std::string key = dispatch.kernel;
  for (const Constant& constant : dispatch.constants)
    key += " " + std::to_string(constant.index) + "=" + std::to_string(constant.value);
  return key;
}

}  // namespace

std::string message_of(NS::Error* error) { return error ? error->localizedDescription()->utf8String() : "no reason given"; }

NS::String* text_of(const std::string& text) { return NS::String::string(text.c_str(), NS::UTF8StringEncoding); }

Gpu::Gpu(const std::string& archive_path) : device_(NS::TransferPtr(MTL::CreateSystemDefaultDevice())) {
  const Pool pool;
  if (!device_) fail(ErrorKind::io, "metal", "device, expected one that runs Metal, got none");
  queue_ = NS::TransferPtr(device_->newCommandQueue());
  queue_->setLabel(text_of("lapidary"));
  const auto options = NS::TransferPtr(MTL::CompileOptions::alloc()->init());
  options->setLanguageVersion(MTL::LanguageVersion3_1);
  options->setMathMode(MTL::MathModeSafe);
  NS::Error* error = nullptr;
  library_ = NS::TransferPtr(device_->newLibrary(text_of(kShaderText), options.get(), &error));
  if (!library_) fail(ErrorKind::io, "metal", "shaders, expected text that compiles, got: " + message_of(error));
  archive_.emplace(device_.get(), archive_path);
}

std::string Gpu::name() const {
  const Pool pool;
  return device_->name()->utf8String();
}

Owned<MTL::Buffer> Gpu::allocate(std::size_t bytes, const std::string& label) const {
  const Pool pool;
  auto buffer = NS::TransferPtr(device_->newBuffer(std::max<std::size_t>(bytes, 16), MTL::ResourceStorageModeShared));
  if (!buffer) fail(ErrorKind::io, "metal", label + ", expected " + std::to_string(bytes) + " bytes of memory, got none");
  buffer->setLabel(text_of(label));
  return buffer;
}

void Gpu::prepare(Dispatch& dispatch) {
  const Pool pool;
  const std::string key = key_of(dispatch);
  Owned<MTL::ComputePipelineState>& pipeline = pipelines_[key];
  dispatch.pipeline = pipeline.get();
  if (pipeline) return;
  const auto constants = NS::TransferPtr(MTL::FunctionConstantValues::alloc()->init());
  for (const Constant& constant : dispatch.constants)
    constants->setConstantValue(&constant.value, MTL::DataTypeInt, static_cast<NS::UInteger>(constant.index));
  NS::Error* error = nullptr;
  const auto function = NS::TransferPtr(library_->newFunction(text_of(dispatch.kernel), constants.get(), &error));
  if (!function) fail(ErrorKind::io, "metal", key + ", expected a kernel of this name, got: " + message_of(error));
  const auto descriptor = NS::TransferPtr(MTL::ComputePipelineDescriptor::alloc()->init());
  descriptor->setLabel(text_of(key));
  descriptor->setComputeFunction(function.get());
  descriptor->setSupportIndirectCommandBuffers(true);
  pipeline = archive_->pipeline(descriptor.get(), &error);
  if (!pipeline) fail(ErrorKind::io, "metal", key + ", expected a pipeline, got: " + message_of(error));
  if (pipeline->maxTotalThreadsPerThreadgroup() < static_cast<NS::UInteger>(dispatch.threads))
    fail(ErrorKind::io, "metal", key + ", expected " + std::to_string(dispatch.threads) + " threads in a threadgroup, got " +
                                     std::to_string(pipeline->maxTotalThreadsPerThreadgroup()));
  dispatch.pipeline = pipeline.get();
}

MTL::Size groups_of(const Dispatch& dispatch, int rows) {
  const int y = dispatch.rows_per_group ? (rows + dispatch.rows_per_group - 1) / dispatch.rows_per_group : 1;
  return MTL::Size(static_cast<NS::UInteger>(dispatch.groups_x), static_cast<NS::UInteger>(y),
                   static_cast<NS::UInteger>(dispatch.groups_z));
}

void encode(MTL::ComputeCommandEncoder* encoder, const Dispatch& dispatch, int rows) {
  encoder->setComputePipelineState(pipeline_of(dispatch));
  for (const Binding& binding : dispatch.bindings)
    encoder->setBuffer(buffer_of(binding.slice), binding.slice.offset_bytes, static_cast<NS::UInteger>(binding.index));
  if (dispatch.threadgroup_bytes)
    encoder->setThreadgroupMemoryLength(static_cast<NS::UInteger>(dispatch.threadgroup_bytes), 0);
  encoder->dispatchThreadgroups(groups_of(dispatch, rows), MTL::Size(static_cast<NS::UInteger>(dispatch.threads), 1, 1));
}

}  // namespace lapidary::metal
