#include "metal/pipeline.hpp"

#include <algorithm>
#include <fstream>

#include "metal/device.hpp"

namespace softmetal {
namespace {

const std::string kArchiveMark = "softmetal binary archive";

std::string identity_of(const PipelineDescriptor& descriptor) {
  return as<Function>(descriptor.function.get())->identity + (descriptor.indirect ? " indirect" : "");
}

bool is_archived(const PipelineDescriptor& descriptor) {
  if (!descriptor.archives) return false;
  const Array& archives = *as<Array>(descriptor.archives.get());
  return std::any_of(archives.objects.begin(), archives.objects.end(), [&](const Ref<NS::Object>& object) {
    return reinterpret_cast<const BinaryArchive*>(object.get())->pipelines.contains(identity_of(descriptor));
  });
}

}  // namespace

void PipelineDescriptor::reset() {
  label = {};
  function = {};
  archives = {};
  indirect = whole_simdgroups = false;
  max_threads = 0;
}

MTL::Device* Pipeline::device() const { return the_device(); }

Pipeline* new_pipeline(const MTL::Function* function) {
  auto* pipeline = new Pipeline;
  pipeline->function = function;
  const unsigned limit = pipeline->kernel().max_threads;
  pipeline->max_threads = limit ? std::min<NS::UInteger>(limit, settings().max_threads) : settings().max_threads;
  return pipeline;
}

Pipeline* new_pipeline(const PipelineDescriptor& descriptor, MTL::PipelineOption options, NS::Error** error) {
  if (!descriptor.function) {
    set_error(error, 1, "a pipeline descriptor without computeFunction");
    return nullptr;
  }
  if ((options & MTL::PipelineOptionFailOnBinaryArchiveMiss) && !is_archived(descriptor)) {
    set_error(error, 1, "no archive holds " + identity_of(descriptor));
    return nullptr;
  }
  Pipeline* pipeline = new_pipeline(descriptor.function.get());
  pipeline->label = descriptor.label;
  pipeline->indirect = descriptor.indirect;
  pipeline->whole_simdgroups = descriptor.whole_simdgroups;
  if (descriptor.max_threads) pipeline->max_threads = std::min(pipeline->max_threads, descriptor.max_threads);
  return pipeline;
}

bool BinaryArchive::add(const MTL::ComputePipelineDescriptor* descriptor, NS::Error** error) {
  const PipelineDescriptor& added = *as<PipelineDescriptor>(descriptor);
  if (!added.function) {
    set_error(error, MTL::BinaryArchiveErrorUnexpectedElement, "a pipeline descriptor without computeFunction");
    return false;
  }
  pipelines.insert(identity_of(added));
  return true;
}

bool BinaryArchive::serialize(const NS::URL* url, NS::Error** error) {
  std::ofstream file(as<Url>(url)->path);
  file << kArchiveMark << "\n";
  for (const std::string& pipeline : pipelines) file << pipeline << "\n";
  file.close();
  if (file) return true;
  set_error(error, MTL::BinaryArchiveErrorInternalError, "cannot write " + as<Url>(url)->path);
  return false;
}

MTL::Device* BinaryArchive::device() const { return the_device(); }

BinaryArchive* new_binary_archive(const BinaryArchiveDescriptor& descriptor, NS::Error** error) {
  if (!descriptor.url) return new BinaryArchive;
  const std::string& path = as<Url>(descriptor.url.get())->path;
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line) || line != kArchiveMark) {
    set_error(error, MTL::BinaryArchiveErrorInvalidFile, path + " is no archive");
    return nullptr;
  }
  auto* archive = new BinaryArchive;
  while (std::getline(file, line)) archive->pipelines.insert(line);
  return archive;
}

void register_pipeline() {
  using Descriptor = PipelineDescriptor;
  ClassOf<Descriptor>("MTLComputePipelineDescriptor")
      .allocatable()
      .label()
      .method<&Descriptor::reset>(&MTL::ComputePipelineDescriptor::reset, "reset")
      .getter<&Descriptor::function>(&MTL::ComputePipelineDescriptor::computeFunction, "computeFunction")
      .setter<&Descriptor::function>(&MTL::ComputePipelineDescriptor::setComputeFunction, "setComputeFunction:")
      .getter<&Descriptor::archives>(&MTL::ComputePipelineDescriptor::binaryArchives, "binaryArchives")
      .setter<&Descriptor::archives>(&MTL::ComputePipelineDescriptor::setBinaryArchives, "setBinaryArchives:")
      .getter<&Descriptor::indirect>(&MTL::ComputePipelineDescriptor::supportIndirectCommandBuffers,
                                     "supportIndirectCommandBuffers")
      .setter<&Descriptor::indirect>(&MTL::ComputePipelineDescriptor::setSupportIndirectCommandBuffers,
                                     "setSupportIndirectCommandBuffers:")
      .getter<&Descriptor::whole_simdgroups>(
          &MTL::ComputePipelineDescriptor::threadGroupSizeIsMultipleOfThreadExecutionWidth,
          "threadGroupSizeIsMultipleOfThreadExecutionWidth")
      .setter<&Descriptor::whole_simdgroups>(
          &MTL::ComputePipelineDescriptor::setThreadGroupSizeIsMultipleOfThreadExecutionWidth,
          "setThreadGroupSizeIsMultipleOfThreadExecutionWidth:")
      .getter<&Descriptor::max_threads>(&MTL::ComputePipelineDescriptor::maxTotalThreadsPerThreadgroup,
                                        "maxTotalThreadsPerThreadgroup")
      .setter<&Descriptor::max_threads>(&MTL::ComputePipelineDescriptor::setMaxTotalThreadsPerThreadgroup,
                                        "setMaxTotalThreadsPerThreadgroup:");
  ClassOf<Pipeline>("MTLComputePipelineState")
      .label_getter()
      .getter<&Pipeline::max_threads>(&MTL::ComputePipelineState::maxTotalThreadsPerThreadgroup,
                                      "maxTotalThreadsPerThreadgroup")
      .getter<&Pipeline::indirect>(&MTL::ComputePipelineState::supportIndirectCommandBuffers,
                                   "supportIndirectCommandBuffers")
      .method<&Pipeline::execution_width>(&MTL::ComputePipelineState::threadExecutionWidth, "threadExecutionWidth")
      .method<&Pipeline::device>(&MTL::ComputePipelineState::device, "device");
  ClassOf<BinaryArchiveDescriptor>("MTLBinaryArchiveDescriptor")
      .allocatable()
      .getter<&BinaryArchiveDescriptor::url>(&MTL::BinaryArchiveDescriptor::url, "url")
      .setter<&BinaryArchiveDescriptor::url>(&MTL::BinaryArchiveDescriptor::setUrl, "setUrl:");
  ClassOf<BinaryArchive>("MTLBinaryArchive")
      .label()
      .method<&BinaryArchive::add>(&MTL::BinaryArchive::addComputePipelineFunctions,
                                   "addComputePipelineFunctionsWithDescriptor:error:")
      .method<&BinaryArchive::serialize>(&MTL::BinaryArchive::serializeToURL, "serializeToURL:error:")
      .method<&BinaryArchive::device>(&MTL::BinaryArchive::device, "device");
}

}  // namespace softmetal
