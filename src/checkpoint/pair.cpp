#include "checkpoint/pair.hpp"

#include "checkpoint/error.hpp"

namespace lapidary {
namespace {

void expect_equal(const std::string& where, const char* what, std::int32_t target, std::int32_t drafter) {
  if (target == drafter) return;
  fail(ErrorKind::shape_mismatch, where,
       std::string(what) + ", expected " + std::to_string(target) + " as in the target, got " + std::to_string(drafter));
}

}  // namespace

std::int32_t drafter_source(const graph::Shape& target, graph::LayerKind kind) {
  std::int32_t source = -1;
  for (std::int32_t l = 0; l < target.layer_count; ++l)
    if (target.layers[l].kind == kind && target.layers[l].kv_layer == l) source = l;
  return source;
}

void check_pair(const graph::Shape& target, const graph::AssistantShape& assistant, const std::string& where) {
  const graph::Shape& drafter = assistant.text;
  expect_equal(where, "vocab_size", target.vocab, drafter.vocab);
  expect_equal(where, "backbone_hidden_size", target.hidden, assistant.target_hidden);
  for (const graph::LayerShape& layer : drafter.each_layer()) {
    const std::int32_t source = drafter_source(target, layer.kind);
    const bool sliding = layer.kind == graph::LayerKind::sliding;
    if (source < 0)
      fail(ErrorKind::shape_mismatch, where,
           std::string("layer_types, expected kinds of layers whose K/V the target has, got ") +
               (sliding ? "sliding_attention" : "full_attention"));
    const graph::LayerShape& read = target.layers[source];
    expect_equal(where, sliding ? "head_dim" : "global_head_dim", read.head_dim, layer.head_dim);
    if (sliding) expect_equal(where, "sliding_window", target.window, drafter.window);
    if (drafter.heads % read.kv_heads != 0)
      fail(ErrorKind::shape_mismatch, where,
           "num_attention_heads, expected a multiple of the target's " + std::to_string(read.kv_heads) +
               " key/value heads, got " + std::to_string(drafter.heads));
  }
}

void check_pair(const graph::Shape& target, const graph::DFlashShape& dflash, const std::string& where) {
  expect_equal(where, "vocab_size", target.vocab, dflash.vocab);
  expect_equal(where, "hidden_size", target.hidden, dflash.hidden);
  expect_equal(where, "num_target_layers", target.layer_count, dflash.target_layers);
}

}  // namespace lapidary
