// Stage 2: the ops of a segment, one by one, as the model's definition gives them.
#include <algorithm>
#include <cassert>

#include "checkpoint/pair.hpp"
#include "primitives.hpp"

namespace lapidary::codegen {
namespace {

using graph::Dims;
using graph::LayerShape;
using graph::Owner;
using graph::Primitive;
using graph::Region;
using graph::RowSet;
using graph::SegmentId;
using graph::WeightClass;
using graph::WeightId;

class Lowering : Primitives {
 public:
  Lowering(const Model& model, const graph::Shape& shape, Owner owner, Weights& weights)
      : Primitives(owner, weights, owner == Owner::assistant ? Region::draft : Region::rows, shape.norm_epsilon), model_(model),
        shape_(shape) {
    result_.values = pinned_values(model);
  }

  Lowered run(SegmentId segment) {
    switch (segment) {
      case SegmentId::prefill: body(RowSet::chunk, RowSet::last); break;
      case SegmentId::prefill_all: body(RowSet::chunk, RowSet::chunk); break;
      case SegmentId::draft: draft(); break;
      case SegmentId::forward:
        rows_ = RowSet::verify;
        add(Primitive::round_rows, {}, {}, {}, {});
        body(RowSet::verify, RowSet::verify);
        break;
      case SegmentId::head: head(); break;
      case SegmentId::select: select(); break;
      case SegmentId::extend:
      case SegmentId::catch_up:
      case SegmentId::block: break;  // of a graph without the DFlash drafter
    }
    return std::move(result_);
  }

 private:
  std::string in_layer(const char* name) const { return "layers." + std::to_string(layer_) + "." + name; }
  WeightId embedding(const std::string& name, int rows, int cols) {
    return weights_.find_or_add({name, owner_, WeightClass::embedding, 0, rows, cols});
  }
  WeightId expert_matrix(const std::string& name, int rows, int cols) {
    return weights_.find_or_add({name, owner_, WeightClass::experts, shape_.experts, rows, cols});
  }
  ValueId linear(const char* name, ValueId in, const std::string& weight, int n, int k) {
    const ValueId out = value(name, n);
    add(Primitive::linear, {in}, {out}, {matrix(weight, n, k)}, {.k = k, .n = {n}});
    return out;
  }

  // h += norm(update)
  void add_normed(ValueId update, const std::string& weight) {
    const ValueId normed = norm("normed", update, weight, shape_.hidden);
    add(Primitive::add, {h_, normed}, {h_}, {}, {.n = {shape_.hidden}});
  }

  void body(RowSet rows, RowSet rest) {
    rows_ = rows;
    layer_ = graph::kOutsideLayers;
    add(Primitive::embed, {}, {h_}, {embedding("embed_tokens", shape_.vocab, shape_.hidden)},
        {.n = {shape_.hidden}, .scale = model_.embedding_scale});
    rope_angles();
    if (shape_.ple_width) per_layer_inputs();

    int last_wanted = 0;  // by all rows, for its K/V or for what it gives to the one after it
    for (int l = 0; l < shape_.layer_count; ++l)
      if (shape_.layers[l].kv_layer == l || (l > 0 && tap_of(l - 1) != graph::kNone)) last_wanted = l;
    if (tap_of(shape_.layer_count - 1) != graph::kNone) last_wanted = shape_.layer_count;
    ValueId x = norm("x", h_, "layers.0.input_layernorm.weight", shape_.hidden);
    for (int l = 0; l < shape_.layer_count; ++l) {
      layer_ = static_cast<std::int16_t>(l);
      x = decoder_layer(shape_.layers[l], l, x, l == last_wanted ? rest : rows_);
    }
  }

  void rope_angles() {
    angles_.assign(model_.frequencies.size(), graph::kNone);
    for (const LayerShape& layer : shape_.each_layer()) {
      const std::int16_t constants = model_.frequencies_of(shape_, layer);
      if (angles_[constants] != graph::kNone) continue;
      angles_[constants] = value(layer.kind == graph::LayerKind::full ? "angles_full" : "angles_sliding", layer.head_dim);
      add(Primitive::rope_angles, {}, {angles_[constants]}, {}, {.n = {layer.head_dim}, .head_dim = layer.head_dim}).constants =
          constants;
    }
  }

  void per_layer_inputs() {
    const int width = shape_.layer_count * shape_.ple_width;
    const ValueId projected = linear("ple_projected", h_, "per_layer_model_projection", width, shape_.hidden);
    per_layer_ = value("ple", width);
    add(Primitive::ple_inputs, {projected}, {per_layer_},
        {embedding("embed_tokens_per_layer", shape_.ple_vocab, width),
         vector("per_layer_projection_norm.weight", shape_.ple_width)},
        {.n = {shape_.ple_width, shape_.layer_count}, .scale = model_.inverse_root_hidden, .scale2 = model_.ple_table_scale});
  }

  // From the layer's normed input to that of the next layer. `rest`: the rows that still matter once this layer's K/V are
  // stored.
  ValueId decoder_layer(const LayerShape& layer, int l, ValueId x, RowSet rest) {
    const int hidden = shape_.hidden;
    attention_block(layer, l, x, rest);

    x = norm("x", h_, in_layer("pre_feedforward_layernorm.weight"), hidden);
    const bool moe = shape_.experts > 0;
    ValueId expert_x = graph::kNone, scores = graph::kNone;
    if (moe) {
      expert_x = norm("expert_x", h_, in_layer("pre_feedforward_layernorm_2.weight"), hidden);
      const ValueId router_x = value("router_x", hidden);
      add(Primitive::rms_norm, {h_}, {router_x}, {vector(in_layer("router.scale"), hidden)},
          {.n = {hidden}, .scaled_output = 3, .scale = model_.inverse_root_hidden});
      // Before the dense part, so that experts can be chosen beside it.
      scores = linear("scores", router_x, in_layer("router.proj"), shape_.experts, hidden);
    }
    const ValueId gate = linear("gate", x, in_layer("mlp.gate_proj"), layer.intermediate, hidden);
    const ValueId up = linear("up", x, in_layer("mlp.up_proj"), layer.intermediate, hidden);
    const ValueId inner = value("inner", layer.intermediate);
    add(Primitive::gelu_mul, {gate, up}, {inner}, {}, {});
    const ValueId dense = linear("mlp", inner, in_layer("mlp.down_proj"), hidden, layer.intermediate);

    if (moe) mixture_of_experts(expert_x, scores, dense);
    else add_normed(dense, in_layer("post_feedforward_layernorm.weight"));
    if (shape_.ple_width) per_layer_block(l);
    Node& scale = add(Primitive::scale, {h_}, {h_}, {vector(in_layer("layer_scalar"), 1)}, {.n = {hidden}});
    if (owner_ == Owner::target) scale.tap = layer_;
    if (const int tap = tap_of(l); tap != graph::kNone)
      add(Primitive::keep_tap, {h_}, {graph::kFeatures}, {}, {.n = {hidden}, .offset = tap * hidden});
    if (l + 1 == shape_.layer_count) return graph::kNone;
    return norm("x", h_, "layers." + std::to_string(l + 1) + ".input_layernorm.weight", hidden);
  }

  // The number of the layer among those that the DFlash drafter taps.
  int tap_of(int layer) const {
    if (owner_ != Owner::target || !model_.dflash) return graph::kNone;
    const auto taps = std::span(model_.dflash->taps).first(static_cast<std::size_t>(model_.dflash->tap_count));
    const auto found = std::ranges::find(taps, layer);
    return found == taps.end() ? graph::kNone : static_cast<int>(found - taps.begin());
  }

  void attention_block(const LayerShape& layer, int l, ValueId x, RowSet rest) {
    const int hidden = shape_.hidden, dim = layer.head_dim;
    const bool own = owner_ == Owner::target && layer.kv_layer == l;
    const Dims heads{.heads = shape_.heads, .kv_heads = layer.kv_heads, .head_dim = dim, .kv_layer = layer.kv_layer,
                     .owns_kv = own, .values_are_keys = own && layer.values_are_keys};
    const ValueId angles = angles_[model_.frequencies_of(shape_, layer)];

    const ValueId q = linear("q", x, in_layer("self_attn.q_proj"), shape_.heads * dim, hidden);
    ValueId k = graph::kNone, v = graph::kNone;
    if (own) {
      k = linear("k", x, in_layer("self_attn.k_proj"), layer.kv_heads * dim, hidden);
      v = layer.values_are_keys ? k : linear("v", x, in_layer("self_attn.v_proj"), layer.kv_heads * dim, hidden);
    }

    const ValueId normed_q = value("normed_q", shape_.heads * dim), query = value("query", shape_.heads * dim);
    add(Primitive::head_norm, {q}, {normed_q}, {vector(in_layer("self_attn.q_norm.weight"), dim)}, heads);
    add(Primitive::rope, {normed_q, angles}, {query}, {}, {});
    if (own) {
      const ValueId normed = value("normed_k", layer.kv_heads * dim), rotated = value("key", layer.kv_heads * dim),
                    values = value("value", layer.kv_heads * dim);
      add(Primitive::head_norm, {k}, {normed}, {vector(in_layer("self_attn.k_norm.weight"), dim)}, {});
      add(Primitive::rope, {normed, angles}, {rotated}, {}, {});
      add(Primitive::store, {rotated}, {}, {}, {});
      add(Primitive::head_norm, {v}, {values}, {}, {});
      add(Primitive::store, {values}, {}, {}, {});
    }
    rows_ = rest;
    const ValueId attended = value("attended", shape_.heads * dim);
    add(Primitive::attention, {query}, {attended}, {},
        {.heads = shape_.heads, .kv_heads = layer.kv_heads, .head_dim = dim,
         .window = layer.kind == graph::LayerKind::sliding ? shape_.window : 0, .kv_layer = layer.kv_layer});
    const ValueId projected = linear("attention_out", attended, in_layer("self_attn.o_proj"), hidden, shape_.heads * dim);
    add_normed(projected, in_layer("post_attention_layernorm.weight"));
  }

  void mixture_of_experts(ValueId expert_x, ValueId scores, ValueId dense) {
    const int hidden = shape_.hidden, used = shape_.experts_used, width = shape_.expert_width;
    const Dims experts{.experts = shape_.experts, .experts_used = used};
    const ValueId ids = value("expert_ids", used), shares = value("expert_weights", used);
    add(Primitive::route, {scores}, {ids, shares}, {vector(in_layer("router.per_expert_scale"), shape_.experts)}, experts);

    const auto expert_linear = [&](const char* name, ValueId in, const char* weight, int n, int k) {
      const ValueId out = value(name, used * n);
      Dims dims = experts;
      dims.k = k;
      dims.n = {n};
      add(Primitive::expert_linear, {in, ids}, {out}, {expert_matrix(in_layer(weight), n, k)}, dims);
      return out;
    };
    const ValueId gate = expert_linear("expert_gate", expert_x, "experts.gate_proj", width, hidden);
    const ValueId up = expert_linear("expert_up", expert_x, "experts.up_proj", width, hidden);
    const ValueId inner = value("expert_inner", used * width);
    add(Primitive::gelu_mul, {gate, up}, {inner}, {}, {});
    const ValueId down = expert_linear("expert_out", inner, "experts.down_proj", hidden, width);

    const ValueId dense_normed = norm("dense_normed", dense, in_layer("post_feedforward_layernorm_1.weight"), hidden);
    const ValueId mixed = value("mixed", hidden);
    add(Primitive::weighted_sum, {down, shares}, {mixed}, {}, experts);
    const ValueId mixed_normed = norm("mixed_normed", mixed, in_layer("post_feedforward_layernorm_2.weight"), hidden);
    const ValueId sum = value("sum", hidden);
    add(Primitive::add, {dense_normed, mixed_normed}, {sum}, {}, {});
    add_normed(sum, in_layer("post_feedforward_layernorm.weight"));
  }

  void per_layer_block(int l) {
    const int width = shape_.ple_width;
    const ValueId gate = linear("ple_gate", h_, in_layer("per_layer_input_gate"), width, shape_.hidden);
    const ValueId gated = value("ple_gated", width);
    add(Primitive::gelu_mul, {gate, per_layer_}, {gated}, {}, {.offset = l * width});
    const ValueId out = linear("ple_out", gated, in_layer("per_layer_projection"), shape_.hidden, width);
    add_normed(out, in_layer("post_per_layer_input_norm.weight"));
  }

  void head() {
    rows_ = RowSet::last;
    add(Primitive::rms_norm, {h_}, {graph::kHidden}, {vector("norm.weight", shape_.hidden)}, {.n = {shape_.hidden}});
    const ValueId raw = value("raw_logits", shape_.vocab);
    add(Primitive::linear, {graph::kHidden}, {raw}, {embedding("embed_tokens", shape_.vocab, shape_.hidden)},
        {.k = shape_.hidden, .n = {shape_.vocab}});
    add(Primitive::softcap, {raw}, {graph::kLogits}, {}, {.scale = shape_.softcap});
  }

  void select() {
    rows_ = RowSet::last;
    region_ = Region::outputs;
    const ValueId weights = value("weights", shape_.vocab), candidates = value("candidates", shape_.vocab);
    add(Primitive::sample, {graph::kLogits}, {graph::kNext, weights, candidates}, {}, {.n = {shape_.vocab}});
    std::vector<ValueId> in{graph::kNext, graph::kHidden}, out{graph::kCarry};
    if (model_.dflash) in.push_back(graph::kFeatures), out.push_back(graph::kPending);
    add(Primitive::accept, in, out, {}, {.n = {shape_.hidden}});
  }

  // One step of the assistant. It begins with the target's embedding of the last token and the carried hidden row, and leaves
  // what takes the place of that row in the next step.
  void draft() {
    if (owner_ == Owner::target) return;  // a graph without an assistant
    const int target_hidden = model_.shape.hidden, hidden = shape_.hidden;
    rows_ = RowSet::draft;
    add(Primitive::round_rows, {}, {}, {}, {});
    const ValueId pair = value("pair", 2 * target_hidden);
    add(Primitive::embed_pair, {graph::kCarry}, {pair},
        {weights_.find_or_add({"embed_tokens", Owner::target, WeightClass::embedding, 0, shape_.vocab, target_hidden})},
        {.n = {target_hidden}, .scale = model_.embedding_scale});
    rope_angles();
    h_ = linear("y", pair, "pre_projection", hidden, 2 * target_hidden);
    ValueId x = norm("x", h_, "layers.0.input_layernorm.weight", hidden);
    for (int l = 0; l < shape_.layer_count; ++l) {
      layer_ = static_cast<std::int16_t>(l);
      x = decoder_layer(shape_.layers[l], l, x, rows_);
    }
    const ValueId z = norm("z", h_, "norm.weight", hidden);
    layer_ = graph::kOutsideLayers;
    add(Primitive::linear, {z}, {graph::kCarry}, {matrix("post_projection", target_hidden, hidden)},
        {.k = hidden, .n = {target_hidden}});
    draft_head(z);
  }

  void draft_head(ValueId z) {
    const int hidden = shape_.hidden, centroids = model_.assistant->centroids, used = model_.assistant->centroids_used;
    const WeightId table = embedding("embed_tokens", shape_.vocab, hidden);
    const ValueId token = value("draft", 1);
    std::vector<ValueId> scored;  // logits, and the tokens they belong to unless they are all
    if (centroids) {
      const int tokens = shape_.vocab / centroids;
      const ValueId scores = linear("centroid_scores", z, "masked_embedding.centroids", centroids, hidden);
      const ValueId clusters = value("clusters", used);
      add(Primitive::top, {scores}, {clusters}, {}, {.experts = centroids, .experts_used = used});
      scored = {value("draft_logits", used * tokens), value("draft_tokens", used * tokens)};
      add(Primitive::cluster_logits, {z, clusters}, scored,
          {table, weights_.find_or_add({"masked_embedding.token_ordering", owner_, WeightClass::ids, 0, 1, shape_.vocab})},
          {.k = hidden, .n = {tokens}, .experts = centroids, .experts_used = used});
    } else {
      const ValueId raw = value("raw_logits", shape_.vocab);
      scored = {value("draft_logits", shape_.vocab)};
      add(Primitive::linear, {z}, {raw}, {table}, {.k = hidden, .n = {shape_.vocab}});
      add(Primitive::softcap, {raw}, scored, {}, {.scale = shape_.softcap});
    }
    const int count = centroids ? used * (shape_.vocab / centroids) : shape_.vocab;
    const ValueId weights = value("weights", count), candidates = value("candidates", count);
    add(Primitive::sample, scored, {token, weights, candidates}, {}, {.n = {count}});
    add(Primitive::keep_draft, {token}, {}, {}, {});
  }

  const Model& model_;
  const graph::Shape shape_;
  ValueId h_ = graph::kResidual;  // the residual stream
  std::vector<ValueId> angles_;  // by Model::frequencies
  ValueId per_layer_ = graph::kNone;
};

// The assistant's layers over the K/V of their target.
graph::Shape drafter_over(const Model& model) {
  graph::Shape drafter = model.assistant->text;
  for (LayerShape& layer : std::span(drafter.layers).first(drafter.layer_count)) {
    layer.kv_layer = drafter_source(model.shape, layer.kind);
    layer.kv_heads = model.shape.layers[layer.kv_layer].kv_heads;
  }
  return drafter;
}

}  // namespace

WeightId Weights::find_or_add(Slot slot) {
  for (std::size_t i = 0; i < slots.size(); ++i)
    if (slots[i].name == slot.name && slots[i].owner == slot.owner) {
      assert(slots[i].rows == slot.rows && slots[i].cols == slot.cols);
      return static_cast<WeightId>(i);
    }
  slots.push_back(std::move(slot));
  return static_cast<WeightId>(slots.size() - 1);
}

std::vector<Value> pinned_values(const Model& model) {
  const auto bytes = [](std::int64_t width) { return width * std::int64_t{sizeof(float)}; };
  const std::int64_t hidden = model.shape.hidden, features = model.dflash ? model.dflash->tap_count * hidden : 0;
  return {{"h", Region::rows, bytes(hidden)},
          {"hidden", Region::outputs, bytes(hidden)},
          {"logits", Region::outputs, bytes(model.shape.vocab)},
          {"next", Region::outputs, sizeof(std::int32_t)},
          {"carry", Region::session, bytes(hidden)},
          {"features", Region::features, bytes(features)},
          {"pending", Region::session, bytes(features) * graph::kPendingRows}};
}

Lowered lower(const Model& model, SegmentId segment, Weights& weights) {
  if (segment >= SegmentId::extend && model.dflash) return lower_dflash(model, segment, weights);
  if (segment == SegmentId::draft && model.assistant)
    return Lowering(model, drafter_over(model), Owner::assistant, weights).run(segment);
  return Lowering(model, model.shape, Owner::target, weights).run(segment);
}

}  // namespace lapidary::codegen
