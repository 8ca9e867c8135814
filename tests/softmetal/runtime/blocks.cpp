// What code compiled with -fblocks calls: blocks move to the heap when something keeps them. The layouts are those of the
// compiler.
#include <cstdlib>
#include <cstring>

namespace {

struct Descriptor {
  unsigned long reserved, bytes;
  void (*copy)(void* to, const void* from);
  void (*dispose)(const void* block);
};

struct Block {
  void* isa;
  int flags;
  int references;
  void (*invoke)();
  Descriptor* descriptor;
};

// A variable declared __block, which the stack and all copies of a block share.
struct Shared {
  void* isa;
  Shared* forwarding;
  int flags;
  int bytes;
  void (*keep)(Shared* to, Shared* from);
  void (*destroy)(Shared*);
};

constexpr int kOnHeap = 1 << 24, kHasHelpers = 1 << 25, kIsGlobal = 1 << 28, kCountMask = 0xffff;
constexpr int kKindMask = 0x1f, kKindBlock = 7, kKindShared = 8;

}  // namespace

extern "C" {

void* _NSConcreteStackBlock[32];
void* _NSConcreteGlobalBlock[32];
void* _NSConcreteMallocBlock[32];

void* _Block_copy(const void* source) {
  auto* block = static_cast<Block*>(const_cast<void*>(source));
  if (!block || (block->flags & kIsGlobal)) return block;
  if (block->flags & kOnHeap) {
    __atomic_add_fetch(&block->references, 1, __ATOMIC_RELAXED);
    return block;
  }
  auto* copy = static_cast<Block*>(std::malloc(block->descriptor->bytes));
  std::memcpy(copy, block, block->descriptor->bytes);
  copy->isa = _NSConcreteMallocBlock;
  copy->flags |= kOnHeap;
  copy->references = 1;
  if (copy->flags & kHasHelpers) copy->descriptor->copy(copy, block);
  return copy;
}

void _Block_release(const void* source) {
  auto* block = static_cast<Block*>(const_cast<void*>(source));
  if (!block || (block->flags & kIsGlobal) || !(block->flags & kOnHeap)) return;
  if (__atomic_sub_fetch(&block->references, 1, __ATOMIC_ACQ_REL) > 0) return;
  if (block->flags & kHasHelpers) block->descriptor->dispose(block);
  std::free(block);
}

void _Block_object_assign(void* to, const void* from, int kind) {
  void* kept = const_cast<void*>(from);
  if ((kind & kKindMask) == kKindBlock) kept = _Block_copy(from);
  if ((kind & kKindMask) == kKindShared) {
    Shared* shared = static_cast<Shared*>(const_cast<void*>(from))->forwarding;
    if (shared->flags & kOnHeap) {
      __atomic_add_fetch(&shared->flags, 1, __ATOMIC_RELAXED);
    } else {
      auto* heap = static_cast<Shared*>(std::malloc(static_cast<std::size_t>(shared->bytes)));
      std::memcpy(heap, shared, static_cast<std::size_t>(shared->bytes));
      heap->flags = (shared->flags & ~kCountMask) | kOnHeap | 2;  // held by the stack frame and the block
      heap->forwarding = shared->forwarding = heap;
      if (shared->flags & kHasHelpers) shared->keep(heap, shared);
      shared = heap;
    }
    kept = shared;
  }
  *static_cast<void**>(to) = kept;
}

void _Block_object_dispose(const void* object, int kind) {
  if ((kind & kKindMask) == kKindBlock) _Block_release(object);
  if ((kind & kKindMask) != kKindShared) return;
  Shared* shared = static_cast<Shared*>(const_cast<void*>(object))->forwarding;
  const bool on_heap = shared->flags & kOnHeap;
  if (on_heap && (__atomic_sub_fetch(&shared->flags, 1, __ATOMIC_ACQ_REL) & kCountMask) > 0) return;
  if (shared->flags & kHasHelpers) shared->destroy(shared);
  if (on_heap) std::free(shared);
}

}  // extern "C"
