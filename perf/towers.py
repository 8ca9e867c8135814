#!/usr/bin/env python3
"""A picture of 768 x 768 to soft tokens: lapidary's towers against transformers (PyTorch) and llama.cpp (mtmd), in turns.

    tools/build release lapidary && perf/towers.py [--models e2b,26b-a4b] [--sides lapidary,...] [--rounds 3] [--threads 2]
                                                   [--cache FOLDER] [--keep]

All have random weights in the published shape of the tower, projector included, and begin with the pixels of a picture of the right
size. transformers is given bfloat16, float32, and float32 that oneDNN multiplies as bfloat16; llama.cpp bfloat16 and float16. Every run is
a process of its own and says the median of its pictures, of which the first one does not count; the table has medians of all rounds.

The first run makes a virtual environment in the cache folder, with torch and transformers from pip's index, and builds llama.cpp as
perf/compare-peers does. Checkpoints (2 GB of the disk for e2b, 3.5 GB for 26b-a4b) are deleted after their model unless --keep is given.
"""
import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import venv

sys.dont_write_bytecode = True  # beside the scripts
import random_model
from peer import compile_peer

ROOT = pathlib.Path(__file__).resolve().parent.parent
SIDE = 768  # pixels
TIMES = 2  # pictures of a peer's run that count
TRANSFORMERS = {"bf16": ("bfloat16", "eager", {}),  # its fused attention takes 20 times as long in bfloat16 where there is no SVE
                "f32": ("float32", "sdpa", {}), "f32-as-bf16": ("float32", "sdpa", {"ONEDNN_DEFAULT_FPMATH_MODE": "BF16"})}
SIDES = ("lapidary", *(f"transformers {kind}" for kind in TRANSFORMERS), "llama.cpp bf16", "llama.cpp f16")
PACKAGES = ("torch==2.9.1", "transformers", "numpy")  # later wheels for Arm are made for CUDA and multiply bfloat16 in a plain loop


def fail(what):
    sys.exit(f"[towers] {what}")


def printed(*command, **environment):
    """What a program printed; its log stays away."""
    with tempfile.TemporaryFile("w+") as log:
        result = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, stderr=log, text=True, env={**os.environ, **environment})
        if result.returncode:
            log.seek(0)
            fail(f"{command[0]}, expected exit status 0, got {result.returncode}: {log.read()[-2000:]}")
    return result.stdout


# ---- transformers, in an environment of its own


def python_with_torch(cache):
    folder = cache / "venv"
    python = folder / "bin/python"
    if not python.exists():
        venv.create(folder, with_pip=True)
    if subprocess.run([python, "-c", "import torch, transformers"], stderr=subprocess.DEVNULL).returncode:
        subprocess.run([python, "-m", "pip", "install", "--quiet", *PACKAGES], check=True)
    return python


def time_transformers(shape, kind, threads):
    """Runs in that environment: milliseconds of each picture, as JSON."""
    import torch
    from transformers.models.gemma4 import configuration_gemma4, modeling_gemma4
    config = random_model.read_config(shape, None)
    vision = configuration_gemma4.Gemma4VisionConfig(**{k: v for k, v in config["vision_config"].items() if k not in ("model_type", "rope_parameters")})
    text = configuration_gemma4.Gemma4TextConfig(hidden_size=config["text_config"]["hidden_size"])
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    dtype, vision._attn_implementation = getattr(torch, TRANSFORMERS[kind][0]), TRANSFORMERS[kind][1]
    tower, projector = modeling_gemma4.Gemma4VisionModel(vision), modeling_gemma4.Gemma4MultimodalEmbedder(vision, text)
    if vision.standardize:
        tower.std_bias.zero_()
        tower.std_scale.fill_(1)
    tower, projector = tower.to(dtype).eval(), projector.to(dtype).eval()
    across = SIDE // vision.patch_size
    pixels = torch.rand(1, across * across, 3 * vision.patch_size ** 2, dtype=dtype)
    places = torch.tensor([[x, y] for y in range(across) for x in range(across)])[None]
    times = []
    with torch.inference_mode():
        for _ in range(TIMES + 1):
            begin = time.perf_counter()
            soft = projector(tower(pixels, places).last_hidden_state)
            times.append((time.perf_counter() - begin) * 1e3)
            assert soft.isfinite().all() and soft.shape[-2] == (across // vision.pooling_kernel_size) ** 2, soft.shape
    print(json.dumps({"ms": times[1:], "torch": torch.__version__, "attention": tower.config._attn_implementation}))


# ---- llama.cpp


def compile_clip(folder, cache):
    # The server has the library of towers beside it.
    return compile_peer("towers_peer.cpp", folder / "peer", cache, "llama-server", ["mtmd"], ["tools/mtmd"])


# ---- All


def written(path, shape, form):
    if not path.exists():
        printed(sys.executable, ROOT / "perf/random_model.py", shape, path, "--format", form)
    return path


class Bench:
    def __init__(self, shape, sides, threads, cache, programs):
        self.threads, self.programs = threads, programs
        kinds = {"lapidary": ("towers", "towers"), "llama.cpp bf16": ("bf16.gguf", "mmproj-bf16"), "llama.cpp f16": ("f16.gguf", "mmproj-f16")}
        self.shape, self.folder = shape, cache / "models" / f"towers-{shape}"
        self.folder.mkdir(parents=True, exist_ok=True)
        self.files = {side: written(self.folder / kinds[side][0], shape, kinds[side][1]) for side in sides if side in kinds}

    def run(self, side):
        """Milliseconds, and what else is known."""
        program, kind = side.split(" ")[0], side.split(" ")[-1]
        if program == "lapidary":
            lines = [json.loads(line) for line in printed(self.programs[program], "bench", self.files[side], "--numeric", "fast", "--threads",
                                                          self.threads, "--towers", "--json").splitlines()]
            picture = next(line for line in lines if line.get("test") == "picture")
            return picture["ms"], {"of_product_limit": picture["of_product_limit"],
                                   "sound_ms": [line["ms"] for line in lines if line.get("test") == "sound"]}
        if program == "transformers":
            said = json.loads(printed(self.programs[program], __file__, "--time", self.shape, kind, self.threads, **TRANSFORMERS[kind][2]))
            return statistics.median(said["ms"]), {key: said[key] for key in ("torch", "attention")}
        times = printed(self.programs[program], self.files[side], self.threads, TIMES).split()
        return statistics.median(map(float, times)), {}


def table(shape, results):
    ours = statistics.median(results["lapidary"]) if "lapidary" in results else None
    yield f"\n## {shape}\n\n| | ms, median | least | lapidary is faster by |\n|---|---:|---:|---:|"
    for side, times in results.items():
        median = statistics.median(times)
        yield f"| {side} | {median:.0f} | {min(times):.0f} | {f'{median / ours:.2f}' if ours else ''} |"


def main():
    if sys.argv[1:2] == ["--time"]:
        return time_transformers(sys.argv[2], sys.argv[3], int(sys.argv[4]))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    caches = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    parser.add_argument("--models", default="e2b,26b-a4b")
    parser.add_argument("--sides", default=",".join(SIDES))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--cache", type=pathlib.Path, default=caches / "lapidary-perf")
    parser.add_argument("--keep", action="store_true")
    arguments = parser.parse_args()
    sides = arguments.sides.split(",")
    if unknown := set(sides) - set(SIDES):
        fail(f"--sides, expected some of {','.join(SIDES)}, got {','.join(unknown)}")
    with tempfile.TemporaryDirectory() as folder:
        programs = {"lapidary": ROOT / "build/release/lapidary"}
        if any(side.startswith("transformers") for side in sides):
            programs["transformers"] = python_with_torch(arguments.cache)
        if any(side.startswith("llama.cpp") for side in sides):
            programs["llama.cpp"] = compile_clip(pathlib.Path(folder), arguments.cache)
        for shape in arguments.models.split(","):
            bench, results = Bench(shape, sides, arguments.threads, arguments.cache, programs), {side: [] for side in sides}
            try:
                for _ in range(arguments.rounds):
                    for side in sides:
                        ms, facts = bench.run(side)
                        results[side].append(ms)
                        print(f"{shape}, {side}: {ms:.0f} ms {facts or ''}", file=sys.stderr)
            finally:
                if not arguments.keep:
                    shutil.rmtree(bench.folder)
                print("\n".join(table(shape, {side: times for side, times in results.items() if times})))


if __name__ == "__main__":
    main()
