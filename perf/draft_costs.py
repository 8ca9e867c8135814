#!/usr/bin/env python3
"""What drafts cost before they are verified: k steps of an assistant against one block of a DFlash drafter.

    perf/draft_costs.py CHECKPOINT [--lapidary PROGRAM] [--rounds N] [-- FLAGS of generate]

Both drafters are found beside the checkpoint, or named by --draft-model. For each k from 1 to 7 a text is generated with the one, with the other and
with none, in turns. A line has the milliseconds that the drafts of a round took and their share of a plain round; the last line says from which
k on the block is the cheaper one.
"""
import argparse
import json
import pathlib
import statistics
import subprocess

PROMPT = "Tell me a story about a fox who has found a key."
MOST = 7  # drafts of a round


def draft_stats(args, kind, k):
    command = [args.lapidary, "generate", PROMPT, "--model", args.checkpoint, "--temperature", "0", "-n", str(args.tokens), "--json",
               "--draft-kind", kind, *(["--draft-tokens", str(k)] if kind != "none" else []), *args.flags]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if not done.stdout:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout)["stats"]["draft"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint")
    parser.add_argument("--lapidary", default=str(pathlib.Path(__file__).resolve().parent.parent / "build/release/lapidary"))
    parser.add_argument("--rounds", type=int, default=5, help="texts of each kind and k")
    parser.add_argument("--tokens", type=int, default=64, help="of a text")
    parser.add_argument("flags", nargs="*", help="of generate")
    args = parser.parse_args()
    print(" k  plain round ms      mtp ms  of a round   dflash ms  of a round")
    crossing = None
    for k in range(1, MOST + 1):
        seen = {"mtp": [], "dflash": [], "none": []}
        for _ in range(args.rounds):
            for kind, list_of_ms in seen.items():
                stats = draft_stats(args, kind, k)
                drafted = stats["rounds_by_source"].get(kind, 0)
                list_of_ms.append(1e3 * (stats["draft_s"] / drafted if drafted else stats["verify_s"] / stats["rounds"]))
        mtp, dflash, plain = (statistics.median(seen[kind]) for kind in ("mtp", "dflash", "none"))
        print(f"{k:2d}  {plain:14.2f}  {mtp:10.2f}  {mtp / plain:10.3f}  {dflash:10.2f}  {dflash / plain:10.3f}", flush=True)
        if crossing is None and dflash < mtp:
            crossing = k
    print(f"the block is cheaper from k = {crossing} on" if crossing else "the block is never cheaper")


if __name__ == "__main__":
    main()
