// Compute pipelines, and archives of compiled ones.
#pragma once

#include <Metal/Metal.hpp>

#include <set>
#include <string>

#include "metal/library.hpp"

namespace softmetal {

struct PipelineDescriptor : Implements<PipelineDescriptor, MTL::ComputePipelineDescriptor> {
  Ref<NS::String> label;
  Ref<MTL::Function> function;
  Ref<NS::Array> archives;
  bool indirect = false;
  bool whole_simdgroups = false;
  NS::UInteger max_threads = 0;  // 0 = what the device has

  void reset();
};

struct Pipeline : Implements<Pipeline, MTL::ComputePipelineState> {
  Ref<NS::String> label;
  Ref<MTL::Function> function;
  bool indirect = false;
  bool whole_simdgroups = false;
  NS::UInteger max_threads = 0;

  const Kernel& kernel() const { return *as<Function>(function.get())->kernel; }
  NS::UInteger execution_width() const { return kSimdWidth; }
  MTL::Device* device() const;
};

Pipeline* new_pipeline(const MTL::Function* function);
Pipeline* new_pipeline(const PipelineDescriptor& descriptor, MTL::PipelineOption options, NS::Error** error);

struct BinaryArchiveDescriptor : Implements<BinaryArchiveDescriptor, MTL::BinaryArchiveDescriptor> {
  Ref<NS::URL> url;
};

// Holds the names of what was compiled: a pipeline is in it or not.
struct BinaryArchive : Implements<BinaryArchive, MTL::BinaryArchive> {
  Ref<NS::String> label;
  std::set<std::string> pipelines;

  bool add(const MTL::ComputePipelineDescriptor* descriptor, NS::Error** error);
  bool serialize(const NS::URL* url, NS::Error** error);
  MTL::Device* device() const;
};

BinaryArchive* new_binary_archive(const BinaryArchiveDescriptor& descriptor, NS::Error** error);

void register_pipeline();

}  // namespace softmetal
