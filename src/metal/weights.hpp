// The weights as the GPU reads them: the mapped files themselves, without a copy. Tensors at addresses it cannot read from are
// copied once into one buffer beside them; norms, orders of tokens and the constants of the graph have a buffer of their own.
#pragma once

#include <vector>

#include "link/link.hpp"
#include "metal/gpu.hpp"

namespace lapidary::metal {

class Weights {
 public:
  // `program` must outlive the weights: the files are its.
  Weights(const Gpu& gpu, const link::Program& program);

  BoundMatrix matrix(graph::WeightId id) const { return matrices_[static_cast<std::size_t>(id)]; }
  Slice vector(graph::WeightId id) const { return vectors_[static_cast<std::size_t>(id)]; }  // or list of ids
  Slice constants(int index) const { return constants_[static_cast<std::size_t>(index)]; }   // of the graph

  std::vector<MTL::Buffer*> buffers() const;

 private:
  void map_files(const Gpu& gpu, const link::Program& program);
  void bind_matrices(const Gpu& gpu, const link::Program& program);
  void copy_vectors(const Gpu& gpu, const link::Program& program);

  struct File {
    const std::byte* begin = nullptr;
    std::size_t bytes = 0;
    Owned<MTL::Buffer> buffer;
  };
  std::vector<File> files_;
  Owned<MTL::Buffer> copies_, small_;
  std::vector<BoundMatrix> matrices_;  // by WeightId
  std::vector<Slice> vectors_;         // likewise
  std::vector<Slice> constants_;
};

}  // namespace lapidary::metal
