// All that is known of an op besides its arithmetic (op.hpp), one row each: what it takes and gives, which weights it reads and how,
// what the code generator makes it from. The code generator, the listing, the memory plan and the GPUs go by this table: a new op is
// a row here and in the enum, an oracle in tests/reference/, and a kernel in each backend.
#pragma once

#include <array>
#include <cstdint>
#include <iterator>
#include <string_view>

#include "graph/op.hpp"

namespace lapidary::graph {

// What ops do, taken apart: a model is lowered to these.
enum class Primitive : std::uint8_t {
  none, round_rows, embed, embed_pair, rope_angles, rms_norm, linear, gelu_mul, softcap, head_norm, rope, store, attention, add,
  scale, ple_inputs, route, expert_linear, weighted_sum, top, cluster_logits, sample, keep_draft, accept,
  keep_tap, block_qkv, silu_mul, keep_block,
  scale_shift, add_positions, grid_angles, qkv_grid_rope, attention_all, pool, layer_norm, bias, silu, conv_norm_relu,
  distance_waves, local_attention, glu_conv,
};

// Which parts of its op a part takes the results of, as its first and second operand: of one that is absent, what that would have
// taken first.
struct Takes {
  static constexpr std::int8_t kAny = -1;  // of no part
  std::int8_t first = kAny, second = kAny;
};

// A part of an op. All parts belong to one layer and one set of rows.
struct Part {
  Primitive primitive = Primitive::none;
  std::int8_t least = 1, most = 1;
  Takes takes{};
  bool keeps_place = false;  // where it is absent, its weight has an empty place
};

// What a step can be split into besides rows: the second extent of its grid.
enum class Grid : std::uint8_t {
  row,       // nothing
  outputs,   // the widths of its outputs
  picks,     // the same for each expert or cluster in use
  heads,
  kv_heads,  // heads, and those of keys and values that it stores
};

// What one row reads of a table of weights.
enum class Reads : std::uint8_t {
  all,
  row,     // that of its token
  listed,  // those that its input names
};

enum class Kv : std::uint8_t { none, reads, writes };  // writes: those of its layer, where that owns K/V

enum class WeightUse : std::uint8_t { none, matrix, vector, ids };

// Memory beside operands and weights, which a kernel finds behind its operands in this order.
enum class Extra : std::uint8_t { none, scratch, counts, masks, biases, results };

struct OpInfo {
  Op op{};
  std::string_view name;
  int inputs = 0, outputs = 0;           // the most there are
  int results = outputs;                 // of the outputs; the others are room to work in
  Grid grid = Grid::row;
  std::array<WeightUse, 5> weights{};    // in their order, the most there are
  Reads reads = Reads::all;
  bool multiplies = false;               // by matrices whose activations may be quantised
  bool gates = false;                    // the product of the first matrix gates that of the second
  Kv kv = Kv::none;
  bool constants = false;                // of the graph
  std::array<Extra, 3> extras{};
  std::array<Part, 8> parts{};           // what it is fused from; ops of more parts are tried first

  constexpr int part_count() const {
    int count = 0;
    for (const Part& part : parts) count += part.primitive != Primitive::none;
    return count;
  }
  constexpr int weight_count(WeightUse use) const {
    int count = 0;
    for (const WeightUse one : weights) count += one == use;
    return count;
  }
};

namespace table {

using P = Primitive;
inline constexpr WeightUse kMatrix = WeightUse::matrix, kVector = WeightUse::vector, kIds = WeightUse::ids;

// In the order of the enum.
inline constexpr OpInfo kOps[] = {
    {.op = Op::round_rows, .name = "round_rows", .inputs = 1, .outputs = 1, .parts = {{{P::round_rows}}}},
    {.op = Op::embed, .name = "embed", .outputs = 1, .weights = {kMatrix}, .reads = Reads::row, .parts = {{{P::embed}}}},
    {.op = Op::embed_pair, .name = "embed_pair", .inputs = 1, .outputs = 1, .weights = {kMatrix}, .reads = Reads::row,
     .parts = {{{P::embed_pair}}}},
    {.op = Op::rope_angles, .name = "rope_angles", .outputs = 1, .constants = true, .parts = {{{P::rope_angles}}}},
    {.op = Op::rms_norm, .name = "rms_norm", .inputs = 1, .outputs = 1, .weights = {kVector}, .parts = {{{P::rms_norm}}}},
    {.op = Op::linear, .name = "linear", .inputs = 1, .outputs = 1, .grid = Grid::outputs, .weights = {kMatrix, kMatrix, kMatrix},
     .multiplies = true, .parts = {{{P::linear}}}},
    {.op = Op::linear_gelu_mul, .name = "linear_gelu_mul", .inputs = 1, .outputs = 1, .grid = Grid::outputs,
     .weights = {kMatrix, kMatrix}, .multiplies = true, .gates = true,
     .parts = {{{P::linear}, {P::linear}, {P::gelu_mul, 1, 1, {0, 1}}}}},
    {.op = Op::linear_gelu_gate, .name = "linear_gelu_gate", .inputs = 2, .outputs = 1, .grid = Grid::outputs, .weights = {kMatrix},
     .multiplies = true, .parts = {{{P::linear}, {P::gelu_mul, 1, 1, {0}}}}},
    {.op = Op::linear_softcap, .name = "linear_softcap", .inputs = 1, .outputs = 1, .grid = Grid::outputs, .weights = {kMatrix},
     .multiplies = true, .parts = {{{P::linear}, {P::softcap, 1, 1, {0}}}}},
    {.op = Op::qkv_norm_rope, .name = "qkv_norm_rope", .inputs = 2, .outputs = 1, .grid = Grid::kv_heads,
     .weights = {kVector, kVector}, .kv = Kv::writes,
     .parts = {{{P::head_norm}, {P::rope, 1, 1, {0}},                                     // queries
                {P::head_norm, 0, 1}, {P::rope, 0, 1, {2}}, {P::store, 0, 1, {3}},        // keys
                {P::head_norm, 0, 1}, {P::store, 0, 1, {5}}}}},                           // values
    {.op = Op::attention, .name = "attention", .inputs = 1, .outputs = 1, .grid = Grid::heads, .kv = Kv::reads,
     .extras = {Extra::scratch}, .parts = {{{P::attention}}}},
    {.op = Op::residual_norm, .name = "residual_norm", .inputs = 2, .outputs = 4,
     .weights = {kVector, kVector, kVector, kVector, kVector},
     .parts = {{{P::rms_norm}, {P::add, 1, 1, {Takes::kAny, 0}}, {P::scale, 0, 1, {1}, true}, {P::rms_norm, 0, 3, {2}}}}},
    {.op = Op::ple_inputs, .name = "ple_inputs", .inputs = 1, .outputs = 1, .weights = {kMatrix, kVector}, .reads = Reads::row,
     .parts = {{{P::ple_inputs}}}},
    {.op = Op::route, .name = "route", .inputs = 1, .outputs = 2, .weights = {kVector}, .parts = {{{P::route}}}},
    {.op = Op::expert_gelu_mul, .name = "expert_gelu_mul", .inputs = 2, .outputs = 1, .grid = Grid::picks,
     .weights = {kMatrix, kMatrix}, .multiplies = true, .gates = true,
     .parts = {{{P::expert_linear}, {P::expert_linear}, {P::gelu_mul, 1, 1, {0, 1}}}}},
    {.op = Op::expert_linear, .name = "expert_linear", .inputs = 2, .outputs = 1, .grid = Grid::picks, .weights = {kMatrix},
     .multiplies = true, .parts = {{{P::expert_linear}}}},
    {.op = Op::moe_combine, .name = "moe_combine", .inputs = 4, .outputs = 2, .weights = {kVector, kVector, kVector, kVector, kVector},
     .parts = {{{P::rms_norm}, {P::weighted_sum}, {P::rms_norm, 1, 1, {1}}, {P::add, 1, 1, {0, 2}}, {P::rms_norm, 1, 1, {3}},
                {P::add, 1, 1, {Takes::kAny, 4}}, {P::scale, 1, 1, {5}}, {P::rms_norm, 0, 1, {6}}}}},
    {.op = Op::top, .name = "top", .inputs = 1, .outputs = 1, .parts = {{{P::top}}}},
    {.op = Op::cluster_logits, .name = "cluster_logits", .inputs = 2, .outputs = 2, .grid = Grid::picks, .weights = {kMatrix, kIds},
     .reads = Reads::listed, .parts = {{{P::cluster_logits}}}},
    {.op = Op::sample, .name = "sample", .inputs = 2, .outputs = 3, .results = 1,
     .extras = {Extra::counts, Extra::masks, Extra::biases}, .parts = {{{P::sample}}}},
    {.op = Op::keep_draft, .name = "keep_draft", .inputs = 1, .parts = {{{P::keep_draft}}}},
    {.op = Op::accept, .name = "accept", .inputs = 3, .outputs = 2, .extras = {Extra::counts, Extra::results},
     .parts = {{{P::accept}}}},
    {.op = Op::keep_tap, .name = "keep_tap", .inputs = 1, .outputs = 1, .parts = {{{P::keep_tap}}}},
    {.op = Op::block_qkv, .name = "block_qkv", .inputs = 2, .outputs = 1, .grid = Grid::kv_heads, .weights = {kVector, kVector},
     .kv = Kv::writes, .parts = {{{P::block_qkv}}}},
    {.op = Op::linear_silu_mul, .name = "linear_silu_mul", .inputs = 1, .outputs = 1, .grid = Grid::outputs,
     .weights = {kMatrix, kMatrix}, .multiplies = true, .gates = true,
     .parts = {{{P::linear}, {P::linear}, {P::silu_mul, 1, 1, {0, 1}}}}},
    {.op = Op::keep_block, .name = "keep_block", .inputs = 1, .parts = {{{P::keep_block}}}},
    {.op = Op::scale_shift, .name = "scale_shift", .inputs = 1, .outputs = 1, .parts = {{{P::scale_shift}}}},
    {.op = Op::add_positions, .name = "add_positions", .inputs = 1, .outputs = 1, .weights = {kMatrix}, .reads = Reads::row,
     .parts = {{{P::add_positions}}}},
    {.op = Op::grid_angles, .name = "grid_angles", .outputs = 1, .constants = true, .parts = {{{P::grid_angles}}}},
    {.op = Op::qkv_grid_rope, .name = "qkv_grid_rope", .inputs = 2, .outputs = 1, .grid = Grid::heads, .weights = {kVector, kVector},
     .parts = {{{P::qkv_grid_rope}}}},
    {.op = Op::attention_all, .name = "attention_all", .inputs = 1, .outputs = 1, .grid = Grid::heads, .parts = {{{P::attention_all}}}},
    {.op = Op::pool, .name = "pool", .inputs = 1, .outputs = 1, .weights = {kVector, kVector}, .parts = {{{P::pool}}}},
    {.op = Op::layer_norm, .name = "layer_norm", .inputs = 1, .outputs = 1, .weights = {kVector, kVector}, .parts = {{{P::layer_norm}}}},
    {.op = Op::linear_bias, .name = "linear_bias", .inputs = 1, .outputs = 1, .grid = Grid::outputs, .weights = {kMatrix, kVector},
     .parts = {{{P::linear}, {P::bias, 1, 1, {0}}}}},
    {.op = Op::linear_silu, .name = "linear_silu", .inputs = 1, .outputs = 1, .grid = Grid::outputs, .weights = {kMatrix},
     .parts = {{{P::linear}, {P::silu, 1, 1, {0}}}}},
    {.op = Op::conv_norm_relu, .name = "conv_norm_relu", .inputs = 1, .outputs = 1, .weights = {kVector, kVector},
     .parts = {{{P::conv_norm_relu}}}},
    {.op = Op::distance_waves, .name = "distance_waves", .outputs = 1, .constants = true, .parts = {{{P::distance_waves}}}},
    {.op = Op::local_attention, .name = "local_attention", .inputs = 2, .outputs = 1, .grid = Grid::heads, .weights = {kVector},
     .parts = {{{P::local_attention}}}},
    {.op = Op::glu_conv, .name = "glu_conv", .inputs = 1, .outputs = 1, .weights = {kVector, kVector}, .parts = {{{P::glu_conv}}}},
    {.op = Op::add_norm, .name = "add_norm", .inputs = 2, .outputs = 2, .weights = {kVector},
     .parts = {{{P::add}, {P::rms_norm, 0, 1, {0}}}}},
};

constexpr bool is_in_order() {
  for (std::size_t i = 0; i < std::size(kOps); ++i)
    if (kOps[i].op != static_cast<Op>(i)) return false;
  return static_cast<std::size_t>(Op::add_norm) + 1 == std::size(kOps);
}
static_assert(is_in_order(), "one row for each op");

}  // namespace table

constexpr const OpInfo& info_of(Op op) { return table::kOps[static_cast<std::size_t>(op)]; }
constexpr std::string_view name_of(Op op) { return info_of(op).name; }

}  // namespace lapidary::graph
