#include "metal/weights.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <unistd.h>

#include "checkpoint/error.hpp"
#include "gpu/alignment.hpp"

namespace lapidary::metal {
namespace {

constexpr std::size_t kSliceAlignment = 256;  // what every device takes as an offset

std::size_t round_up(std::size_t bytes, std::size_t step) { return (bytes + step - 1) / step * step; }

// Hands out the bytes of a buffer from its beginning.
class Filler {
 public:
  explicit Filler(MTL::Buffer* buffer) : buffer_(buffer) {}

  Slice add(const void* data, std::size_t bytes) { return add(data, 1, bytes, bytes); }

  // `count` pieces that begin `stride` bytes apart, side by side.
  Slice add(const void* data, int count, std::size_t piece_bytes, std::size_t stride) {
    const Slice slice{buffer_, used_};
    std::byte* to = static_cast<std::byte*>(buffer_->contents()) + used_;
    const auto* from = static_cast<const std::byte*>(data);
    for (int i = 0; i < count; ++i, from += stride, to += piece_bytes) std::memcpy(to, from, piece_bytes);
    used_ += round_up(static_cast<std::size_t>(count) * piece_bytes, kSliceAlignment);
    assert(used_ <= round_up(buffer_->length(), kSliceAlignment));
    return slice;
  }

 private:
  MTL::Buffer* buffer_;
  std::size_t used_ = 0;
};

int expert_count(const link::Matrix& matrix) { return std::max(1, matrix.experts); }

// The matrix with nothing between its experts: in a file, those of another may stand there.
link::Matrix without_gaps(link::Matrix matrix) {
  matrix.expert_bytes = static_cast<std::size_t>(matrix.rows) * matrix.row_bytes;
  matrix.scale_expert_bytes = static_cast<std::size_t>(matrix.rows) * matrix.scale_row_bytes;
  return matrix;
}

}  // namespace

// A buffer over existing memory is made of whole pages. A mapping begins on one, and what lies behind the end of the file in its last
// page is never read.
MappedFiles::MappedFiles(const Gpu& gpu, const link::Program& program) {
  const Pool pool;
  const auto page_bytes = static_cast<std::size_t>(::getpagesize());
  std::vector<std::span<const std::byte>> mappings = program.target.mappings;
  for (const auto* drafter : {&program.assistant, &program.dflash})
    if (*drafter) mappings.insert(mappings.end(), (*drafter)->mappings.begin(), (*drafter)->mappings.end());
  for (const std::span<const std::byte> mapping : mappings) {
    auto* data = const_cast<std::byte*>(mapping.data());
    auto buffer = NS::TransferPtr(gpu.device()->newBuffer(data, round_up(mapping.size(), page_bytes), MTL::ResourceStorageModeShared,
                                                          static_cast<void (^)(void*, NS::UInteger)>(nullptr)));
    if (!buffer)
      fail(ErrorKind::io, "metal", "weights, expected a buffer over " + std::to_string(mapping.size()) + " mapped bytes, got none");
    buffer->setLabel(text_of("weights " + std::to_string(files_.size())));
    files_.push_back({mapping.data(), mapping.size(), std::move(buffer)});
  }
}

Slice MappedFiles::at(const std::byte* data) const {
  if (!data) return {};
  const auto file = std::ranges::find_if(files_, [&](const File& f) { return data >= f.begin && data < f.begin + f.bytes; });
  assert(file != files_.end());
  return {file->buffer.get(), static_cast<std::size_t>(data - file->begin)};
}

std::vector<MTL::Buffer*> MappedFiles::buffers() const {
  std::vector<MTL::Buffer*> all;
  for (const File& file : files_) all.push_back(file.buffer.get());
  return all;
}

Weights::Weights(const Gpu& gpu, const MappedFiles& files, const graph::Graph& graph, const Bound& bound) {
  bind_matrices(gpu, files, bound.matrices);
  copy_vectors(gpu, graph, bound);
}

void Weights::bind_matrices(const Gpu& gpu, const MappedFiles& files, std::span<const link::Matrix> matrices) {
  std::size_t copied_bytes = 0;
  for (const link::Matrix& matrix : matrices) {
    if (!matrix.values || is_aligned(matrix)) continue;
    const link::Matrix copy = without_gaps(matrix);
    const auto experts = static_cast<std::size_t>(expert_count(matrix));
    copied_bytes += round_up(experts * copy.expert_bytes, kSliceAlignment) + 2 * round_up(experts * copy.scale_expert_bytes, kSliceAlignment);
  }
  if (copied_bytes) copies_ = gpu.allocate(copied_bytes, "weights at odd addresses");
  Filler copies(copies_.get());
  for (const link::Matrix& matrix : matrices) {
    BoundMatrix& bound = matrices_.emplace_back();
    if (!matrix.values) continue;
    if (is_aligned(matrix)) {
      bound = {&matrix, files.at(matrix.values), files.at(matrix.scales), files.at(matrix.biases)};
      continue;
    }
    const link::Matrix& copy = copied_.emplace_back(without_gaps(matrix));
    const auto copy_of = [&](const std::byte* data, std::size_t bytes, std::size_t stride) {
      return data ? copies.add(data, expert_count(matrix), bytes, stride) : Slice{};
    };
    bound = {&copy, copy_of(matrix.values, copy.expert_bytes, matrix.expert_bytes),
             copy_of(matrix.scales, copy.scale_expert_bytes, matrix.scale_expert_bytes),
             copy_of(matrix.biases, copy.scale_expert_bytes, matrix.scale_expert_bytes)};
  }
}

void Weights::copy_vectors(const Gpu& gpu, const graph::Graph& graph, const Bound& bound) {
  std::size_t bytes = 0;
  const auto slot_bytes = [&](std::size_t id) {
    const graph::WeightSlot& slot = graph.weights[id];
    const std::size_t rows = slot.kind == graph::WeightClass::kernel ? static_cast<std::size_t>(slot.rows) : 1;
    return rows * static_cast<std::size_t>(slot.cols) * 4;
  };
  const auto data_of = [&](std::size_t id) -> const void* {
    if (bound.vectors[id]) return bound.vectors[id];
    return bound.ids.empty() ? nullptr : bound.ids[id];
  };
  for (std::size_t id = 0; id < bound.vectors.size(); ++id)
    if (data_of(id)) bytes += round_up(slot_bytes(id), kSliceAlignment);
  for (const std::span<const float> values : graph.constants) bytes += round_up(values.size_bytes(), kSliceAlignment);
  small_ = gpu.allocate(bytes, "norms and constants");
  Filler small(small_.get());
  for (std::size_t id = 0; id < bound.vectors.size(); ++id) {
    Slice& slice = vectors_.emplace_back();
    if (const void* data = data_of(id)) slice = small.add(data, slot_bytes(id));
  }
  for (const std::span<const float> values : graph.constants) constants_.push_back(small.add(values.data(), values.size_bytes()));
}

std::vector<MTL::Buffer*> Weights::buffers() const {
  std::vector<MTL::Buffer*> all{small_.get()};
  if (copies_) all.push_back(copies_.get());
  return all;
}

}  // namespace lapidary::metal
