// What a dispatch is made of while it is being encoded, and the rules it has to keep.
#pragma once

#include <Metal/Metal.hpp>

#include <array>
#include <memory>
#include <vector>

#include "metal/memory.hpp"
#include "metal/pipeline.hpp"
#include "shim/abi.h"

namespace softmetal {

struct BoundBuffer {
  Buffer* buffer = nullptr;
  NS::UInteger offset = 0;
  std::shared_ptr<std::vector<std::byte>> bytes;  // given by value
};

struct Bindings {
  Pipeline* pipeline = nullptr;
  std::array<BoundBuffer, kMaxBuffers> buffers{};
  std::array<std::uint32_t, kMaxThreadgroupArguments> threadgroup_bytes{};

  void set_buffer(Buffer* buffer, NS::UInteger offset, NS::UInteger index);
  void set_offset(NS::UInteger offset, NS::UInteger index);
  void set_bytes(const void* bytes, NS::UInteger length, NS::UInteger index);
  void set_threadgroup_bytes(NS::UInteger length, NS::UInteger index);
};

struct Grid {
  MTL::Size size{};
  MTL::Size threads_per_group{};
  bool in_threads = false;  // `size` counts threads, else threadgroups
};

// Everything resident while a command runs, by address of the object.
using Residents = std::set<const void*>;

// Stops the program when the pipeline cannot run with these arguments over this grid.
void check(const Bindings& bindings, const Grid& grid);

// Runs it, to its end.
void run(const Bindings& bindings, const Grid& grid, const Residents& residents);

}  // namespace softmetal
