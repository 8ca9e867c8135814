#!/usr/bin/env python3
"""Decoding and prompts at depth with K/V of several kinds, in turns, and llama.cpp beside them.

    tools/build release lapidary && perf/long_context.py MLX_FOLDER [--gguf FILE] [--kinds bf16,q8,q4] [--depths 2048,32768,131072]
                                                         [--peer-depths 32768] [--prompt 512] [--rounds 3] [--program PATH]

MLX_FOLDER and FILE are what perf/random_model.py writes with --format mlx4 and gguf-q4_0. Speeds are medians of rounds; each is printed
with its ratio to bf16 at the same depth, and bf16 with its ratio to llama.cpp. Both programs fill what lies before in minutes: lapidary
repeats the K/V of 2048 tokens, llama.cpp computes blocks of 2048 apart from each other, once, and keeps them in the cache folder. Memory
of K/V is that of lapidary's plan, and what is resident besides weights beside the plan.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import time

from peer import compile_peer

ROOT = pathlib.Path(__file__).resolve().parent.parent
PEER_KINDS = ("f16", "q8_0")
PAUSE_S = 6  # before a run: a virtual machine gives what the last one has freed back to its host


def printed(*command):
    time.sleep(PAUSE_S)
    return subprocess.run([str(part) for part in command], check=True, capture_output=True, text=True).stdout


def ours(arguments, kind, depth):
    """Tokens per second of decoding and of a prompt, and the memory line."""
    output = printed(arguments.program, "bench", arguments.model, "--numeric", "fast", "--threads", arguments.threads, "--kv", kind,
                     "-p", arguments.prompt, "-n", arguments.tokens, "-d", depth, "--json")
    lines = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    speeds = {line["test"]: line["tok_s"] for line in lines if line.get("test") in ("pp", "tg")}
    return speeds, next(line for line in lines if "plan_anonymous_bytes" in line)


def peers(arguments, program, kind, depth):
    folder = arguments.cache / "states"
    folder.mkdir(exist_ok=True)
    state = folder / f"{arguments.gguf.parent.name}-{arguments.gguf.name}-{kind}-{depth}"
    return {"tg": float(printed(program, arguments.gguf, kind, depth, arguments.tokens, arguments.threads, state))}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("--gguf", type=pathlib.Path)
    parser.add_argument("--kinds", default="bf16,q8,q4")
    parser.add_argument("--depths", default="2048,32768,131072")
    parser.add_argument("--peer-depths", default="32768")
    parser.add_argument("--prompt", type=int, default=512)
    parser.add_argument("--tokens", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--program", type=pathlib.Path, default=ROOT / "build/release/lapidary")
    parser.add_argument("--cache", type=pathlib.Path, default=pathlib.Path.home() / ".cache/lapidary-perf")
    arguments = parser.parse_args()
    kinds, depths = arguments.kinds.split(","), [int(depth) for depth in arguments.depths.split(",")]
    peer_depths = [int(depth) for depth in arguments.peer_depths.split(",")] if arguments.gguf else []
    peer = compile_peer("depth_peer.cpp", arguments.cache / "depth_peer", arguments.cache) if arguments.gguf else None
    for depth in depths:
        speeds, memory = {}, {}
        for _ in range(arguments.rounds):
            for kind in kinds:
                got, memory[kind] = ours(arguments, kind, depth)
                speeds.setdefault(kind, []).append(got)
            if depth in peer_depths:
                for kind in PEER_KINDS:
                    speeds.setdefault("llama.cpp " + kind, []).append(peers(arguments, peer, kind, depth))
        medians = {name: {test: statistics.median(run[test] for run in runs) for test in runs[0]} for name, runs in speeds.items()}
        print(f"{arguments.model.name} at depth {depth}")
        for name, figures in medians.items():
            text = f"  {name:16} decode {figures['tg']:8.3f} tok/s, {figures['tg'] / medians[kinds[0]]['tg']:5.2f} of {kinds[0]}"
            if "pp" in figures:
                text += f"; prompt of {arguments.prompt} {figures['pp']:8.1f} tok/s, {figures['pp'] / medians[kinds[0]]['pp']:5.2f}"
            if name in memory:
                line = memory[name]
                text += (f"; K/V of full layers {line['kv']['full_bytes'] / 1e6:.0f} MB, resident {line['resident_anonymous_bytes'] / 1e6:.0f} MB"
                         f" of {line['plan_anonymous_bytes'] / 1e6:.0f} MB planned")
            print(text, flush=True)


if __name__ == "__main__":
    main()
