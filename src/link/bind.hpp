// Finds the tensors of one weight slot in a checkpoint and checks them.
#pragma once

#include <string>

#include "checkpoint/checkpoint.hpp"
#include "graph/graph.hpp"
#include "link/weight.hpp"

namespace lapidary::link {

// Whether the checkpoint has tensors of the tower.
bool holds_tower(const Checkpoint& checkpoint, graph::Owner owner);

class Binder {
 public:
  // `checkpoint` holds the weights of `owner`.
  Binder(const Checkpoint& checkpoint, graph::Owner owner);

  // The slot's values are in the checkpoint. Asked of all slots before any is bound: a layer that is missing explains more
  // than a shape that is wrong because of it.
  void check_present(const graph::WeightSlot& slot) const { required(values_name(slot)); }

  Matrix matrix(const graph::WeightSlot& slot) const;
  // Widens the vector to float32: [slot.cols]
  void vector(const graph::WeightSlot& slot, float* out) const;
  // Widens a convolution's kernel to float32: [slot.rows = frames, bands, inputs][slot.cols = outputs]
  void kernel(const graph::WeightSlot& slot, float* out) const;
  // Narrows an order of tokens to int32, each below slot.cols: [slot.cols]
  void ids(const graph::WeightSlot& slot, std::int32_t* out) const;

 private:
  std::string path_of(const graph::WeightSlot& slot) const;      // the slot's name as the file begins it
  std::string module_of(const graph::WeightSlot& slot) const;    // the path that the quantization block uses
  std::string values_name(const graph::WeightSlot& slot) const;
  Matrix plain_matrix(const graph::WeightSlot& slot, const std::string& module) const;
  Matrix packed_matrix(const graph::WeightSlot& slot, const std::string& module, const QuantizedAs& as) const;
  Matrix fused_experts(const graph::WeightSlot& slot) const;
  Matrix position_table(const graph::WeightSlot& slot) const;
  Clip clip(const graph::WeightSlot& slot) const;
  float scalar(const std::string& name) const;
  const Tensor& required(const std::string& name) const;

  const Checkpoint& checkpoint_;
  const graph::Owner owner_;
  std::string prefix_;     // "language_model.model.", ...
  bool fused_experts_;     // gate and up in one tensor, as Hugging Face stores them
};

}  // namespace lapidary::link
