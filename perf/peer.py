"""llama.cpp for the other scripts: perf/compare-peers as a module, and small programs of ours with its libraries."""
import importlib.util
import pathlib
import sys
from importlib.machinery import SourceFileLoader

FOLDER = pathlib.Path(__file__).resolve().parent
_loader = SourceFileLoader("compare_peers", str(FOLDER / "compare-peers"))
compare = importlib.util.module_from_spec(importlib.util.spec_from_loader(_loader.name, _loader))
sys.modules[_loader.name] = compare  # its data classes look for it there
_loader.exec_module(compare)


def compile_peer(source, out, cache, built="llama-bench", libraries=("llama",), headers=()):
    """The path `out`: perf/`source` with libraries that lie beside the program `built`."""
    folder = compare.build_peer(cache, built).parent
    compare.call("c++", "-std=c++20", "-O1", FOLDER / source, *(f"-I{folder.parents[1]}/{part}" for part in (*headers, "include", "ggml/include")),
                 f"-L{folder}", f"-Wl,-rpath,{folder}", *(f"-l{library}" for library in (*libraries, "ggml", "ggml-base")), "-o", out)
    return out
