// Compiled pipelines, kept in a file between runs of the program: only the first one waits for the compiler.
#pragma once

#include <string>

#include <Metal/Metal.hpp>

namespace lapidary::metal {

class Archive {
 public:
  // What the file at `path` holds; nothing where there is none that this system can use. An empty path: nothing is kept.
  Archive(MTL::Device* device, std::string path);

  // The pipeline of the descriptor: from the file, or compiled and added to it.
  NS::SharedPtr<MTL::ComputePipelineState> pipeline(MTL::ComputePipelineDescriptor* descriptor, NS::Error** error);

  // Writes what was added. A file that cannot be written costs time at the next start and nothing else.
  void save();

 private:
  MTL::Device* device_;
  std::string path_;
  NS::SharedPtr<MTL::BinaryArchive> archive_;
  bool has_more_ = false;  // than the file
};

// Where the pipelines of this program's shaders are kept: among the user's caches. Empty where there is no such place.
std::string archive_path();

}  // namespace lapidary::metal
