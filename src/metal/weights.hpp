// The weights as the GPU reads them: the mapped files themselves, without a copy. Tensors at addresses it cannot read from are
// copied once into one buffer beside them; norms, orders of tokens and the constants of the graph have a buffer of their own. Those of
// a text are bound at load, those of a tower when it first perceives.
#pragma once

#include <deque>
#include <span>
#include <vector>

#include "link/link.hpp"
#include "metal/gpu.hpp"

namespace lapidary::metal {

// The files of a program, which must outlive them.
class MappedFiles {
 public:
  MappedFiles(const Gpu& gpu, const link::Program& program);

  Slice at(const std::byte* data) const;  // null: nothing
  std::vector<MTL::Buffer*> buffers() const;

 private:
  struct File {
    const std::byte* begin = nullptr;
    std::size_t bytes = 0;
    Owned<MTL::Buffer> buffer;
  };
  std::vector<File> files_;
};

class Weights {
 public:
  // What they are bound to, by WeightId; no ids: empty. The matrices must outlive the weights.
  struct Bound {
    std::span<const link::Matrix> matrices;
    std::span<const float* const> vectors;
    std::span<const std::int32_t* const> ids;
  };
  Weights(const Gpu& gpu, const MappedFiles& files, const graph::Graph& graph, const Bound& bound);

  BoundMatrix matrix(graph::WeightId id) const { return matrices_[static_cast<std::size_t>(id)]; }
  Slice vector(graph::WeightId id) const { return vectors_[static_cast<std::size_t>(id)]; }  // or list of ids
  Slice constants(int index) const { return constants_[static_cast<std::size_t>(index)]; }   // of the graph

  std::vector<MTL::Buffer*> buffers() const;  // beside the files

 private:
  void bind_matrices(const Gpu& gpu, const MappedFiles& files, std::span<const link::Matrix> matrices);
  void copy_vectors(const Gpu& gpu, const graph::Graph& graph, const Bound& bound);

  Owned<MTL::Buffer> copies_, small_;
  std::deque<link::Matrix> copied_;    // how those in `copies_` lie there
  std::vector<BoundMatrix> matrices_;  // by WeightId
  std::vector<Slice> vectors_;         // likewise
  std::vector<Slice> constants_;
};

}  // namespace lapidary::metal
