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

sys.dont_write_bytecode = True  # beside the scripts
from model_tensors import DRAFTERS, DRAFTER_TENSORS, layers_of, read_config, read_drafter_config, tensors_of, tower_tensors, vision_tensors

ROOT = pathlib.Path(__file__).resolve().parent.parent
GROUP = 64  # weights per scale in the affine formats
SHARD_BYTES = 5_000_000_000
RING_GROUPS = 262_139  # prime: a matrix repeats a row only after so many rows, however many groups a row has
MLX_PREFIX = "language_model.model."


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
