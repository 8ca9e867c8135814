// The sets of instructions that there are kernels for: what runs where, in one table.
#pragma once

#include <span>
#include <string_view>

#include "cpu/attention_bf16.hpp"
#include "cpu/attention_coded.hpp"
#include "cpu/product.hpp"
#include "cpu/q8.hpp"
#include "cpu/tower_product.hpp"

namespace lapidary::cpu {

struct Instructions {
  std::string_view name;   // as --cpu takes it
  std::string_view needs;  // what a processor must have for it
  bool here;               // whether this one has it
  const Q8Kernels* products;
  const FloatProducts* float_products;
  const AttentionKernels* attention;
  const CodedAttentionKernels* coded_attention;
  const PackedProducts* tower_products;   // null where there are none: towers multiply in float32,
  const PackedAttention* tower_attention;  // and attend as texts do
};

// Those of this family of processors; each is faster than the ones before it.
std::span<const Instructions> all_instructions();

// The last ones that this processor has.
const Instructions& best_instructions(std::span<const Instructions> all = all_instructions());

}  // namespace lapidary::cpu
