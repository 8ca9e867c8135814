#!/usr/bin/env python3
"""Tokens per round and speed with drafts against plain decoding, on pebble's prompts.

    tools/build release lapidary && perf/speculation.py [--runs N] [--model DIR] [--numeric exact|fast]

The kinds of drafting run in turns in the same minutes; speeds are printed as ratios of medians to plain decoding. The ids of every
kind must be those of plain decoding. Without a k it is chosen round by round; `auto` chooses between the drafters as well.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROMPTS = {
    "Give me JSON for 3 people.": [],
    "What is 17 + 25 + 8? Work step by step.": [],
    "Tell me a story.": [],
    "Write a Python function that adds two numbers.": [],
    "Describe the picture.": ["--image", ROOT / "models/examples/shapes.png"],
}
KINDS = {
    "plain": ["--draft-kind", "none"],
    "mtp, k = 4": ["--draft-kind", "mtp", "--draft-tokens", "4"],
    "mtp": ["--draft-kind", "mtp"],
    "dflash, k = 4": ["--draft-kind", "dflash", "--draft-tokens", "4"],
    "dflash": ["--draft-kind", "dflash"],
    "lookup, k = 4": ["--draft-kind", "lookup", "--draft-tokens", "4"],
    "auto": [],
}


def generate(arguments, prompt, temperature, drafting):
    command = [ROOT / "build/release/lapidary", "generate", prompt, "--json", "--seed", "1", "--max-tokens", str(arguments.tokens),
               "--temperature", str(temperature), *PROMPTS[prompt], *drafting]
    if arguments.model:
        command += ["--model", arguments.model]
    if arguments.numeric:
        command += ["--numeric", arguments.numeric]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=100)
    parser.add_argument("--model")
    parser.add_argument("--numeric", choices=("exact", "fast"))
    arguments = parser.parse_args()
    for temperature in (0, 1):
        for prompt in PROMPTS:
            results = {kind: [] for kind in KINDS}
            for _ in range(arguments.runs):
                for kind, drafting in KINDS.items():
                    results[kind].append(generate(arguments, prompt, temperature, drafting))
            plain = results["plain"]
            speed = {kind: statistics.median(r["stats"]["decode_tok_s"] for r in runs) for kind, runs in results.items()}
            print(f"{prompt} (temperature {temperature}, {len(plain[0]['ids'])} tokens, plain {speed['plain']:.0f} tok/s)")
            for kind, runs in results.items():
                if any(r["ids"] != plain[0]["ids"] for r in runs):
                    sys.exit(f"[{kind}] ids, expected those of plain decoding, got others")
                per_round = statistics.median(r["stats"]["tokens_per_round"] for r in runs)
                print(f"  {kind:14} {per_round:5.2f} tokens per round, {speed[kind] / speed['plain']:5.2f} of plain speed")


if __name__ == "__main__":
    main()
