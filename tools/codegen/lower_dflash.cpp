// Stage 2 for the DFlash drafter: a decoder of its own kind, which goes by tapped outputs of the target's layers.
#include <cmath>

#include "primitives.hpp"

namespace lapidary::codegen {
namespace {

using graph::DFlashLayer;
using graph::DFlashShape;
using graph::Dims;
using graph::LayerKind;
using graph::Owner;
using graph::Primitive;
using graph::Region;
using graph::RowSet;
using graph::SegmentId;
using graph::WeightClass;
using graph::WeightId;

class DFlashLowering : Primitives {
 public:
  DFlashLowering(const Model& model, Weights& weights)
      : Primitives(Owner::dflash, weights, Region::rows, model.dflash->norm_epsilon), model_(model), shape_(*model.dflash) {
    result_.values = pinned_values(model);
  }

  Lowered run(SegmentId segment) {
    if (segment == SegmentId::block) {
      block();
    } else {
      rows_ = segment == SegmentId::extend ? RowSet::chunk : RowSet::pending;
      if (rows_ == RowSet::pending) add(Primitive::round_rows, {graph::kPending}, {graph::kFeatures}, {}, {});
      context();
    }
    return std::move(result_);
  }

 private:
  std::string in_layer(const char* name) const { return "layers." + std::to_string(layer_) + "." + name; }

  ValueId linear(const char* name, ValueId in, const std::string& weight, int n, int k) {
    const ValueId out = value(name, n);
    add(Primitive::linear, {in}, {out}, {matrix(weight, n, k)}, {.k = k, .n = {n}});
    return out;
  }

  WeightId target_table() {
    return weights_.find_or_add({"embed_tokens", Owner::target, WeightClass::embedding, 0, shape_.vocab, shape_.hidden});
  }

  ValueId rope_angles() {
    const ValueId angles = value("angles", shape_.head_dim);
    add(Primitive::rope_angles, {}, {angles}, {}, {.n = {shape_.head_dim}, .head_dim = shape_.head_dim}).constants =
        model_.frequencies_of(graph::Rope{.theta = shape_.rope_theta}, shape_.head_dim);
    return angles;
  }

  // Its K/V lie behind those of the target's layers.
  Dims heads_of(int heads) const {
    return {.heads = heads, .kv_heads = shape_.kv_heads, .head_dim = shape_.head_dim,
            .kv_layer = model_.shape.layer_count + layer_, .owns_kv = true};
  }

  // The context of a row: K/V of every layer from the tapped outputs.
  void context() {
    const ValueId angles = rope_angles();
    const ValueId fused = linear("fused", graph::kFeatures, "fc", shape_.hidden, shape_.tap_count * shape_.hidden);
    const ValueId context = norm("context", fused, "hidden_norm.weight", shape_.hidden);
    for (int l = 0; l < shape_.layer_count; ++l) {
      layer_ = static_cast<std::int16_t>(l);
      const ValueId k = linear("k", context, in_layer("self_attn.k_proj"), shape_.kv_heads * shape_.head_dim, shape_.hidden);
      const ValueId v = linear("v", context, in_layer("self_attn.v_proj"), shape_.kv_heads * shape_.head_dim, shape_.hidden);
      add(Primitive::block_qkv, {k, v, angles}, {}, {graph::kNone, vector(in_layer("self_attn.k_norm.weight"), shape_.head_dim)},
          heads_of(0));
    }
  }

  // The drafts of a block: every mask becomes the token at its place.
  void block() {
    rows_ = RowSet::block;
    add(Primitive::round_rows, {}, {}, {}, {});
    add(Primitive::embed, {}, {h_}, {target_table()}, {.n = {shape_.hidden}, .scale = model_.embedding_scale});
    const ValueId angles = rope_angles();
    ValueId x = norm("x", h_, "layers.0.input_layernorm.weight", shape_.hidden);
    for (int l = 0; l < shape_.layer_count; ++l) {
      layer_ = static_cast<std::int16_t>(l);
      x = layer(shape_.layers[static_cast<std::size_t>(l)], x, angles);
    }
    layer_ = graph::kOutsideLayers;
    region_ = Region::outputs;
    const ValueId raw = value("raw_logits", shape_.vocab);
    add(Primitive::linear, {graph::kHidden}, {raw}, {target_table()}, {.k = shape_.hidden, .n = {shape_.vocab}});
    add(Primitive::softcap, {raw}, {graph::kLogits}, {}, {.scale = shape_.softcap});
    const ValueId weights = value("weights", shape_.vocab), candidates = value("candidates", shape_.vocab);
    add(Primitive::sample, {graph::kLogits}, {graph::kNext, weights, candidates}, {}, {.n = {shape_.vocab}});
    add(Primitive::keep_block, {graph::kNext}, {}, {}, {});
  }

  ValueId layer(const DFlashLayer& layer, ValueId x, ValueId angles) {
    const int hidden = shape_.hidden, dim = shape_.head_dim, width = shape_.heads * dim;
    const ValueId q = linear("q", x, in_layer("self_attn.q_proj"), width, hidden);
    const ValueId k = linear("k", x, in_layer("self_attn.k_proj"), shape_.kv_heads * dim, hidden);
    const ValueId v = linear("v", x, in_layer("self_attn.v_proj"), shape_.kv_heads * dim, hidden);
    const ValueId query = value("query", width);
    Dims heads = heads_of(shape_.heads);
    heads.scale = static_cast<float>(1.0 / std::sqrt(dim));
    add(Primitive::block_qkv, {q, k, v, angles}, {query},
        {vector(in_layer("self_attn.q_norm.weight"), dim), vector(in_layer("self_attn.k_norm.weight"), dim)}, heads);

    const ValueId attended = value("attended", width);
    heads = heads_of(shape_.heads);
    heads.owns_kv = false;
    heads.window = layer.kind == LayerKind::sliding ? shape_.window : layer.causal ? 0 : graph::kNoLimit;
    rows_ = layer.causal ? RowSet::block_causal : RowSet::block;
    add(Primitive::attention, {query}, {attended}, {}, heads);
    rows_ = RowSet::block;

    add_to_residual(linear("attention_out", attended, in_layer("self_attn.o_proj"), hidden, width));
    x = norm("x", h_, in_layer("post_attention_layernorm.weight"), hidden);
    const ValueId gate = linear("gate", x, in_layer("mlp.gate_proj"), shape_.intermediate, hidden);
    const ValueId up = linear("up", x, in_layer("mlp.up_proj"), shape_.intermediate, hidden);
    const ValueId inner = value("inner", shape_.intermediate);
    add(Primitive::silu_mul, {gate, up}, {inner}, {}, {});
    add_to_residual(linear("mlp", inner, in_layer("mlp.down_proj"), hidden, shape_.intermediate));
    if (layer_ + 1 < shape_.layer_count) return norm("x", h_, "layers." + std::to_string(layer_ + 1) + ".input_layernorm.weight", hidden);
    add(Primitive::rms_norm, {h_}, {graph::kHidden}, {vector("norm.weight", hidden)}, {.n = {hidden}});
    return graph::kHidden;
  }

  void add_to_residual(ValueId update) { add(Primitive::add, {h_, update}, {h_}, {}, {.n = {shape_.hidden}}); }

  const Model& model_;
  const DFlashShape& shape_;
  const ValueId h_ = graph::kResidual;
};

}  // namespace

Lowered lower_dflash(const Model& model, SegmentId segment, Weights& weights) { return DFlashLowering(model, weights).run(segment); }

}  // namespace lapidary::codegen
