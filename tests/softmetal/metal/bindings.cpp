#include "metal/bindings.hpp"

#include "runtime/checker.hpp"
#include "runtime/executor.hpp"

namespace softmetal {
namespace {

constexpr NS::UInteger kMaxInlineBytes = 4096;
constexpr unsigned kConstantAlignment = 4;  // of offsets into buffers in constant memory, on Apple's devices

std::string place(const Kernel& kernel, int index) {
  return std::string(kernel.name) + ": [[buffer(" + std::to_string(index) + ")]]";
}

bool is_used(const Argument& argument, const ConstantValues& constants) {
  if (argument.function_constant < 0) return true;
  const ConstantValue& value = constants.value[argument.function_constant];
  for (const unsigned char byte : value.bytes)
    if (byte) return true;
  return false;
}

void check_buffer(const Kernel& kernel, const Argument& argument, const BoundBuffer& bound) {
  const std::string where = place(kernel, argument.index);
  if (!bound.buffer && !bound.bytes) fail(where + " has nothing bound to it");
  const NS::UInteger length = bound.buffer ? bound.buffer->length : bound.bytes->size();
  if (bound.offset + argument.bytes > length)
    fail(where + " needs " + std::to_string(argument.bytes) + " bytes at offset " + std::to_string(bound.offset) + " of " +
         std::to_string(length));
  const unsigned alignment =
      argument.constant_space ? std::max(argument.alignment, kConstantAlignment) : argument.alignment;
  if (bound.offset % alignment != 0)
    fail(where + " is bound at offset " + std::to_string(bound.offset) + ", which is not a multiple of " +
         std::to_string(alignment));
}

std::vector<checker::Range> ranges_of(const Bindings& bindings, const Residents& residents) {
  std::vector<checker::Range> ranges;
  for (int i = 0; i < kMaxBuffers; ++i) {
    const BoundBuffer& bound = bindings.buffers[static_cast<std::size_t>(i)];
    const std::string name = "[[buffer(" + std::to_string(i) + ")]]";
    if (bound.buffer) {
      const auto begin = reinterpret_cast<std::uintptr_t>(bound.buffer->data);
      ranges.push_back({begin + bound.offset, begin + bound.buffer->length, true, bound.buffer->tracked,
                        name + " " + bound.buffer->name()});
    } else if (bound.bytes) {
      const auto begin = reinterpret_cast<std::uintptr_t>(bound.bytes->data());
      ranges.push_back({begin, begin + bound.bytes->size(), false, true, name});
    }
  }
  // Kernels may know the address of these.
  for (const void* resident : residents) {
    const auto* object = static_cast<const Object*>(resident);
    if (object->isa != Buffer::metal_class) continue;
    const auto* buffer = static_cast<const Buffer*>(object);
    const auto begin = reinterpret_cast<std::uintptr_t>(buffer->data);
    if (buffer->addressed) ranges.push_back({begin, begin + buffer->length, true, buffer->tracked, buffer->name()});
  }
  const ShaderLibrary& library = *as<ShaderLibrary>(as<Function>(bindings.pipeline->function.get())->library.get());
  ranges.push_back({library.begin, library.end, false, true, "the library's constants"});
  return ranges;
}

}  // namespace

void Bindings::set_buffer(Buffer* buffer, NS::UInteger offset, NS::UInteger index) {
  if (index >= kMaxBuffers) fail("buffer index " + std::to_string(index) + ", there are " + std::to_string(+kMaxBuffers));
  if (buffer && offset >= buffer->length)
    fail("offset " + std::to_string(offset) + " lies behind the end of " + buffer->name() + ", " +
         std::to_string(buffer->length) + " bytes");
  buffers[index] = {buffer, offset, nullptr};
}

void Bindings::set_offset(NS::UInteger offset, NS::UInteger index) {
  if (index >= kMaxBuffers || !buffers[index].buffer) fail("setBufferOffset:atIndex: where no buffer is bound");
  set_buffer(buffers[index].buffer, offset, index);
}

void Bindings::set_bytes(const void* bytes, NS::UInteger length, NS::UInteger index) {
  if (index >= kMaxBuffers) fail("buffer index " + std::to_string(index) + ", there are " + std::to_string(+kMaxBuffers));
  if (length == 0 || length > kMaxInlineBytes)
    fail("setBytes of " + std::to_string(length) + " bytes, the most is " + std::to_string(kMaxInlineBytes));
  const auto* begin = static_cast<const std::byte*>(bytes);
  buffers[index] = {nullptr, 0, std::make_shared<std::vector<std::byte>>(begin, begin + length)};
}

void Bindings::set_threadgroup_bytes(NS::UInteger length, NS::UInteger index) {
  if (index >= kMaxThreadgroupArguments) fail("threadgroup memory index " + std::to_string(index));
  if (length % 16 != 0) fail("threadgroup memory of " + std::to_string(length) + " bytes is not a multiple of 16");
  if (length > kThreadgroupBytes)
    fail("threadgroup memory of " + std::to_string(length) + " bytes, the most is " + std::to_string(+kThreadgroupBytes));
  threadgroup_bytes[index] = static_cast<std::uint32_t>(length);
}

void check(const Bindings& bindings, const Grid& grid) {
  if (!bindings.pipeline) fail("a dispatch without a compute pipeline state");
  const Pipeline& pipeline = *bindings.pipeline;
  const Kernel& kernel = pipeline.kernel();
  const MTL::Size& threads = grid.threads_per_group;
  const NS::UInteger count = threads.width * threads.height * threads.depth;
  if (count == 0 || count > pipeline.max_threads)
    fail(std::string(kernel.name) + ": " + std::to_string(count) + " threads in a threadgroup, expected 1 to " +
         std::to_string(pipeline.max_threads));
  if (pipeline.whole_simdgroups && count % kSimdWidth != 0)
    fail(std::string(kernel.name) + ": the pipeline promised whole simdgroups, " + std::to_string(count) +
         " threads are not");
  if (grid.size.width == 0 || grid.size.height == 0 || grid.size.depth == 0)
    fail(std::string(kernel.name) + ": an empty grid");
  const ConstantValues& constants = as<Function>(pipeline.function.get())->constants;
  std::size_t threadgroup_bytes = 0;
  for (const std::uint32_t bytes : bindings.threadgroup_bytes) threadgroup_bytes += bytes;
  if (threadgroup_bytes > kThreadgroupBytes)
    fail(std::string(kernel.name) + ": " + std::to_string(threadgroup_bytes) + " bytes of threadgroup memory");
  for (int i = 0; i < kernel.argument_count; ++i) {
    const Argument& argument = kernel.arguments[i];
    if (!is_used(argument, constants)) continue;
    const auto index = static_cast<std::size_t>(argument.index);
    if (argument.kind == kBufferArgument) check_buffer(kernel, argument, bindings.buffers[index]);
    if (argument.kind == kThreadgroupArgument && bindings.threadgroup_bytes[index] == 0)
      fail(std::string(kernel.name) + ": no threadgroup memory set at [[threadgroup(" + std::to_string(argument.index) +
           ")]]");
  }
}

void run(const Bindings& bindings, const Grid& grid, const Residents& residents) {
  Dispatch dispatch{};
  dispatch.kernel = &bindings.pipeline->kernel();
  dispatch.constants = &as<Function>(bindings.pipeline->function.get())->constants;
  const NS::UInteger size[3] = {grid.size.width, grid.size.height, grid.size.depth};
  const NS::UInteger threads[3] = {grid.threads_per_group.width, grid.threads_per_group.height,
                                   grid.threads_per_group.depth};
  for (int i = 0; i < 3; ++i) {
    dispatch.threads[i] = static_cast<std::uint32_t>(threads[i]);
    dispatch.groups[i] = static_cast<std::uint32_t>(grid.in_threads ? (size[i] + threads[i] - 1) / threads[i] : size[i]);
    dispatch.grid[i] = static_cast<std::uint32_t>(grid.in_threads ? size[i] : size[i] * threads[i]);
  }
  for (std::size_t i = 0; i < kMaxBuffers; ++i) {
    const BoundBuffer& bound = bindings.buffers[i];
    if (bound.buffer) {
      dispatch.buffer[i] = bound.buffer->data + bound.offset;
      dispatch.buffer_bytes[i] = bound.buffer->length - bound.offset;
    } else if (bound.bytes) {
      dispatch.buffer[i] = bound.bytes->data();
      dispatch.buffer_bytes[i] = bound.bytes->size();
    }
  }
  std::copy(bindings.threadgroup_bytes.begin(), bindings.threadgroup_bytes.end(), dispatch.threadgroup_bytes);
  if (settings().check) checker::set_ranges(ranges_of(bindings, residents));
  execute(dispatch);
}

}  // namespace softmetal
