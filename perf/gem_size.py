#!/usr/bin/env python3
"""How large the program of a cut model is, without its weights: with the drafters that perf/random_model.py can make for the shape.

    tools/build release lapidary && perf/gem_size.py [SHAPE...]

Weights are holes, so no disk is filled; lapidary reads them all the same, half a minute for the largest shape.
"""
import argparse
import pathlib
import struct
import subprocess
import sys
import tempfile

from first_token import PROGRAM, ROOT
from random_model import DRAFTERS

SHAPES = ("e2b", "e4b", "12b", "26b-a4b", "31b")


def make(shape, out, *flags):
    return subprocess.run([sys.executable, ROOT / "perf/random_model.py", shape, out, "--holes", *flags], capture_output=True, text=True)


def program_bytes(path):
    """The payload begins behind the last section header, in the next page."""
    head = path.open("rb").read(64)
    (headers_at,), (header_bytes, headers) = struct.unpack_from("<Q", head, 40), struct.unpack_from("<HH", head, 58)
    return headers_at + header_bytes * headers


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shapes", nargs="*", default=SHAPES, metavar="SHAPE")
    for shape in parser.parse_args().shapes:
        with tempfile.TemporaryDirectory() as name:
            folder, gem = pathlib.Path(name), pathlib.Path(name) / "gem"
            make(shape, folder / shape).check_returncode()
            kinds = [kind for kind in DRAFTERS if make(shape, folder / kind, "--drafter", kind).returncode == 0]
            subprocess.run([PROGRAM, "cut", folder / shape, "--weights", "mapped", "--numeric", "exact", "-o", gem,
                            *(["--draft-kind", "none"] if not kinds else []), *(word for kind in kinds for word in ("--draft-model", folder / kind))],
                           check=True, stderr=subprocess.DEVNULL)
            print(f"{shape} with {' and '.join(kinds) or 'no drafter'}: {program_bytes(gem):,} bytes", flush=True)


if __name__ == "__main__":
    main()
