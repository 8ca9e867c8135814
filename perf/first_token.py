#!/usr/bin/env python3
"""Time from starting the program to the first byte of its answer, warm.

    tools/build release lapidary && perf/first_token.py [--runs N] [--model DIR]

Both numeric modes run in turns; the first run of each is not counted.
"""
import argparse
import os
import pathlib
import statistics
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAM = str(ROOT / "build/release/lapidary")
MODES = ("exact", "fast")


def first_byte_ms(command):
    read, write = os.pipe()
    silent = os.open(os.devnull, os.O_WRONLY)
    begin = time.perf_counter()
    child = os.posix_spawn(command[0], command, os.environ,
                           file_actions=[(os.POSIX_SPAWN_DUP2, write, 1), (os.POSIX_SPAWN_DUP2, silent, 2)])
    os.close(write)
    first = os.read(read, 1)
    elapsed = time.perf_counter() - begin
    while os.read(read, 4096):
        pass
    os.close(read)
    os.close(silent)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status or not first:
        raise SystemExit(f"[{command[0]}] expected an answer and exit status 0, got {first} and {status}")
    return elapsed * 1e3


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=21)
    parser.add_argument("--model")
    arguments = parser.parse_args()
    times = {mode: [] for mode in MODES}
    for _ in range(1 + arguments.runs):
        for mode in MODES:
            times[mode].append(first_byte_ms([PROGRAM, "generate", "hi", "--max-tokens", "8", "--numeric", mode,
                                              *(["--model", arguments.model] if arguments.model else [])]))
    for mode, runs in times.items():
        runs = runs[1:]
        print(f"{mode:6} exec to first token {statistics.median(runs):5.1f} ms, {min(runs):.1f} to {max(runs):.1f} in {len(runs)} runs")


if __name__ == "__main__":
    main()
