#!/usr/bin/env python3
"""A program cut for one checkpoint against lapidary itself, in turns: start, decoding, size, time to cut.

    tools/build release lapidary && perf/gem.py [--model DIR] [--static] [--runs N] [--rounds N] [-- FLAGS OF BOTH]

The prompt has 16 tokens for pebble. The first run of each is not counted. Decoding is told by the median of a token: other
machines on the same host now and then take a core for a while.
"""
import argparse
import re
import statistics
import subprocess
import tempfile

from first_token import PROGRAM, ROOT, first_byte_ms


def decode_ms(command):
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return float(re.search(r"^decode.*p50 ([0-9.]+) ms", text, re.MULTILINE).group(1))


def compare(what, unit, commands, measure, runs):
    times = {name: [] for name in commands}
    for _ in range(1 + runs):
        for name, command in commands.items():
            times[name].append(measure(command))
    medians = {name: statistics.median(values[1:]) for name, values in times.items()}
    for name, values in times.items():
        print(f"{what}, {name:8} {medians[name]:8.2f} {unit}, {min(values[1:]):.2f} to {max(values[1:]):.2f} in {runs} runs")
    print(f"{what}: {medians['lapidary'] / medians['gem']:.3f} times as fast, {medians['lapidary'] - medians['gem']:.1f} {unit} less")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=str(ROOT / "models/pebble"))
    parser.add_argument("--static", action="store_true")
    parser.add_argument("--weights", default="beside")
    parser.add_argument("--runs", type=int, default=21, help="starts of each")
    parser.add_argument("--rounds", type=int, default=3, help="measurements of decoding of each, 64 tokens long; 0 = none")
    parser.add_argument("flags", nargs="*")
    arguments = parser.parse_args()
    processor = re.search(r"Model name:\s*(.*)", subprocess.run(["lscpu"], capture_output=True, text=True).stdout)
    print(f"processor {processor.group(1) if processor else 'unknown'}")
    with tempfile.TemporaryDirectory() as folder:
        gem = folder + "/gem"
        said = subprocess.run([PROGRAM, "cut", arguments.model, "--weights", arguments.weights, "-o", gem, *arguments.flags,
                               *(["--static"] if arguments.static else [])], capture_output=True, text=True, check=True).stderr
        print(said.replace(gem, "gem").strip())
        own = ["--model", arguments.model, *arguments.flags]
        question = ["generate", "Tell me", "--max-tokens", "1", "--seed", "1"]
        compare("exec to first token", "ms", {"lapidary": [PROGRAM, *question, *own], "gem": [gem, *question]}, first_byte_ms, arguments.runs)
        if arguments.rounds:
            bench = ["bench", "-p", "0", "-n", "64"]
            compare("decode at depth 0, a token", "ms", {"lapidary": [PROGRAM, *bench, *own], "gem": [gem, *bench]}, decode_ms, arguments.rounds)


if __name__ == "__main__":
    main()
