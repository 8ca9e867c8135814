#include "metal/memory.hpp"

#include <algorithm>
#include <cstring>
#include <sys/mman.h>
#include <unistd.h>

#include "metal/device.hpp"

extern "C" {
void* _Block_copy(const void* block);
void _Block_release(const void* block);
}

namespace softmetal {
namespace {

// Memory of a heap is not cleared; NaN shows where a kernel counts on it.
constexpr std::size_t kMaxPoisonedBytes = 64u << 20;

std::size_t round_up(std::size_t bytes, std::size_t step) { return (bytes + step - 1) / step * step; }

void poison(std::byte* data, std::size_t bytes) { std::memset(data, 0xff, std::min(bytes, kMaxPoisonedBytes)); }

}  // namespace

Mapping::Mapping(std::size_t bytes) {
  const auto page = static_cast<std::size_t>(::getpagesize());
  const std::size_t body = round_up(bytes, page);
  total_bytes_ = body + page;
  void* pages = ::mmap(nullptr, total_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (pages == MAP_FAILED) fail("no memory for a buffer of " + std::to_string(bytes) + " bytes");
  pages_ = static_cast<std::byte*>(pages);
  ::mprotect(pages_ + body, page, PROT_NONE);
  begin_ = pages_ + body - round_up(bytes, 16);
}

Mapping::~Mapping() { ::munmap(pages_, total_bytes_); }

Heap::Heap(const HeapDescriptor& descriptor)
    : size(descriptor.size), type(descriptor.type), storage_mode(descriptor.storage_mode),
      tracked(descriptor.hazard_tracking == MTL::HazardTrackingModeTracked) {
  if (type != MTL::HeapTypePlacement) return;
  mapping = std::make_unique<Mapping>(size);
  poison(mapping->begin(), size);
}

void Heap::check(NS::UInteger length, MTL::ResourceOptions options) const {
  if (length == 0) fail("a buffer of a heap with no bytes");
  if (static_cast<MTL::StorageMode>(options >> 4 & 15) != storage_mode)
    fail("a buffer in another storage mode than its heap");
}

MTL::Buffer* Heap::new_buffer(NS::UInteger length, MTL::ResourceOptions options) {
  check(length, options);
  if (type != MTL::HeapTypeAutomatic) fail("newBufferWithLength:options: needs an automatic heap; give an offset");
  const NS::UInteger taken = round_up(length, kHeapAlignment);
  if (used_size + taken > size) return nullptr;
  auto* buffer = new Buffer(length, options);
  buffer->mapping = std::make_unique<Mapping>(length);
  buffer->data = buffer->mapping->begin();
  poison(buffer->data, length);
  buffer->heap = api(this);
  buffer->heap_offset = used_size;
  buffer->tracked = tracked;
  used_size += taken;
  return api(buffer);
}

MTL::Buffer* Heap::new_buffer_at(NS::UInteger length, MTL::ResourceOptions options, NS::UInteger offset) {
  check(length, options);
  if (type != MTL::HeapTypePlacement) fail("newBufferWithLength:options:offset: needs a placement heap");
  if (offset % kHeapAlignment != 0)
    fail("offset " + std::to_string(offset) + " in a heap is not a multiple of " + std::to_string(kHeapAlignment));
  if (offset + length > size) fail("a buffer beyond the end of its heap");
  auto* buffer = new Buffer(length, options);
  buffer->data = mapping->begin() + offset;
  buffer->heap = api(this);
  buffer->heap_offset = offset;
  buffer->tracked = tracked;
  return api(buffer);
}

NS::UInteger Heap::max_available_size(NS::UInteger) { return size - used_size; }
MTL::Device* Heap::device() const { return the_device(); }

Buffer::Buffer(NS::UInteger bytes, MTL::ResourceOptions resource_options)
    : length(bytes), options(resource_options), tracked(!(resource_options & MTL::ResourceHazardTrackingModeUntracked)) {}

Buffer::~Buffer() {
  if (!deallocator) return;
  deallocator(data, length);
  _Block_release(deallocator);
}

void* Buffer::contents() { return storage_mode() == MTL::StorageModePrivate ? nullptr : data; }

MTL::GPUAddress Buffer::gpu_address() {
  addressed = true;
  return reinterpret_cast<MTL::GPUAddress>(data);
}

MTL::HazardTrackingMode Buffer::hazard_tracking() const {
  return tracked ? MTL::HazardTrackingModeTracked : MTL::HazardTrackingModeUntracked;
}

MTL::Device* Buffer::device() const { return the_device(); }
std::string Buffer::name() const { return label ? "buffer \"" + text_of(label.get()) + "\"" : "a buffer"; }

Buffer* new_buffer(NS::UInteger length, MTL::ResourceOptions options) {
  if (length == 0 || length > kMaxBufferBytes) return nullptr;
  auto* buffer = new Buffer(length, options);
  buffer->mapping = std::make_unique<Mapping>(length);
  buffer->data = buffer->mapping->begin();
  return buffer;
}

Buffer* new_buffer_no_copy(const void* memory, NS::UInteger length, MTL::ResourceOptions options,
                           void (^deallocator)(void*, NS::UInteger)) {
  const std::size_t page = settings().page_bytes;
  if (reinterpret_cast<std::uintptr_t>(memory) % page != 0 || length % page != 0 || length == 0) {
    std::fprintf(stderr, "softmetal: a buffer over existing memory must be made of whole pages of %zu bytes\n", page);
    return nullptr;
  }
  if (options & MTL::ResourceStorageModePrivate) fail("a buffer over existing memory must be shared");
  auto* buffer = new Buffer(length, options);
  buffer->data = static_cast<std::byte*>(const_cast<void*>(memory));
  if (deallocator) buffer->deallocator = reinterpret_cast<void (^)(void*, NS::UInteger)>(_Block_copy(deallocator));
  return buffer;
}

void ResidencySet::add(const MTL::Allocation* allocation) { wanted.emplace(allocation, allocation); }
void ResidencySet::add_all(const MTL::Allocation* const allocations[], NS::UInteger count) {
  for (NS::UInteger i = 0; i < count; ++i) add(allocations[i]);
}
void ResidencySet::remove(const MTL::Allocation* allocation) { wanted.erase(allocation); }

std::uint64_t ResidencySet::allocated_size() const {
  std::uint64_t bytes = 0;
  for (const auto& [key, allocation] : committed) {
    const auto* object = static_cast<const Object*>(key);
    if (object->isa == Buffer::metal_class) bytes += static_cast<const Buffer*>(object)->allocated_size();
    if (object->isa == Heap::metal_class) bytes += static_cast<const Heap*>(object)->allocated_size();
  }
  return bytes;
}

MTL::Device* ResidencySet::device() const { return the_device(); }

void register_memory() {
  ClassOf<HeapDescriptor>("MTLHeapDescriptor")
      .allocatable()
      .getter<&HeapDescriptor::size>(&MTL::HeapDescriptor::size, "size")
      .setter<&HeapDescriptor::size>(&MTL::HeapDescriptor::setSize, "setSize:")
      .getter<&HeapDescriptor::type>(&MTL::HeapDescriptor::type, "type")
      .setter<&HeapDescriptor::type>(&MTL::HeapDescriptor::setType, "setType:")
      .getter<&HeapDescriptor::storage_mode>(&MTL::HeapDescriptor::storageMode, "storageMode")
      .setter<&HeapDescriptor::storage_mode>(&MTL::HeapDescriptor::setStorageMode, "setStorageMode:")
      .getter<&HeapDescriptor::cache_mode>(&MTL::HeapDescriptor::cpuCacheMode, "cpuCacheMode")
      .setter<&HeapDescriptor::cache_mode>(&MTL::HeapDescriptor::setCpuCacheMode, "setCpuCacheMode:")
      .getter<&HeapDescriptor::hazard_tracking>(&MTL::HeapDescriptor::hazardTrackingMode, "hazardTrackingMode")
      .setter<&HeapDescriptor::hazard_tracking>(&MTL::HeapDescriptor::setHazardTrackingMode, "setHazardTrackingMode:");
  ClassOf<Heap>("MTLHeap")
      .label()
      .method<&Heap::new_buffer>(&MTL::Heap::newBuffer, "newBufferWithLength:options:")
      .method<&Heap::new_buffer_at>(&MTL::Heap::newBuffer, "newBufferWithLength:options:offset:")
      .method<&Heap::max_available_size>(&MTL::Heap::maxAvailableSize, "maxAvailableSizeWithAlignment:")
      .method<&Heap::allocated_size>(&MTL::Heap::currentAllocatedSize, "currentAllocatedSize")
      .method<&Heap::allocated_size>(&MTL::Allocation::allocatedSize, "allocatedSize")
      .method<&Heap::device>(&MTL::Heap::device, "device")
      .getter<&Heap::size>(&MTL::Heap::size, "size")
      .getter<&Heap::used_size>(&MTL::Heap::usedSize, "usedSize")
      .getter<&Heap::type>(&MTL::Heap::type, "type")
      .getter<&Heap::storage_mode>(&MTL::Heap::storageMode, "storageMode");
  ClassOf<Buffer>("MTLBuffer")
      .label()
      .method<&Buffer::contents>(&MTL::Buffer::contents, "contents")
      .method<&Buffer::gpu_address>(&MTL::Buffer::gpuAddress, "gpuAddress")
      .method<&Buffer::allocated_size>(&MTL::Buffer::allocatedSize, "allocatedSize")
      .method<&Buffer::storage_mode>(&MTL::Buffer::storageMode, "storageMode")
      .method<&Buffer::hazard_tracking>(&MTL::Buffer::hazardTrackingMode, "hazardTrackingMode")
      .method<&Buffer::set_purgeable_state>(&MTL::Buffer::setPurgeableState, "setPurgeableState:")
      .method<&Buffer::device>(&MTL::Buffer::device, "device")
      .getter<&Buffer::length>(&MTL::Buffer::length, "length")
      .getter<&Buffer::options>(&MTL::Buffer::resourceOptions, "resourceOptions")
      .getter<&Buffer::heap>(&MTL::Buffer::heap, "heap")
      .getter<&Buffer::heap_offset>(&MTL::Buffer::heapOffset, "heapOffset");
  ClassOf<ResidencySetDescriptor>("MTLResidencySetDescriptor")
      .allocatable()
      .label()
      .getter<&ResidencySetDescriptor::initial_capacity>(&MTL::ResidencySetDescriptor::initialCapacity, "initialCapacity")
      .setter<&ResidencySetDescriptor::initial_capacity>(&MTL::ResidencySetDescriptor::setInitialCapacity,
                                                         "setInitialCapacity:");
  ClassOf<ResidencySet>("MTLResidencySet")
      .label_getter()
      .method<&ResidencySet::add>(&MTL::ResidencySet::addAllocation, "addAllocation:")
      .method<&ResidencySet::add_all>(&MTL::ResidencySet::addAllocations, "addAllocations:count:")
      .method<&ResidencySet::remove>(&MTL::ResidencySet::removeAllocation, "removeAllocation:")
      .method<&ResidencySet::remove_all>(&MTL::ResidencySet::removeAllAllocations, "removeAllAllocations")
      .method<&ResidencySet::contains>(&MTL::ResidencySet::containsAllocation, "containsAllocation:")
      .method<&ResidencySet::count>(&MTL::ResidencySet::allocationCount, "allocationCount")
      .method<&ResidencySet::allocated_size>(&MTL::ResidencySet::allocatedSize, "allocatedSize")
      .method<&ResidencySet::commit>(&MTL::ResidencySet::commit, "commit")
      .method<&ResidencySet::request>(&MTL::ResidencySet::requestResidency, "requestResidency")
      .method<&ResidencySet::end>(&MTL::ResidencySet::endResidency, "endResidency")
      .method<&ResidencySet::device>(&MTL::ResidencySet::device, "device");
}

}  // namespace softmetal
