"""Which tensors a Gemma 4 model of a published shape, its towers and its drafters have, as MLX and GGUF name them."""
import json
import math
import pathlib
import sys
from dataclasses import dataclass, replace

ROOT = pathlib.Path(__file__).resolve().parent.parent


@dataclass
class Tensor:
    mlx: str  # without prefix and, for matrices, without ".weight"; "" where MLX has no such tensor
    gguf: str  # "" where GGUF has no such tensor
    shape: tuple  # the last number is the input width
    value: float = 0.0  # deviation of a matrix' weights, mean of a vector's; by default what keeps activations near one
    is_router: bool = False

    def __post_init__(self):
        self.is_vector, self.count = len(self.shape) == 1, math.prod(self.shape)
        self.value = self.value or (1.0 if self.is_vector else self.shape[-1] ** -0.5)


def read_config(shape, layers):
    """The config of a stock graph, or its first layers; the last one attends to everything in every Gemma 4."""
    config = json.loads((ROOT / f"graphs/gemma-4-{shape}.json").read_text())["config"]
    text = config["text_config"] = {"enable_moe_block": False, "hidden_size_per_layer_input": 0, **config["text_config"]}
    if layers is not None:
        if text["num_kv_shared_layers"]:
            sys.exit(f"[random_model] --layers, expected a shape whose layers share no keys and values, got {shape}")
        if not 2 <= layers <= text["num_hidden_layers"]:
            sys.exit(f"[random_model] --layers, expected 2 to {text['num_hidden_layers']}, got {layers}")
        text["num_hidden_layers"] = layers
        text["layer_types"] = text["layer_types"][:layers - 1] + ["full_attention"]
    return config


def read_drafter_config(shape, kind, layers):
    """Of a target of so many layers."""
    description = json.loads((ROOT / f"graphs/gemma-4-{shape}.json").read_text())
    config = description.get(DRAFTERS[kind])
    if not config or config.get("use_ordered_embeddings"):
        sys.exit(f"[random_model] --drafter, expected a shape with a {kind} drafter that scores every token, got {shape}")
    if kind == "dflash" and layers is not None:
        taps = config["dflash_config"]["target_layer_ids"]
        config["dflash_config"]["target_layer_ids"] = [tap * layers // config["num_target_layers"] for tap in taps]
        config["num_target_layers"] = layers
    return config


class Layer:
    def __init__(self, text, i):
        self.is_full = text["layer_types"][i] == "full_attention"
        self.owns_kv = i < text["num_hidden_layers"] - text["num_kv_shared_layers"]
        self.keys_are_values = self.is_full and text["attention_k_eq_v"]
        self.head_dim = text["global_head_dim" if self.is_full else "head_dim"]
        self.kv_heads = text["num_global_key_value_heads" if self.keys_are_values else "num_key_value_heads"]
        self.ffn = text["intermediate_size"] * (2 if text["use_double_wide_mlp"] and not self.owns_kv else 1)


def layers_of(text):
    return [Layer(text, i) for i in range(text["num_hidden_layers"])]


def layer_tensors(text, layer):
    """The tensors of one layer, named inside it. Norms around each part keep the residual stream near one."""
    hidden, heads, ple = text["hidden_size"], text["num_attention_heads"], text["hidden_size_per_layer_input"]
    dim, kv, ffn = layer.head_dim, layer.kv_heads * layer.head_dim, layer.ffn
    unit_score = dim ** -0.25  # for queries and keys: their products have a deviation of one
    yield Tensor("input_layernorm.weight", "attn_norm.weight", (hidden,))
    yield Tensor("post_attention_layernorm.weight", "post_attention_norm.weight", (hidden,))
    yield Tensor("pre_feedforward_layernorm.weight", "ffn_norm.weight", (hidden,))
    yield Tensor("post_feedforward_layernorm.weight", "post_ffw_norm.weight", (hidden,))
    yield Tensor("layer_scalar", "layer_output_scale.weight", (1,), 0.9)
    yield Tensor("self_attn.q_proj", "attn_q.weight", (heads * dim, hidden))
    yield Tensor("self_attn.q_norm.weight", "attn_q_norm.weight", (dim,), unit_score)
    if layer.owns_kv:
        yield Tensor("self_attn.k_proj", "attn_k.weight", (kv, hidden))
        yield Tensor("self_attn.k_norm.weight", "attn_k_norm.weight", (dim,), unit_score)
        if not layer.keys_are_values:
            yield Tensor("self_attn.v_proj", "attn_v.weight", (kv, hidden))
    yield Tensor("self_attn.o_proj", "attn_output.weight", (hidden, heads * dim))
    yield Tensor("mlp.gate_proj", "ffn_gate.weight", (ffn, hidden))
    yield Tensor("mlp.up_proj", "ffn_up.weight", (ffn, hidden))
    yield Tensor("mlp.down_proj", "ffn_down.weight", (hidden, ffn))
    if ple:
        yield Tensor("per_layer_input_gate", "inp_gate.weight", (ple, hidden))
        yield Tensor("per_layer_projection", "proj.weight", (hidden, ple))
        yield Tensor("post_per_layer_input_norm.weight", "post_norm.weight", (hidden,))
    if text["enable_moe_block"]:
        experts, width = text["num_experts"], text["moe_intermediate_size"]
        yield Tensor("pre_feedforward_layernorm_2.weight", "pre_ffw_norm_2.weight", (hidden,))
        yield Tensor("post_feedforward_layernorm_1.weight", "post_ffw_norm_1.weight", (hidden,))
        yield Tensor("post_feedforward_layernorm_2.weight", "post_ffw_norm_2.weight", (hidden,))
        yield Tensor("router.scale", "ffn_gate_inp.scale", (hidden,))
        yield Tensor("router.per_expert_scale", "ffn_down_exps.scale", (experts,))
        yield Tensor("router.proj", "ffn_gate_inp.weight", (experts, hidden), 1.0, is_router=True)
        yield Tensor("experts.switch_glu.gate_proj", "", (experts, width, hidden))
        yield Tensor("experts.switch_glu.up_proj", "", (experts, width, hidden))
        yield Tensor("", "ffn_gate_up_exps.weight", (experts, 2 * width, hidden))
        yield Tensor("experts.switch_glu.down_proj", "ffn_down_exps.weight", (experts, hidden, width))


def tensors_of(text):
    hidden, vocab, ple = text["hidden_size"], text["vocab_size"], text["hidden_size_per_layer_input"]
    yield Tensor("embed_tokens", "token_embd.weight", (vocab, hidden))
    yield Tensor("norm.weight", "output_norm.weight", (hidden,))
    if ple:
        width = text["num_hidden_layers"] * ple
        yield Tensor("embed_tokens_per_layer", "per_layer_token_embd.weight", (vocab, width), ple ** -0.5)
        yield Tensor("per_layer_model_projection", "per_layer_model_proj.weight", (width, hidden))
        yield Tensor("per_layer_projection_norm.weight", "per_layer_proj_norm.weight", (ple,))
    for i, layer in enumerate(layers_of(text)):
        for t in layer_tensors(text, layer):
            yield replace(t, mlx=t.mlx and f"layers.{i}.{t.mlx}", gguf=t.gguf and f"blk.{i}.{t.gguf}")


def assistant_tensors(config):
    text, width = config["text_config"], config["backbone_hidden_size"]
    yield Tensor("pre_projection", "", (text["hidden_size"], 2 * width))
    yield Tensor("post_projection", "", (width, text["hidden_size"]))
    for t in tensors_of(text):
        yield replace(t, mlx="model." + t.mlx)


def dflash_tensors(config):
    hidden, ffn, dim = config["hidden_size"], config["intermediate_size"], config["head_dim"]
    heads, kv = config["num_attention_heads"] * dim, config["num_key_value_heads"] * dim
    yield Tensor("fc", "", (hidden, len(config["dflash_config"]["target_layer_ids"]) * hidden))
    yield Tensor("hidden_norm.weight", "", (hidden,))
    yield Tensor("norm.weight", "", (hidden,))
    for i in range(config["num_hidden_layers"]):
        for name, shape in (("input_layernorm.weight", (hidden,)), ("post_attention_layernorm.weight", (hidden,)),
                            ("self_attn.q_norm.weight", (dim,)), ("self_attn.k_norm.weight", (dim,)),
                            ("self_attn.q_proj", (heads, hidden)), ("self_attn.k_proj", (kv, hidden)), ("self_attn.v_proj", (kv, hidden)),
                            ("self_attn.o_proj", (hidden, heads)), ("mlp.gate_proj", (ffn, hidden)), ("mlp.up_proj", (ffn, hidden)),
                            ("mlp.down_proj", (hidden, ffn))):
            yield Tensor(f"layers.{i}.{name}", "", shape)


DRAFTERS = {"mtp": "assistant", "dflash": "dflash"}  # as graphs name them
DRAFTER_TENSORS = {"mtp": assistant_tensors, "dflash": dflash_tensors}


def vision_tensors(vision, hidden):
    """Those of a tower that sees, and whether a packing leaves them alone. Names begin where the file's do."""
    if vision["model_type"] == "gemma4_unified_vision":
        width, pixels = vision["mm_embed_dim"], (vision["patch_size"] * vision["pooling_kernel_size"]) ** 2 * 3
        for name, size in (("patch_ln1", pixels), ("patch_ln2", width), ("pos_norm", width)):
            yield Tensor(f"vision_embedder.{name}.weight", "", (size,)), True
            yield Tensor(f"vision_embedder.{name}.bias", "", (size,), 0.1), True
        yield Tensor("vision_embedder.patch_dense", "", (width, pixels)), False
        yield Tensor("vision_embedder.patch_dense.bias", "", (width,), 0.1), True
        yield Tensor("vision_embedder.pos_embedding", "", (vision["mm_posemb_size"], 2, width), 0.1), True
        yield Tensor("embed_vision.embedding_projection", "", (hidden, width)), False
        return
    width, ffn, dim = vision["hidden_size"], vision["intermediate_size"], vision["head_dim"]
    heads = vision["num_attention_heads"] * dim
    yield Tensor("vision_tower.patch_embedder.input_proj", "v.patch_embd.weight", (width, vision["patch_size"] ** 2 * 3)), True
    yield Tensor("vision_tower.patch_embedder.position_embedding_table", "v.position_embd.weight", (2, vision["position_embedding_size"], width), 0.1), True
    for i in range(vision["num_hidden_layers"]):
        layer, block = f"vision_tower.encoder.layers.{i}.", f"v.blk.{i}."
        for name, short in (("input", "ln1"), ("post_attention", "attn_post_norm"), ("pre_feedforward", "ln2"), ("post_feedforward", "ffn_post_norm")):
            yield Tensor(f"{layer}{name}_layernorm.weight", f"{block}{short}.weight", (width,)), True
        for name in ("q", "k"):
            yield Tensor(f"{layer}self_attn.{name}_norm.weight", f"{block}attn_{name}_norm.weight", (dim,), dim ** -0.25), True
        for name, short, shape in (("self_attn.q_proj", "attn_q", (heads, width)), ("self_attn.k_proj", "attn_k", (heads, width)),
                                   ("self_attn.v_proj", "attn_v", (heads, width)), ("self_attn.o_proj", "attn_out", (width, heads)),
                                   ("mlp.gate_proj", "ffn_gate", (ffn, width)), ("mlp.up_proj", "ffn_up", (ffn, width)),
                                   ("mlp.down_proj", "ffn_down", (width, ffn))):
            yield from clipped(layer + name, shape, vision["use_clipped_linears"], block + short)
    if vision["standardize"]:
        yield Tensor("vision_tower.std_bias", "v.std_bias", (width,), 0.1), True
        yield Tensor("vision_tower.std_scale", "v.std_scale", (width,)), True
    yield Tensor("embed_vision.embedding_projection", "mm.input_projection.weight", (hidden, width)), False


def clipped(name, shape, has_bounds, gguf=""):
    yield Tensor(name + ".linear", gguf and gguf + ".weight", shape), True
    for bound, value in (("input_min", -30.0), ("input_max", 30.0), ("output_min", -50.0), ("output_max", 50.0)) if has_bounds else ():
        yield Tensor(f"{name}.{bound}", gguf and f"{gguf}.{bound}", (), value), True


def audio_tensors(audio, hidden):
    """As vision_tensors, of a tower that hears."""
    if audio["model_type"] == "gemma4_unified_audio":
        yield Tensor("embed_audio.embedding_projection", "", (hidden, audio["audio_embed_dim"])), False
        return
    width, (first, second), out = audio["hidden_size"], audio["subsampling_conv_channels"], audio["output_proj_dims"]
    sampling = "audio_tower.subsample_conv_projection."
    yield Tensor(sampling + "layer0.conv.weight", "", (first, 3, 3, 1), 0.3), True
    yield Tensor(sampling + "layer1.conv.weight", "", (second, 3, 3, first), (9 * first) ** -0.5), True
    for i, size in enumerate((first, second)):
        yield Tensor(f"{sampling}layer{i}.norm.weight", "", (size,)), True
    yield Tensor(sampling + "input_proj_linear", "", (width, 32 * second)), True
    for i in range(audio["num_hidden_layers"]):
        layer = f"audio_tower.layers.{i}."
        for name in ("feed_forward1.pre_layer_norm", "feed_forward1.post_layer_norm", "feed_forward2.pre_layer_norm",
                     "feed_forward2.post_layer_norm", "norm_pre_attn", "norm_post_attn", "norm_out", "lconv1d.pre_layer_norm", "lconv1d.conv_norm"):
            yield Tensor(f"{layer}{name}.weight", "", (width,)), True
        yield Tensor(layer + "self_attn.per_dim_scale", "", (width // audio["num_attention_heads"],), 0.1), True
        yield Tensor(layer + "self_attn.relative_k_proj", "", (width, width)), True
        yield Tensor(layer + "lconv1d.depthwise_conv1d.weight", "", (width, audio["conv_kernel_size"], 1), 0.4), True
        for name, shape in (("self_attn.q_proj", (width, width)), ("self_attn.k_proj", (width, width)), ("self_attn.v_proj", (width, width)),
                            ("self_attn.post", (width, width)), ("lconv1d.linear_start", (2 * width, width)),
                            ("lconv1d.linear_end", (width, width)),
                            *((f"feed_forward{half}.ffw_layer_{part}", shape) for half in (1, 2)
                              for part, shape in ((1, (4 * width, width)), (2, (width, 4 * width))))):
            yield from clipped(layer + name, shape, audio["use_clipped_linears"])
    yield Tensor("audio_tower.output_proj", "", (out, width)), True
    yield Tensor("audio_tower.output_proj.bias", "", (out,), 0.1), True
    yield Tensor("embed_audio.embedding_projection", "", (hidden, out)), False


def tower_tensors(config):
    hidden = config["text_config"]["hidden_size"]
    if config.get("vision_config"):
        yield from vision_tensors(config["vision_config"], hidden)
    if config.get("audio_config"):
        yield from audio_tensors(config["audio_config"], hidden)
