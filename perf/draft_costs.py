#!/usr/bin/env python3
"""What drafts cost before they are verified: k steps of an assistant against one block of a DFlash drafter.

    perf/draft_costs.py CHECKPOINT [--lapidary PROGRAM] [--runs N] [--tokens N] [--acceptance 0.5,...] [FLAGS of bench]

Both drafters are found beside the checkpoint, or named by --draft-model. `lapidary bench --acceptance` decodes one text plainly and with 1 to 7
drafts, in turns, once with the one and once with the other; the drafters work, and their drafts are replaced by scripted ones. A line has the
milliseconds that the drafts of a round took, their share of a plain round of the same run, and for each acceptance how many tokens a second
came of it, of those of plain decoding; medians of the runs. The last line says from which k on the block is the cheaper one.
"""
import argparse
import json
import pathlib
import statistics
import subprocess

MOST = 7  # drafts of a round
KINDS = ("mtp", "dflash")


def bench(arguments, kind):
    """The lines of one run, by acceptance."""
    command = [arguments.lapidary, "bench", arguments.checkpoint, "--draft-kind", kind, "--acceptance", arguments.acceptance, "--text-tokens",
               str(arguments.tokens), "--json", *arguments.flags]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    return {line["acceptance"]: line for line in map(json.loads, done.stdout.splitlines())}


def median(runs, of_line):
    return statistics.median(of_line(line) for run in runs for line in run.values())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint")
    parser.add_argument("--lapidary", default=str(pathlib.Path(__file__).resolve().parent.parent / "build/release/lapidary"))
    parser.add_argument("--runs", type=int, default=5, help="of each drafter")
    parser.add_argument("--tokens", type=int, default=64, help="of the text")
    parser.add_argument("--acceptance", default="0.5,0.7,0.9", help="of a draft whose predecessors were accepted")
    arguments, arguments.flags = parser.parse_known_args()
    results = {kind: [] for kind in KINDS}
    for _ in range(arguments.runs):
        for kind, runs in results.items():
            runs.append(bench(arguments, kind))
    first = next(iter(results["mtp"][0].values()))
    acceptances = list(results["mtp"][0])
    plain_ms = median(results["mtp"] + results["dflash"], lambda line: line["fixed_verify_ms"][0])
    print(f"{first['processor']}; {arguments.tokens} tokens, medians of {arguments.runs} runs; a plain round takes {plain_ms:.1f} ms\n")
    speeds = [f"{kind} at {acceptance:g}" for acceptance in acceptances for kind in KINDS]
    print(f"| k | mtp ms | of a round | dflash ms | of a round | {' | '.join(speeds)} |\n|{'---:|' * (5 + len(speeds))}")
    crossing = None
    for k in range(1, MOST + 1):
        cells, shares = [], {}
        for kind, runs in results.items():
            shares[kind] = median(runs, lambda line: line["fixed_draft_ms"][k] / line["fixed_verify_ms"][0])
            cells += [f"{median(runs, lambda line: line['fixed_draft_ms'][k]):.2f}", f"{shares[kind]:.3f}"]
        for acceptance in acceptances:
            for runs in results.values():
                lines = [run[acceptance]["fixed_tok_s"] for run in runs]
                cells.append(f"{statistics.median(line[k] / line[0] for line in lines):.2f}")
        print(f"| {k} | {' | '.join(cells)} |")
        if crossing is None and shares["dflash"] < shares["mtp"]:
            crossing = k
    print(f"\nThe block is cheaper from k = {crossing} on." if crossing else "\nThe block is never cheaper.")


if __name__ == "__main__":
    main()
