#!/usr/bin/env python3
"""What drafts cost or give over a long text of pebble, with good and bad drafters of blocks.

    tools/build release lapidary && perf/long_drafts.py [--tokens 2000] [--runs 3]

Stop tokens are never chosen, temperature is 0.8. Every kind runs in turns with plain decoding; speeds are medians of the ratios of
such turns. Bad drafters are copies of pebble's whose matrices are NaN or noise, in bfloat16. Ids must be those of plain decoding.
"""
import argparse
import json
import pathlib
import random
import statistics
import struct
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
GOOD = ROOT / "models/pebble-dflash"
PROMPTS = {"story": "Tell me a story.", "JSON": "Give me JSON for 3 people.", "code": "Write a Python function that adds two numbers."}
GOALS = {"dflash": 0.98, "NaN": 0.98, "noise": 0.98}
AUTO_GOAL = 0.95  # of the better of mtp and dflash


def make_bad(folder, numbers):
    """A copy of the drafter with matrices of these numbers (bytes of bfloat16), again and again."""
    config = json.loads((GOOD / "config.json").read_text())
    weights = 32 // config.pop("quantization")["bits"]  # in a word
    config.pop("quantization_config")
    (folder / "config.json").write_text(json.dumps(config))
    file = (GOOD / "model.safetensors").read_bytes()
    (size,) = struct.unpack_from("<Q", file)
    header, data, tensors = json.loads(file[8:8 + size]), b"", {}
    for name, tensor in header.items():
        if name == "__metadata__" or name.endswith((".scales", ".biases")):
            continue
        begin, end = tensor["data_offsets"]
        content, shape, kind = file[8 + size + begin:8 + size + end], tensor["shape"], tensor["dtype"]
        if kind == "U32":
            shape, kind = [shape[0], shape[1] * weights], "BF16"
            count = 2 * shape[0] * shape[1]
            content = (numbers * (count // len(numbers) + 1))[:count]
        tensors[name] = {"dtype": kind, "shape": shape, "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(tensors).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)


def noise():
    dice = random.Random(1)
    return b"".join(struct.pack("<f", dice.gauss(0, 0.05))[2:] for _ in range(9973))


def generate(prompt, tokens, flags):
    stops = json.loads((ROOT / "models/pebble/generation_config.json").read_text())["eos_token_id"]
    command = [ROOT / "build/release/lapidary", "generate", prompt, "--json", "--seed", "1", "-n", str(tokens), "--temperature", "0.8", "--context", "4096"]
    for stop in stops:
        command += ["--logit-bias", f"{stop}=-inf"]
    return json.loads(subprocess.run(command + flags, check=True, capture_output=True, text=True).stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=2000)
    parser.add_argument("--runs", type=int, default=3)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        kinds = {"mtp": ["--draft-kind", "mtp"], "dflash": ["--draft-kind", "dflash"], "auto": []}
        for name, numbers in (("NaN", b"\xc0\x7f"), ("noise", noise())):
            bad = pathlib.Path(folder) / name
            bad.mkdir()
            make_bad(bad, numbers)
            kinds[name] = ["--draft-kind", "dflash", "--draft-model", str(bad)]
        for text, prompt in PROMPTS.items():
            ratios = {kind: [] for kind in kinds}
            speeds = []
            for _ in range(arguments.runs):
                for kind, flags in kinds.items():
                    plain = generate(prompt, arguments.tokens, ["--draft-kind", "none"])
                    drafted = generate(prompt, arguments.tokens, flags)
                    if plain["ids"] != drafted["ids"]:
                        sys.exit(f"[{kind}] ids, expected those of plain decoding, got others")
                    speeds.append(plain["stats"]["decode_tok_s"])
                    ratios[kind].append(drafted["stats"]["decode_tok_s"] / speeds[-1])
            medians = {kind: statistics.median(all_of) for kind, all_of in ratios.items()}
            print(f"{text}: plain {statistics.median(speeds):.0f} tok/s, {len(plain['ids'])} tokens")
            for kind, of_plain in medians.items():
                goal = AUTO_GOAL * max(medians["mtp"], medians["dflash"]) if kind == "auto" else GOALS.get(kind)
                said = "" if goal is None else f"; goal {goal:.3f}: {'met' if of_plain >= goal else 'missed'}"
                print(f"  {kind:6} {of_plain:.3f} of plain ({', '.join(f'{ratio:.3f}' for ratio in ratios[kind])}){said}", flush=True)


if __name__ == "__main__":
    main()
