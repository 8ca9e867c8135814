// The Metal device: its queue, the shader library and the pipelines made from it, memory.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <Metal/Metal.hpp>

#include "gpu/step.hpp"
#include "metal/archive.hpp"

namespace lapidary::metal {

using namespace gpu;  // steps, dispatches and slices are those of every GPU

inline MTL::Buffer* buffer_of(const Slice& slice) { return static_cast<MTL::Buffer*>(slice.buffer); }
inline Slice behind(const Slice& slice, std::size_t bytes) { return {slice.buffer, slice.offset_bytes + bytes}; }
inline MTL::ComputePipelineState* pipeline_of(const Dispatch& dispatch) { return static_cast<MTL::ComputePipelineState*>(dispatch.pipeline); }

template <class T>
using Owned = NS::SharedPtr<T>;

// Objects that Metal hands out without ownership live until the pool of the calling code ends.
class Pool {
 public:
  Pool() : pool_(NS::AutoreleasePool::alloc()->init()) {}
  ~Pool() { pool_->release(); }
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

 private:
  NS::AutoreleasePool* pool_;
};

class Gpu {
 public:
  // The system's default device; compiles the shader library. Pipelines are kept in a file at `archive_path` (empty: nowhere).
  explicit Gpu(const std::string& archive_path = "");

  MTL::Device* device() const { return device_.get(); }
  MTL::CommandQueue* queue() const { return queue_.get(); }
  std::string name() const;

  // All of Apple's own chips for computers replay indirect commands; virtual devices say that they are something older.
  bool replays() const { return device_->supportsFamily(MTL::GPUFamilyApple7); }
  // Before the M3, a pipeline that only indirect commands use has to appear in a direct dispatch first, an empty one, or the driver
  // crashes.
  bool forgets_pipelines() const { return !device_->supportsFamily(MTL::GPUFamilyApple9); }

  // Zeroed memory that host and device share.
  Owned<MTL::Buffer> allocate(std::size_t bytes, const std::string& label) const;

  // Gives a dispatch its pipeline, built when first asked for: by kernel and constants.
  void prepare(Dispatch& dispatch);
  void keep_pipelines() { archive_->save(); }  // for the next start

 private:
  Owned<MTL::Device> device_;
  Owned<MTL::CommandQueue> queue_;
  Owned<MTL::Library> library_;
  std::optional<Archive> archive_;
  std::map<std::string, Owned<MTL::ComputePipelineState>> pipelines_;
};

// Threadgroups of a dispatch over so many rows.
MTL::Size groups_of(const Dispatch& dispatch, int rows);

// Encodes a dispatch directly.
void encode(MTL::ComputeCommandEncoder* encoder, const Dispatch& dispatch, int rows);

// The text of the shader library: layout.h, common.metal and the families.
extern const char* const kShaderText;

NS::String* text_of(const std::string& text);  // of the current pool
std::string message_of(NS::Error* error);

}  // namespace lapidary::metal
