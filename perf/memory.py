#!/usr/bin/env python3
"""Load time of a checkpoint and its memory with a full context, against the plan.

    perf/memory.py CHECKPOINT [CONTEXT]

The first load warms the page cache; the second one is reported. Needs build/release (tools/build release).
"""

import json
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def bench(checkpoint, context):
    command = [f"{ROOT}/build/release/lapidary", "bench", checkpoint, "-p", "0", "-n", "0", "--json", "--context", str(context)]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()[-1])


def main():
    checkpoint, context = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 2048
    bench(checkpoint, 64)
    result = bench(checkpoint, context)
    anonymous = result["resident_anonymous_bytes"] / result["plan_anonymous_bytes"]
    mapped = result["resident_file_bytes"] / result["plan_weights_mapped_bytes"]
    print(f"load, page cache warm     {result['load_s']:.3f} s")
    print(f"context filled            {result['context_tokens']} tokens")
    print(f"anonymous, planned        {result['plan_anonymous_bytes'] / 1e6:.1f} MB")
    print(f"anonymous, resident       {result['resident_anonymous_bytes'] / 1e6:.1f} MB  ({anonymous:.3f} of the plan)")
    print(f"weights, planned          {result['plan_weights_mapped_bytes'] / 1e6:.1f} MB")
    print(f"file-backed, resident     {result['resident_file_bytes'] / 1e6:.1f} MB  ({mapped:.3f} of the plan)")


if __name__ == "__main__":
    main()
