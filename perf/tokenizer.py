#!/usr/bin/env python3
"""How fast the tokenizer loads and encodes, beside the `tokenizers` package from PyPI, and how time grows with one long word.

    tools/build release lapidary && perf/tokenizer.py

Both programs run in turns, single-threaded, on the same 10 MB of prose, code, JSON and many scripts. The package is installed into
a virtual environment under build/. Medians are printed; nothing is asserted but that both give the same ids.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import sysconfig
import venv

import random_model

ROOT = pathlib.Path(__file__).resolve().parent.parent
WORK = ROOT / "build" / "perf" / "tokenizer"
TEXT_BYTES = 10_000_000

PEER = """
import json, sys, time
from tokenizers import Tokenizer
start = time.perf_counter()
tokenizer = Tokenizer.from_file(sys.argv[1])
loaded = time.perf_counter()
text = open(sys.argv[2], encoding="utf-8", newline="").read()
begin = time.perf_counter()
ids = tokenizer.encode(text, add_special_tokens=False).ids
end = time.perf_counter()
print(*ids)
print(json.dumps({"load_s": loaded - start, "encode_s": end - begin}), file=sys.stderr)
"""


def mixed_text():
    """The project's own files, the texts of the tokenizer fixtures (many scripts) and Python's library, taken in turns."""
    fixtures = json.loads((ROOT / "tests/fixtures/tokenizer/encode.json").read_text())
    scripts = " ".join(case["text"] for case in fixtures["cases"])
    own = [path.read_text() for folder in ("src", "tests/fixtures") for path in sorted((ROOT / folder).rglob("*"))
           if path.suffix in (".cpp", ".hpp", ".md") or path.name == "chat-golden.json"]
    library = [path.read_text(errors="ignore") for path in sorted(pathlib.Path(sysconfig.get_path("stdlib")).glob("*.py"))]
    parts = []
    for i, part in enumerate(library + own):
        parts += [part, scripts] if i % 2 == 0 else [part]
    data = "".join(parts).encode()
    data *= -(-TEXT_BYTES // len(data))
    return data[:TEXT_BYTES].decode(errors="ignore").encode()


def peer_python():
    python = WORK / "venv" / "bin" / "python"
    if not python.exists():
        venv.create(WORK / "venv", with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", "tokenizers"], check=True)
    return python


def run(command):
    """The ids and the times that a program printed."""
    environment = dict(os.environ, RAYON_NUM_THREADS="1", TOKENIZERS_PARALLELISM="false")
    result = subprocess.run(command, env=environment, capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(result.stderr)
    return result.stdout.split(), json.loads(result.stderr.splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", default=ROOT / "build/release/lapidary", type=pathlib.Path)
    parser.add_argument("--tokenizer", type=pathlib.Path, help="tokenizer.json (default: Gemma 4's, of the tests)")
    parser.add_argument("--rounds", default=3, type=int)
    arguments = parser.parse_args()

    (WORK / "model").mkdir(parents=True, exist_ok=True)
    tokenizer = WORK / "model" / "tokenizer.json"
    tokenizer.write_bytes(arguments.tokenizer.read_bytes() if arguments.tokenizer else random_model.tokenizer_json())
    text = WORK / "mixed.txt"
    text.write_bytes(mixed_text())

    def ours(path):
        return run([arguments.program, "tokenize", "--model", tokenizer.parent, "--file", path, "--time"])

    python = peer_python()
    times = {"lapidary": [], "tokenizers": []}
    for _ in range(arguments.rounds):
        our_ids, our_time = ours(text)
        their_ids, their_time = run([python, "-c", PEER, tokenizer, text])
        if our_ids != their_ids:
            sys.exit("ids, expected those of tokenizers, got others")
        times["lapidary"].append(our_time)
        times["tokenizers"].append(their_time)

    def median(name, key):
        return statistics.median(time[key] for time in times[name])

    megabytes = text.stat().st_size / 1e6
    print(f"{arguments.tokenizer.name}, {tokenizer.stat().st_size / 1e6:.1f} MB; {megabytes:.1f} MB of text, "
          f"{len(our_ids)} tokens, medians of {arguments.rounds}")
    for name in times:
        print(f"{name:12} load {1e3 * median(name, 'load_s'):7.0f} ms   encode {median(name, 'encode_s'):7.3f} s   "
              f"{megabytes / median(name, 'encode_s'):6.1f} MB/s")
    print(f"{'ratio':12} load {median('tokenizers', 'load_s') / median('lapidary', 'load_s'):7.1f} x    "
          f"encode {median('tokenizers', 'encode_s') / median('lapidary', 'encode_s'):7.1f} x")

    print("one repeated character:")
    for size in (1, 2, 4, 8):
        path = WORK / "repeated.txt"
        path.write_bytes(b"a" * (size << 20))
        seconds = statistics.median(ours(path)[1]["encode_s"] for _ in range(arguments.rounds))
        print(f"  {size} MiB  {seconds:6.3f} s  {size * 1.048576 / seconds:5.1f} MB/s")


if __name__ == "__main__":
    main()
