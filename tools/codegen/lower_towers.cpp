// Stage 2 for the towers: the primitives that make soft tokens of a picture or of a sound.
#include <cmath>
#include <numbers>

#include "primitives.hpp"

namespace lapidary::codegen {
namespace {

using graph::AudioShape;
using graph::Owner;
using graph::Primitive;
using graph::Region;
using graph::RowSet;
using graph::Sense;
using graph::Tower;
using graph::VisionShape;
using graph::WeightClass;
using graph::WeightId;

constexpr std::int32_t kMostSoftTokens = 1120;      // of a picture
constexpr std::int32_t kMostSpectra = 3000;         // 30 s
constexpr std::int32_t kMostFrames = 7500;          // 5 min of 40 ms each
constexpr float kLayerNormEpsilon = 1e-5f;          // PyTorch's own, which no config names
constexpr int kChannelsOfColour = 3;

class TowerLowering : Primitives {
 public:
  TowerLowering(const Model& model, const Tower& tower, Weights& weights)
      : Primitives(graph::owner_of(tower.sense), weights, Region::rows,
                   tower.sense == Sense::vision ? tower.vision.norm_epsilon : tower.audio.norm_epsilon),
        model_(model), tower_(tower), clipped_(tower.vision.clipped || tower.audio.clipped) {
    const auto bytes = [](std::int64_t width) { return width * std::int64_t{sizeof(float)}; };
    result_.values = {{"percept", Region::given, bytes(tower.input_width)},
                      {"tower", Region::rows, bytes(tower.tower_width)},
                      {"soft", Region::given, bytes(tower.soft_width)}};
    result_.last_pinned = graph::kLastTowerPinned;
  }

  Lowered run() {
    rows_ = RowSet::percept;
    const bool sees = tower_.sense == Sense::vision;
    if (sees && tower_.vision.layer_count) encoder(tower_.vision);
    else if (sees) tiles(tower_.vision);
    else if (tower_.audio.layer_count) conformer(tower_.audio);
    layer_ = graph::kOutsideLayers;
    rows_ = RowSet::soft;
    projector(sees ? "embed_vision" : "embed_audio");
    return std::move(result_);
  }

 private:
  ValueId linear(const char* name, ValueId in, const std::string& weight, int n, int k, bool clipped = false) {
    const ValueId out = value(name, n);
    add(Primitive::linear, {in}, {out}, {matrix(weight, n, k, clipped)}, {.k = k, .n = {n}});
    return out;
  }
  // In layers, where matrices may come with bounds.
  ValueId product(const char* name, ValueId in, const std::string& weight, int n, int k) {
    return linear(name, in, weight + ".linear", n, k, clipped_);
  }

  // h += norm(update) * weight
  void add_normed(ValueId update, const std::string& norm_weight, int n, float weight = 0.0f) {
    const ValueId normed = norm("normed", update, norm_weight, n);
    add(Primitive::add, {h_, normed}, {h_}, {}, {.n = {n}, .scale2 = weight});
  }

  // From rows before the projector, or what the tower takes where nothing is before it, to soft tokens.
  void projector(const std::string& name) {
    const int k = tower_.tower_width ? tower_.tower_width : tower_.input_width;
    const ValueId normed = value("projector_in", k);
    add(Primitive::rms_norm, {tower_.tower_width ? graph::kTowerRows : graph::kPercept}, {normed}, {}, {.n = {k}});
    add(Primitive::linear, {normed}, {graph::kSoft}, {matrix(name + ".embedding_projection", tower_.soft_width, k)},
        {.k = k, .n = {tower_.soft_width}});
  }

  void add_positions(const std::string& table, int n, int positions, bool axis_inside) {
    const WeightId weight = weights_.find_or_add({table, owner_, WeightClass::embedding, 0, 2 * positions, n});
    add(Primitive::add_positions, {h_}, {h_}, {weight}, {.n = {n}, .axis_inside = axis_inside});
  }

  // A vision transformer.
  void encoder(const VisionShape& v) {
    const int pixels = v.patch * v.patch * kChannelsOfColour;
    const ValueId centred = value("pixels", pixels);
    add(Primitive::scale_shift, {graph::kPercept}, {centred}, {}, {.n = {pixels}, .scale = 2.0f, .scale2 = -1.0f});
    h_ = linear("h", centred, "vision_tower.patch_embedder.input_proj", v.hidden, pixels);
    add_positions("vision_tower.patch_embedder.position_embedding_table", v.hidden, v.positions, false);
    const ValueId angles = value("angles", v.head_dim);
    add(Primitive::grid_angles, {}, {angles}, {}, {.n = {v.head_dim}, .head_dim = v.head_dim}).constants = model_.grid_constants();
    ValueId x = norm("x", h_, encoder_path(0) + "input_layernorm.weight", v.hidden);
    for (int l = 0; l < v.layer_count; ++l) {
      layer_ = static_cast<std::int16_t>(l);
      encoder_layer(v, x, angles);
      if (l + 1 < v.layer_count) x = norm("x", h_, encoder_path(l + 1) + "input_layernorm.weight", v.hidden);
    }
    layer_ = graph::kOutsideLayers;
    rows_ = RowSet::soft;
    std::vector<WeightId> standard;
    if (v.standardised) standard = {vector("vision_tower.std_bias", v.hidden), vector("vision_tower.std_scale", v.hidden)};
    add(Primitive::pool, {h_}, {graph::kTowerRows}, standard,
        {.n = {v.hidden}, .window = v.pool, .scale = static_cast<float>(std::sqrt(v.hidden))});
  }

  static std::string encoder_path(int layer) { return "vision_tower.encoder.layers." + std::to_string(layer) + "."; }

  void encoder_layer(const VisionShape& v, ValueId x, ValueId angles) {
    const std::string layer = encoder_path(layer_), attention = layer + "self_attn.";
    const int width = v.heads * v.head_dim;
    const ValueId q = product("q", x, attention + "q_proj", width, v.hidden);
    const ValueId k = product("k", x, attention + "k_proj", width, v.hidden);
    const ValueId values = product("v", x, attention + "v_proj", width, v.hidden);
    const ValueId rotated = value("rotated", 3 * width), attended = value("attended", width);
    const graph::Dims heads{.heads = v.heads, .kv_heads = v.heads, .head_dim = v.head_dim};
    add(Primitive::qkv_grid_rope, {q, k, values, angles}, {rotated},
        {vector(attention + "q_norm.weight", v.head_dim), vector(attention + "k_norm.weight", v.head_dim)}, heads);
    add(Primitive::attention_all, {rotated}, {attended}, {}, heads);
    add_normed(product("attention_out", attended, attention + "o_proj", v.hidden, width), layer + "post_attention_layernorm.weight", v.hidden);

    x = norm("x", h_, layer + "pre_feedforward_layernorm.weight", v.hidden);
    const ValueId gate = product("gate", x, layer + "mlp.gate_proj", v.intermediate, v.hidden);
    const ValueId up = product("up", x, layer + "mlp.up_proj", v.intermediate, v.hidden);
    const ValueId inner = value("inner", v.intermediate);
    add(Primitive::gelu_mul, {gate, up}, {inner}, {}, {});
    add_normed(product("mlp_out", inner, layer + "mlp.down_proj", v.hidden, v.intermediate), layer + "post_feedforward_layernorm.weight",
               v.hidden);
  }

  // Tiles of a picture become soft tokens one by one.
  void tiles(const VisionShape& v) {
    const int pixels = v.patch * v.patch * kChannelsOfColour;
    rows_ = RowSet::soft;
    const ValueId normed = layer_norm(graph::kPercept, value("tile", pixels), "patch_ln1", pixels);
    const ValueId product = linear("dense", normed, "vision_embedder.patch_dense", v.hidden, pixels);
    const ValueId biased = value("dense_out", v.hidden);
    add(Primitive::bias, {product}, {biased}, {vector("vision_embedder.patch_dense.bias", v.hidden)}, {});
    h_ = layer_norm(biased, value("h", v.hidden), "patch_ln2", v.hidden);
    add_positions("vision_embedder.pos_embedding", v.hidden, v.positions, true);
    layer_norm(h_, graph::kTowerRows, "pos_norm", v.hidden);
  }

  ValueId layer_norm(ValueId in, ValueId out, const std::string& name, int n) {
    const std::string path = "vision_embedder." + name;
    add(Primitive::layer_norm, {in}, {out}, {vector(path + ".weight", n), vector(path + ".bias", n)}, {.n = {n}}).dims.epsilon =
        kLayerNormEpsilon;
    return out;
  }

  // A conformer over the spectra of a sound.
  void conformer(const AudioShape& a) {
    const ValueId waves = value("waves", a.hidden);
    rows_ = RowSet::distances;
    add(Primitive::distance_waves, {}, {waves}, {}, {.k = a.hidden}).constants = model_.distance_constants();

    const std::string sampling = "audio_tower.subsample_conv_projection.";
    ValueId x = graph::kPercept;
    int bands = a.input, inputs = 1;
    for (int i = 0; i < 2; ++i) {
      rows_ = i == 0 ? RowSet::halved : RowSet::soft;
      const std::string layer = sampling + "layer" + std::to_string(i) + ".";
      const int outputs = a.channels[static_cast<std::size_t>(i)];
      const ValueId out = value("sampled", bands / 2 * outputs);
      add(Primitive::conv_norm_relu, {x}, {out},
          {weights_.find_or_add({layer + "conv.weight", owner_, WeightClass::kernel, 0, 9 * inputs, outputs}),
           vector(layer + "norm.weight", outputs)},
          {.k = bands * inputs, .n = {bands / 2 * outputs}, .channels = outputs});
      x = out;
      bands /= 2;
      inputs = outputs;
    }
    h_ = linear("h", x, sampling + "input_proj_linear", a.hidden, bands * inputs);
    for (int l = 0; l < a.layer_count; ++l) {
      layer_ = static_cast<std::int16_t>(l);
      conformer_layer(a, waves);
    }
    layer_ = graph::kOutsideLayers;
    const ValueId product = linear("tower_product", h_, "audio_tower.output_proj", a.output, a.hidden);
    add(Primitive::bias, {product}, {graph::kTowerRows}, {vector("audio_tower.output_proj.bias", a.output)}, {});
  }

  void conformer_layer(const AudioShape& a, ValueId waves) {
    const std::string layer = "audio_tower.layers." + std::to_string(layer_) + ".", attention = layer + "self_attn.",
                      convolution = layer + "lconv1d.";
    const int head_dim = a.hidden / a.heads;
    const auto feed_forward = [&](const std::string& name) {
      const ValueId x = norm("x", h_, name + ".pre_layer_norm.weight", a.hidden);
      const ValueId inner = product("inner", x, name + ".ffw_layer_1", 4 * a.hidden, a.hidden), active = value("active", 4 * a.hidden);
      add(Primitive::silu, {inner}, {active}, {}, {});
      add_normed(product("ffw_out", active, name + ".ffw_layer_2", a.hidden, 4 * a.hidden), name + ".post_layer_norm.weight", a.hidden,
                 a.residual_weight);
    };

    feed_forward(layer + "feed_forward1");

    rows_ = RowSet::distances;
    const ValueId relative = linear("relative", waves, attention + "relative_k_proj", a.hidden, a.hidden);
    rows_ = RowSet::soft;
    ValueId x = norm("x", h_, layer + "norm_pre_attn.weight", a.hidden);
    const ValueId q = product("q", x, attention + "q_proj", a.hidden, a.hidden);
    const ValueId k = product("k", x, attention + "k_proj", a.hidden, a.hidden);
    const ValueId v = product("v", x, attention + "v_proj", a.hidden, a.hidden);
    const ValueId attended = value("attended", a.hidden);
    add(Primitive::local_attention, {q, k, v, relative}, {attended}, {vector(attention + "per_dim_scale", head_dim)},
        {.heads = a.heads, .kv_heads = a.heads, .head_dim = head_dim, .window = a.window,
         .scale = static_cast<float>(1.0 / std::sqrt(head_dim) / std::numbers::ln2),
         .scale2 = static_cast<float>(std::log(1.0 + std::numbers::e) / std::numbers::ln2), .cap = a.logit_cap});
    add_normed(product("attention_out", attended, attention + "post", a.hidden, a.hidden), layer + "norm_post_attn.weight", a.hidden);

    x = norm("x", h_, convolution + "pre_layer_norm.weight", a.hidden);
    const ValueId pair = product("pair", x, convolution + "linear_start", 2 * a.hidden, a.hidden), mixed = value("mixed", a.hidden);
    add(Primitive::glu_conv, {pair}, {mixed},
        {weights_.find_or_add({convolution + "depthwise_conv1d.weight", owner_, WeightClass::kernel, 0, a.kernel, a.hidden}),
         vector(convolution + "conv_norm.weight", a.hidden)},
        {.n = {a.hidden}, .window = a.kernel});
    const ValueId out = product("convolved", mixed, convolution + "linear_end", a.hidden, a.hidden);
    add(Primitive::add, {h_, out}, {h_}, {}, {.n = {a.hidden}});

    feed_forward(layer + "feed_forward2");
    h_ = norm("h", h_, layer + "norm_out.weight", a.hidden);
  }

  const Model& model_;
  const Tower& tower_;
  const bool clipped_;
  ValueId h_ = graph::kNone;  // the residual stream
};

}  // namespace

std::vector<Tower> towers_of(const Model& model) {
  std::vector<Tower> towers;
  if (model.vision) {
    const VisionShape& v = *model.vision;
    towers.push_back({.sense = Sense::vision, .vision = v, .input_width = v.patch * v.patch * kChannelsOfColour, .tower_width = v.hidden,
                      .soft_width = model.shape.hidden, .max_rows = kMostSoftTokens * v.pool * v.pool});
  }
  if (model.audio) {
    const AudioShape& a = *model.audio;
    towers.push_back({.sense = Sense::audio, .audio = a, .input_width = a.input, .tower_width = a.output,
                      .soft_width = model.shape.hidden, .max_rows = a.layer_count ? kMostSpectra : kMostFrames});
  }
  return towers;
}

Lowered lower_tower(const Model& model, const Tower& tower, Weights& weights) { return TowerLowering(model, tower, weights).run(); }

}  // namespace lapidary::codegen
