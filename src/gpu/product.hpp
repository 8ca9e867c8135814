// What the dispatches of products and lookups share.
#pragma once

#include "gpu/step.hpp"

namespace lapidary::gpu {

Dispatch expert_product(const BoundStep& bound);  // expert_gelu_mul, expert_linear
Dispatch lookup(const BoundStep& bound);          // embed, embed_pair, ple_inputs, cluster_logits

// Function constants of all kernels, as common.metal and weights.metal say.
inline constexpr int kRowsConstant = 0, kInputsConstant = 1, kStorageConstants = 16, kClippedConstant = 28;

// A dispatch of the kernel `name` with the step's operands and its matrices, which are the first of its weights.
Dispatch with_matrices(std::string name, const BoundStep& bound);

inline int tiles_of(int count, int tile) { return (count + tile - 1) / tile; }

}  // namespace lapidary::gpu
