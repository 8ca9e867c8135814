#!/usr/bin/env python3
"""A checkpoint with the shape of a Gemma 4 model, or of a drafter for it, and random weights, for measuring speed without the real files.

    perf/random_model.py SHAPE OUT [--drafter KIND] [--format FORMAT] [--layers N] [--seed N] [--holes]

SHAPE is a name in graphs/: e2b, e4b, 12b, 26b-a4b or 31b. FORMAT is mlx2, mlx3, mlx4, mlx5, mlx6 or mlx8 (affine weights in
groups of 64), mxfp4, nvfp4 or bf16, which make a folder OUT, or gguf-q4_0 or gguf-q8_0, which make a file. mlx4 and gguf-q4_0
spend 4.5 bits on a weight, mlx8 and gguf-q8_0 8.5; only routers differ, as published (8.5 in MLX, 32 in GGUF). towers is
mlx4 with holes for all but the towers: it takes little of a disk, and says nothing. mmproj-bf16 and mmproj-f16 make the file that
llama.cpp has a tower that sees in.

--drafter makes the one published for SHAPE, with all its layers: mtp, the assistant, or dflash (26b-a4b, 31b and 12b).

--layers keeps the widths and cuts the depth of a shape without shared keys and values; lapidary reads such a checkpoint in
a build with -Dextra_graphs=OUT, or OUT+DRAFTER with drafters that were made with the same --layers. All have the vocabulary of
Gemma 4; folders have the towers too, in bfloat16 as MLX keeps them.

--holes leaves holes for all weights: it takes nothing of a disk, for what depends on names and sizes alone.

Speed does not depend on what weights say, as long as activations stay near one and the experts of a mixture take turns. So
nothing is computed for a weight: a few megabytes of random groups are made once and written again and again.
"""
import argparse
import bisect
import collections
import itertools
import json
import math
import os
import pathlib
import random
import re
import shutil
import struct
import sys
import tarfile
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial

ROOT = pathlib.Path(__file__).resolve().parent.parent
GROUP = 64  # weights per scale in the affine formats
SHARD_BYTES = 5_000_000_000
RING_GROUPS = 262_139  # prime: a matrix repeats a row only after so many rows, however many groups a row has
MLX_PREFIX = "language_model.model."


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


def interleave(columns):
    out = bytearray(len(columns) * RING_GROUPS)
    for i, column in enumerate(columns):
        out[i::len(columns)] = column
    return bytes(out)


class Rings:
    """For each encoding the bytes of RING_GROUPS groups, or of as many single numbers, of about the given size."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.factors = [self.random.choice((-1, 1)) * self.random.uniform(0.75, 1.25) for _ in range(RING_GROUPS)]

    @cache
    def codes(self, group_bytes):
        return self.random.randbytes(RING_GROUPS * group_bytes)

    @cache
    def numbers(self, letter, size, positive):
        return struct.pack(f"<{RING_GROUPS}{letter}", *(size * (abs(f) if positive else f) for f in self.factors))

    @cache
    def bf16(self, size, positive):
        wide = self.numbers("f", size, positive)
        return interleave((wide[2::4], wide[3::4]))

    @cache
    def e8m0(self, size):
        return bytes(127 + round(math.log2(size * abs(f))) for f in self.factors)

    @cache
    def e4m3(self, size):
        """To the next smaller number; those too small get the least."""
        return bytes(max(1, bisect.bisect(E4M3, size * abs(f)) - 1) | (128 if f < 0 else 0) for f in self.factors)

    @cache
    def blocks(self, scale, group_bytes):
        """Q4_0 and Q8_0 alike: a half-precision scale and the codes of 32 weights."""
        scales, codes = self.numbers("e", scale, False), self.codes(group_bytes)
        return interleave((scales[0::2], scales[1::2], *(codes[i::group_bytes] for i in range(group_bytes))))


class Holes:
    """In the place of Rings, of no bytes."""
    codes = bf16 = e8m0 = e4m3 = blocks = numbers = lambda *_: b""


E4M3 = [math.ldexp(code & 7 | (8 if code >> 3 else 0), max(code >> 3, 1) - 10) for code in range(127)]  # the positive numbers
E2M1_DEVIATION = math.sqrt(sum(x * x for x in (0, 0.5, 1, 1.5, 2, 3, 4, 6)) / 8)


def scale_for(deviation, bits):
    return deviation / math.sqrt((4 ** bits - 1) / 12)  # the root is the deviation of codes that are all equally likely


@dataclass
class Entry:
    """One tensor of a file: so many bytes of a ring, from a group on that the name of its place decides."""
    name: str
    type: str
    shape: tuple
    bytes: int
    ring: Callable[[], bytes]  # that gives none: a hole
    place: str

    def write(self, file):
        ring, left = memoryview(self.ring()), self.bytes
        if not ring:
            file.truncate(file.seek(self.bytes, os.SEEK_CUR))
            return
        at = zlib.crc32(self.place.encode()) % RING_GROUPS * (len(ring) // RING_GROUPS)
        while left:
            left -= file.write(ring[at:at + left])
            at = 0


# ---- MLX: a folder with config.json, tokenizer.json and safetensors


@dataclass
class Packing:
    mode: str
    bits: int
    group: int

    def entries(self, name, t, rings):
        *rows, columns = t.shape
        yield Entry(name + ".weight", "U32", (*rows, columns * self.bits // 32), t.count * self.bits // 8,
                    partial(rings.codes, self.group * self.bits // 8), name)
        groups, count = (*rows, columns // self.group), t.count // self.group
        if self.mode == "affine":
            scale = scale_for(t.value, self.bits)
            for part, size in ((".scales", scale), (".biases", -2 ** (self.bits - 1) * scale)):
                yield Entry(name + part, "BF16", groups, 2 * count, partial(rings.bf16, size, False), name)
        else:
            ring = rings.e8m0 if self.mode == "mxfp4" else rings.e4m3
            yield Entry(name + ".scales", "U8", groups, count, partial(ring, t.value / E2M1_DEVIATION), name)


ROUTERS = Packing("affine", 8, GROUP)


def mlx_entries(tensors, packing, rings, prefix=""):
    """Without a packing all are plain numbers."""
    for t in tensors:
        name = prefix + t.mlx
        if t.mlx and t.is_vector:
            yield Entry(name, "BF16", t.shape, 2 * t.count, partial(rings.bf16, t.value, True), name)
        elif t.mlx and not packing:
            yield Entry(name + ".weight", "BF16", t.shape, 2 * t.count, partial(rings.bf16, t.value, False), name)
        elif t.mlx:
            yield from (ROUTERS if t.is_router else packing).entries(name, t, rings)


def tower_entries(config, packing, rings):
    for t, stays_plain in tower_tensors(config):
        name = t.mlx
        if t.shape == ():
            yield Entry(name, "BF16", (), 2, partial(bytes, struct.pack("<f", t.value)[2:]), name)
        elif stays_plain or not packing:
            whole = t.is_vector or len(t.shape) > 2  # named in full, as convolutions and tables are
            yield Entry(name if whole else name + ".weight", "BF16", t.shape, 2 * t.count, partial(rings.bf16, t.value, t.is_vector), name)
        else:
            yield from packing.entries(name, t, rings)


def shards_of(entries):
    shards, total = collections.defaultdict(list), 0
    for _, parts in itertools.groupby(entries, lambda entry: entry.place):  # a matrix and its scales in one file
        parts = list(parts)
        shards[total // SHARD_BYTES] += parts
        total += sum(part.bytes for part in parts)
    return {f"model-{i:05}-of-{len(shards):05}.safetensors": shard for i, shard in enumerate(shards.values(), 1)}


def write_safetensors(path, entries):
    ends = itertools.accumulate(entry.bytes for entry in entries)
    header = json.dumps({entry.name: {"dtype": entry.type, "shape": entry.shape, "data_offsets": [end - entry.bytes, end]}
                         for entry, end in zip(entries, ends)}).encode()
    header += b" " * (-len(header) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(header)) + header)
        for entry in entries:
            entry.write(file)
        os.fsync(file.fileno())  # what is written back later would disturb measurements


def tokenizer_json():
    with tarfile.open(ROOT / "tests/fixtures/tokenizer/tokenizers.tar.xz") as archive:
        return archive.extractfile("gemma4-tokenizer.json").read()


def write_folder(folder, config, packing, routers, entries):
    folder.mkdir()
    if packing:
        quantization = {"group_size": packing.group, "bits": packing.bits, "mode": packing.mode}
        config = {**config, "quantization": quantization | {name: {"group_size": GROUP, "bits": 8} for name in routers}}
    (folder / "config.json").write_text(json.dumps(config, indent=1))
    shards = shards_of(entries)
    for name, entries in shards.items():
        write_safetensors(folder / name, entries)
    index = {entry.name: name for name, entries in shards.items() for entry in entries}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": index}))


def write_mlx(folder, config, packing, rings, towers_only=False):
    text = config["text_config"]
    routers = [MLX_PREFIX + t.mlx for t in tensors_of(text) if t.is_router]
    entries = mlx_entries(tensors_of(text), packing, rings, MLX_PREFIX)
    if towers_only:
        entries = (replace(entry, ring=bytes) for entry in entries)
    write_folder(folder, config, packing, routers, itertools.chain(entries, tower_entries(config, packing, rings)))
    (folder / "tokenizer.json").write_bytes(tokenizer_json())


def write_drafter(kind, folder, config, packing, rings):
    write_folder(folder, config, packing, [], mlx_entries(DRAFTER_TENSORS[kind](config), packing, rings))


# ---- GGUF: one file

U32, I32, F32, BOOL, STRING, ARRAY = 4, 5, 6, 7, 8, 9
LETTERS = {U32: "I", I32: "i", F32: "f", BOOL: "?"}
TYPE_NUMBERS = {"F32": 0, "F16": 1, "Q4_0": 2, "Q4_1": 3, "Q8_0": 8, "BF16": 30}
FILE_TYPES = {4: 2, 8: 7}  # by bits: mostly Q4_0, mostly Q8_0
NORMAL, CONTROL, BYTE = 1, 3, 6  # kinds of tokens
BYTE_WORD = re.compile("<0x[0-9A-F]{2}>")
ALIGNMENT = 32


def gguf_string(text):
    return struct.pack("<Q", len(text.encode())) + text.encode()


def gguf_pair(key, kind, value):
    if kind == STRING and isinstance(value, list):
        packed = struct.pack("<IIQ", ARRAY, STRING, len(value)) + b"".join(map(gguf_string, value))
    elif kind == STRING:
        packed = struct.pack("<I", STRING) + gguf_string(value)
    elif isinstance(value, list):
        packed = struct.pack(f"<IIQ{len(value)}{LETTERS[kind]}", ARRAY, kind, len(value), *value)
    else:
        packed = struct.pack(f"<I{LETTERS[kind]}", kind, value)
    return gguf_string(key) + packed


def gguf_vocabulary():
    tokenizer = json.loads(tokenizer_json())
    words = sorted(tokenizer["model"]["vocab"], key=tokenizer["model"]["vocab"].get)
    special = {token["content"] for token in tokenizer["added_tokens"]}
    kinds = [CONTROL if word in special else BYTE if BYTE_WORD.fullmatch(word) else NORMAL for word in words]
    return [("tokenizer.ggml.model", STRING, "gemma4"), ("tokenizer.ggml.tokens", STRING, words), ("tokenizer.ggml.token_type", I32, kinds),
            ("tokenizer.ggml.merges", STRING, [" ".join(pair) for pair in tokenizer["model"]["merges"]]),
            *((f"tokenizer.ggml.{name}_token_id", U32, words.index(f"<{name}>")) for name in ("bos", "eos"))]


def gguf_pairs(text, bits):
    layers, ropes = layers_of(text), text["rope_parameters"]
    pairs = [("block_count", U32, len(layers)), ("context_length", U32, text["max_position_embeddings"]),
             ("embedding_length", U32, text["hidden_size"]), ("vocab_size", U32, text["vocab_size"]),
             ("embedding_length_per_layer_input", U32, text["hidden_size_per_layer_input"]),
             ("feed_forward_length", I32, [layer.ffn for layer in layers]),
             ("final_logit_softcapping", F32, text["final_logit_softcapping"]),
             ("rope.freq_base", F32, ropes["full_attention"]["rope_theta"]),
             ("rope.freq_base_swa", F32, ropes["sliding_attention"]["rope_theta"]),
             ("attention.head_count", U32, text["num_attention_heads"]),
             ("attention.head_count_kv", I32, [layer.kv_heads for layer in layers]),
             ("attention.layer_norm_rms_epsilon", F32, text["rms_norm_eps"]),
             ("attention.shared_kv_layers", U32, text["num_kv_shared_layers"]),
             ("attention.sliding_window", U32, text["sliding_window"]),
             ("attention.sliding_window_pattern", BOOL, [not layer.is_full for layer in layers])]
    for key in ("attention.key_length", "attention.value_length", "rope.dimension_count"):
        pairs += [(key, U32, text["global_head_dim"]), (key + "_swa", U32, text["head_dim"])]
    if text["enable_moe_block"]:
        pairs += [("expert_count", U32, text["num_experts"]), ("expert_used_count", U32, text["top_k_experts"]),
                  ("expert_feed_forward_length", U32, text["moe_intermediate_size"])]
    general = [("general.architecture", STRING, "gemma4"), ("general.file_type", U32, FILE_TYPES[bits])]
    return general + gguf_vocabulary() + [("gemma4." + key, kind, value) for key, kind, value in pairs]


def gguf_entries(text, bits, rings):
    # Frequencies are divided by these: the pairs of a full layer that do not rotate stand still.
    pairs = text["global_head_dim"] // 2
    turning = int(pairs * text["rope_parameters"]["full_attention"]["partial_rotary_factor"])
    divisors = struct.pack(f"<{pairs}f", *[1.0] * turning, *[1e30] * (pairs - turning))
    yield Entry("rope_freqs.weight", "F32", (pairs,), len(divisors), partial(bytes, divisors), "")
    for t in tensors_of(text):
        if t.gguf and (t.is_vector or t.is_router):
            yield Entry(t.gguf, "F32", t.shape, 4 * t.count, partial(rings.numbers, "f", t.value, t.is_vector), t.gguf)
        elif t.gguf:
            yield Entry(t.gguf, f"Q{bits}_0", t.shape, t.count // 32 * (2 + 4 * bits),
                        partial(rings.blocks, scale_for(t.value, bits), 4 * bits), t.gguf)


def write_gguf_file(path, pairs, entries):
    """Entries are as Entry: they know their bytes and write themselves."""
    head = b"GGUF" + struct.pack("<IQQ", 3, len(entries), len(pairs)) + b"".join(gguf_pair(*pair) for pair in pairs)
    offset = 0
    for entry in entries:
        shape, number = entry.shape[::-1], TYPE_NUMBERS[entry.type]  # the fastest dimension first
        head += gguf_string(entry.name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, number, offset)
        offset += entry.bytes + -entry.bytes % ALIGNMENT
    with open(path, "wb") as file:
        file.write(head + bytes(-len(head) % ALIGNMENT))
        for entry in entries:
            entry.write(file)
            file.write(bytes(-entry.bytes % ALIGNMENT))
        os.fsync(file.fileno())


def write_gguf(path, config, bits, rings):
    text = config["text_config"]
    write_gguf_file(path, gguf_pairs(text, bits), list(gguf_entries(text, bits, rings)))


def mmproj_pairs(config, matrix_type):
    vision = config["vision_config"]
    pairs = [("embedding_length", U32, vision["hidden_size"]), ("feed_forward_length", U32, vision["intermediate_size"]),
             ("block_count", U32, vision["num_hidden_layers"]), ("projection_dim", U32, config["text_config"]["hidden_size"]),
             ("attention.head_count", U32, vision["num_attention_heads"]),
             ("attention.layer_norm_epsilon", F32, vision["rms_norm_eps"]), ("image_size", U32, 224), ("patch_size", U32, vision["patch_size"]),
             ("image_mean", F32, [0.0] * 3), ("image_std", F32, [1.0] * 3)]
    return [("general.architecture", STRING, "clip"), ("general.type", STRING, "mmproj"), ("general.file_type", U32, TYPE_NUMBERS[matrix_type]),
            ("clip.has_vision_encoder", BOOL, True), ("clip.use_gelu", BOOL, True), ("clip.projector_type", STRING, "gemma4v"),
            *(("clip.vision." + key, kind, value) for key, kind, value in pairs)]


def mmproj_entries(config, matrix_type, rings):
    vision = config["vision_config"]
    ring = rings.bf16 if matrix_type == "BF16" else partial(rings.numbers, "e")
    for t, _ in vision_tensors(vision, config["text_config"]["hidden_size"]):
        if t.shape == ():
            yield Entry(t.gguf, "F32", (1,), 4, partial(bytes, struct.pack("<f", t.value)), t.gguf)
        elif t.gguf == "v.patch_embd.weight":  # a convolution there
            yield Entry(t.gguf, "F32", (t.shape[0], 3, vision["patch_size"], vision["patch_size"]), 4 * t.count,
                        partial(rings.numbers, "f", t.value, False), t.gguf)
        elif t.is_vector or len(t.shape) > 2:
            yield Entry(t.gguf, "F32", t.shape, 4 * t.count, partial(rings.numbers, "f", t.value, t.is_vector), t.gguf)
        else:
            yield Entry(t.gguf, matrix_type, t.shape, 2 * t.count, partial(ring, t.value, False), t.gguf)


def write_mmproj(path, config, matrix_type, rings):
    if config.get("vision_config", {}).get("model_type") != "gemma4_vision":
        sys.exit("[random_model] SHAPE, expected one with a tower that sees, got another")
    write_gguf_file(path, mmproj_pairs(config, matrix_type), list(mmproj_entries(config, matrix_type, rings)))


FORMATS = {f"mlx{bits}": (write_mlx, Packing("affine", bits, GROUP)) for bits in (2, 3, 4, 5, 6, 8)}
FORMATS |= {"mxfp4": (write_mlx, Packing("mxfp4", 4, 32)), "nvfp4": (write_mlx, Packing("nvfp4", 4, 16)), "bf16": (write_mlx, None)}
FORMATS |= {"gguf-q4_0": (write_gguf, 4), "gguf-q8_0": (write_gguf, 8)}
FORMATS |= {"towers": (partial(write_mlx, towers_only=True), Packing("affine", 4, GROUP))}
FORMATS |= {"mmproj-bf16": (write_mmproj, "BF16"), "mmproj-f16": (write_mmproj, "F16")}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shape", choices=("e2b", "e4b", "12b", "26b-a4b", "31b"), metavar="SHAPE")
    parser.add_argument("out", type=pathlib.Path, metavar="OUT")
    parser.add_argument("--drafter", choices=DRAFTERS)
    parser.add_argument("--format", choices=FORMATS, default="mlx4")
    parser.add_argument("--layers", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--holes", action="store_true")
    arguments = parser.parse_args()
    out, kind, (write, packing) = arguments.out, arguments.drafter, FORMATS[arguments.format]
    config = read_config(arguments.shape, arguments.layers)
    if kind:
        if write is write_gguf:
            sys.exit(f"[random_model] --format, expected one of MLX for a drafter, got {arguments.format}")
        write, config = partial(write_drafter, kind), read_drafter_config(arguments.shape, kind, arguments.layers)
    if out.exists():
        sys.exit(f"[random_model] {out}, expected a new name, got one that exists")
    part = out.with_name(out.name + ".part")  # its name until it is complete
    shutil.rmtree(part) if part.is_dir() else part.unlink(missing_ok=True)
    start = time.monotonic()
    write(part, config, packing, Holes() if arguments.holes else Rings(arguments.seed))
    part.rename(out)
    megabytes = sum(file.stat().st_size for file in (out.iterdir() if out.is_dir() else [out])) / 1e6
    seconds = time.monotonic() - start
    print(f"{out.name}: {megabytes:.0f} MB in {seconds:.1f} s, {megabytes / seconds:.0f} MB/s", file=sys.stderr)


if __name__ == "__main__":
    main()
