// Buffers, heaps, and sets of them that are resident.
#pragma once

#include <Metal/Metal.hpp>

#include <cstddef>
#include <map>
#include <memory>
#include <set>

#include "runtime/foundation.hpp"

namespace softmetal {

constexpr std::size_t kHeapAlignment = 256;

struct HeapDescriptor : Implements<HeapDescriptor, MTL::HeapDescriptor> {
  NS::UInteger size = 0;
  MTL::HeapType type = MTL::HeapTypeAutomatic;
  MTL::StorageMode storage_mode = MTL::StorageModePrivate;
  MTL::HazardTrackingMode hazard_tracking = MTL::HazardTrackingModeDefault;
  MTL::CPUCacheMode cache_mode = MTL::CPUCacheModeDefaultCache;
};

// Pages that end with one that cannot be touched.
class Mapping {
 public:
  explicit Mapping(std::size_t bytes);
  ~Mapping();
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  std::byte* begin() const { return begin_; }          // a multiple of 16; the last of `bytes` meet the end
  std::size_t total_bytes() const { return total_bytes_; }

 private:
  std::byte* pages_ = nullptr;
  std::byte* begin_ = nullptr;
  std::size_t total_bytes_ = 0;
};

struct Heap : Implements<Heap, MTL::Heap> {
  Ref<NS::String> label;
  NS::UInteger size = 0;
  NS::UInteger used_size = 0;                          // automatic heaps
  MTL::HeapType type = MTL::HeapTypeAutomatic;
  MTL::StorageMode storage_mode = MTL::StorageModePrivate;
  bool tracked = false;
  std::unique_ptr<Mapping> mapping;                    // placement heaps

  explicit Heap(const HeapDescriptor& descriptor);
  MTL::Buffer* new_buffer(NS::UInteger length, MTL::ResourceOptions options);
  MTL::Buffer* new_buffer_at(NS::UInteger length, MTL::ResourceOptions options, NS::UInteger offset);
  NS::UInteger max_available_size(NS::UInteger alignment);
  NS::UInteger allocated_size() const { return size; }
  MTL::Device* device() const;

 private:
  void check(NS::UInteger length, MTL::ResourceOptions options) const;
};

struct Buffer : Implements<Buffer, MTL::Buffer> {
  Ref<NS::String> label;
  std::byte* data = nullptr;
  NS::UInteger length = 0;
  MTL::ResourceOptions options = 0;
  std::unique_ptr<Mapping> mapping;                    // its own, unless it lies in a heap or over existing memory
  Ref<MTL::Heap> heap;
  NS::UInteger heap_offset = 0;
  bool tracked = true;                                 // Metal orders passes that use it
  bool addressed = false;                              // kernels may find it without a binding
  void (^deallocator)(void*, NS::UInteger) = nullptr;

  Buffer(NS::UInteger length, MTL::ResourceOptions options);
  ~Buffer();

  void* contents();
  MTL::GPUAddress gpu_address();
  NS::UInteger allocated_size() const { return mapping ? mapping->total_bytes() : length; }
  MTL::StorageMode storage_mode() const { return static_cast<MTL::StorageMode>(options >> 4 & 15); }
  MTL::HazardTrackingMode hazard_tracking() const;
  MTL::Device* device() const;
  MTL::PurgeableState set_purgeable_state(MTL::PurgeableState) { return MTL::PurgeableStateNonVolatile; }
  std::string name() const;                            // for messages
};

Buffer* new_buffer(NS::UInteger length, MTL::ResourceOptions options);
Buffer* new_buffer_no_copy(const void* memory, NS::UInteger length, MTL::ResourceOptions options,
                           void (^deallocator)(void*, NS::UInteger));

struct ResidencySetDescriptor : Implements<ResidencySetDescriptor, MTL::ResidencySetDescriptor> {
  Ref<NS::String> label;
  NS::UInteger initial_capacity = 0;
};

// What is added or removed counts from the next commit on.
struct ResidencySet : Implements<ResidencySet, MTL::ResidencySet> {
  Ref<NS::String> label;
  std::map<const void*, Ref<MTL::Allocation>> wanted, committed;

  void add(const MTL::Allocation* allocation);
  void add_all(const MTL::Allocation* const allocations[], NS::UInteger count);
  void remove(const MTL::Allocation* allocation);
  void remove_all() { wanted.clear(); }
  bool contains(const MTL::Allocation* allocation) { return wanted.contains(allocation); }
  NS::UInteger count() const { return wanted.size(); }
  std::uint64_t allocated_size() const;
  void commit() { committed = wanted; }
  void request() {}
  void end() {}
  MTL::Device* device() const;
};

void register_memory();

}  // namespace softmetal
