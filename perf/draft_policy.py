#!/usr/bin/env python3
"""How much to draft, chosen round by round, against plain decoding and every fixed number of drafts, on the wall clock.

    tools/build release lapidary && perf/draft_policy.py [--models pebble,cut] [--acceptance 0,...,1] [--tokens 2000]
                                                         [--runs 5] [--threads N] [--out perf/results/FILE.md]

`lapidary bench --acceptance` decodes one text in all ways, in turns, with drafts that are right as often as asked for and
cost nothing. The models are pebble and `cut`, six layers of the 26b-a4b shape with random weights. The first run writes
those into build/perf (3 GB) and builds a lapidary that knows their shape in build/perf-cut, as build/release is built.

A ratio is the median of the ratios inside each run; the lowest of them stands beside it. The best fixed k (0: plain) is the
one with the smallest ratio.
"""
import argparse
import datetime
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
CUT, CUT_BUILD = ROOT / "build/perf/26b-a4b-6-layers", ROOT / "build/perf-cut"
MODELS = {"pebble": ROOT / "models/pebble", "cut": CUT}
OF_PLAIN, OF_BEST_FIXED = 0.98, 0.95  # goals


def call(*command):
    subprocess.run(command, check=True, stdout=sys.stderr, cwd=ROOT)


def build_cut():
    if not CUT.exists():
        CUT.parent.mkdir(parents=True, exist_ok=True)
        call(sys.executable, "perf/random_model.py", "26b-a4b", CUT, "--layers", "6")
    if not (CUT_BUILD / "build.ninja").exists():
        options = (ROOT / "build/release.options").read_text().split()
        call("meson", "setup", CUT_BUILD, *[o for o in options if o != "-Dtests=true"], f"-Dextra_graphs={CUT}")
    call("ninja", "-C", CUT_BUILD, "lapidary")


def bench(name, arguments):
    """The lines of one run, by acceptance."""
    program = (CUT_BUILD if name == "cut" else ROOT / "build/release") / "lapidary"
    command = [program, "bench", MODELS[name], "--numeric", "fast", "--acceptance", arguments.acceptance, "--text-tokens",
               str(arguments.tokens), "--json", *(["--threads", str(arguments.threads)] if arguments.threads else [])]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return {line["acceptance"]: line for line in map(json.loads, output.splitlines())}


def spelled(ratios):
    return f"{statistics.median(ratios):.3f} ({min(ratios):.3f})"


def row(acceptance, runs):
    ratios = [[run["auto_tok_s"] / run["fixed_tok_s"][k] for run in runs] for k in range(8)]
    best = min(range(8), key=lambda k: statistics.median(ratios[k]))
    met = statistics.median(ratios[0]) >= OF_PLAIN and statistics.median(ratios[best]) >= OF_BEST_FIXED
    plain_tok_s = statistics.median(run["fixed_tok_s"][0] for run in runs)
    per_round = statistics.median(run["tokens_per_round"] for run in runs)
    return (f"| {acceptance:g} | {plain_tok_s:.1f} | {per_round:.2f} | {spelled(ratios[0])} | {best} "
            f"| {spelled(ratios[best])} | {'met' if met else 'missed'} |")


def table(name, runs):
    columns = ("acceptance", "plain tok/s", "tokens per round", "of plain", "best fixed k", "of best fixed",
               f"≥ {OF_PLAIN} and ≥ {OF_BEST_FIXED}")
    yield f"\n## {name}\n\n| {' | '.join(columns)} |\n|{'---:|' * (len(columns) - 1)}---|"
    for acceptance in runs[0]:
        yield row(acceptance, [run[acceptance] for run in runs])


def printed(*command):
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env={**os.environ, "LC_ALL": "C"}).stdout


def report(results, arguments):
    processor = re.search(r"Model name:\s*(.+)", printed("lscpu"))
    lines = ["# Drafting as the policy chooses\n",
             f"- processor: {processor[1] if processor else 'unknown'}, {arguments.threads or os.cpu_count()} threads",
             f"- date: {datetime.date.today()}",
             f"- lapidary: {printed('git', 'rev-parse', '--short', 'HEAD').strip()}, --numeric fast",
             f"- {arguments.tokens} tokens; medians of {arguments.runs} runs, the lowest in brackets"]
    for name, runs in results.items():
        lines += table(name, runs)
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--acceptance", default="0,0.25,0.5,0.75,0.9,1")
    parser.add_argument("--tokens", type=int, default=2000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--out", type=pathlib.Path, help="also write the tables to this file")
    arguments = parser.parse_args()
    models = arguments.models.split(",")
    for name in models:
        if name not in MODELS:
            sys.exit(f"[draft_policy] --models, expected some of {','.join(MODELS)}, got {name}")
    if "cut" in models:
        build_cut()
    results = {name: [] for name in models}
    for name, runs in results.items():
        while len(runs) < arguments.runs:
            runs.append(bench(name, arguments))
            of_plain = ", ".join(f"{line['of_plain']:.3f}" for line in runs[-1].values())
            print(f"{name}, run {len(runs)}, of plain: {of_plain}", file=sys.stderr)
    text = report(results, arguments)
    print(text, end="")
    if arguments.out:
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        arguments.out.write_text(text)


if __name__ == "__main__":
    main()
