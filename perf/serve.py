#!/usr/bin/env python3
"""The server in numbers, each as a ratio of what ran in turns in the same minutes.

    tools/build release lapidary && perf/serve.py [TEST...] [--rounds 5] [--model DIR] [--peer-models e2b,26b-a4b]

| test | |
|---|---|
| one | one stream against `lapidary generate`: tokens per second, time to the first token |
| streams | 1, 2, 4, 8 and 16 streams together, drafts chosen by the server against none |
| silence | the longest silence of a stream while somebody's full-context prompt is read, against rounds and chunks |
| first | time to the first token of a short prompt while 7 streams decode, against alone |
| burst | one stream right after 16, against before them |
| peers | 1, 4 and 8 streams against llama.cpp's server, on random weights; not run unless named (it builds that server and writes models) |

Every line says for which share of the time the server's threads were ready but had no processor: above a few percent something else ran
on this machine, and the line says little.
"""
import argparse
import contextlib
import json
import pathlib
import random
import re
import socket
import statistics
import subprocess
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests/serve"))
from peer import compare  # noqa: E402
from support import PEBBLE, Server, ask, wait_for  # noqa: E402

BUILD = ROOT / "build/release"
THREADS = 2  # that compute, on a machine with two cores
CONTEXT = 2048
STORY = "Tell me a story."
TEXT = re.compile(rb'"(?:content|text|reasoning_content)":"(?=[^"])')


class Stream(threading.Thread):
    """A streamed request. Nothing is read out of it before it ends: what measures takes time from what is measured."""

    def __init__(self, port, path, body):
        super().__init__(daemon=True)
        body = json.dumps({**body, "stream": True, "stream_options": {"include_usage": True}})
        self.request = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()
        self.port, self.parts, self.first, self.failure = port, [], threading.Event(), None

    def run(self):
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=600) as connection:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self.begin = time.perf_counter()
                connection.sendall(self.request)
                while part := connection.recv(1 << 16):
                    self.parts.append((time.perf_counter(), part))
                    if not self.first.is_set() and TEXT.search(part):
                        self.first_s = time.perf_counter() - self.begin
                        self.first.set()
        except OSError as error:
            self.failure = error
        self.first.set()

    def end(self):
        """Waits for it, and counts its tokens."""
        self.join()
        text = b"".join(part for _, part in self.parts)
        tokens = re.findall(rb'"completion_tokens":(\d+)', text)
        if self.failure or b" 200 " not in text[:20] or not tokens:
            sys.exit(f"[serve.py] a stream, expected one with its usage, got {self.failure or text[-500:]}")
        self.tokens = int(tokens[-1])
        self.end_s = self.parts[-1][0]
        return self

    def times(self):
        """When parts of the answer came."""
        return [moment for moment, part in self.parts if TEXT.search(part)]


class Noise:
    """Shares of the time that threads of servers were ready to run but had no processor."""

    def __init__(self):
        self.shares = []

    @contextlib.contextmanager
    def around(self, server):
        begin, before = time.monotonic(), sum(compare.waits_s(server.process.pid).values())
        yield
        waited = sum(compare.waits_s(server.process.pid).values()) - before
        self.shares.append(waited / THREADS / (time.monotonic() - begin))

    def __str__(self):
        return f"{100 * statistics.median(self.shares):.0f} % waited for a processor"


def chat(server, content=STORY, tokens=120, **fields):
    return Stream(server.port, "/v1/chat/completions",
                  {"messages": [{"role": "user", "content": content}], "max_tokens": tokens, "temperature": 0.8, **fields})


def play(streams):
    """Tokens per second of all together."""
    for stream in streams:
        stream.start()
    for stream in streams:
        stream.end()
    begin = min(stream.begin for stream in streams)
    return sum(stream.tokens for stream in streams) / (max(stream.end_s for stream in streams) - begin)


def start(arguments, sessions, *flags, context=CONTEXT):
    return Server(BUILD, "--sessions", sessions, "--context", context, "--prefix-cache", "off", *flags, model=arguments.model)


def median_of(values):
    return statistics.median(values)


def one(arguments):
    """Server and command line in turns; the server is idle meanwhile. Both without drafts: those vary with what was learnt before."""
    speeds, firsts, noise = {"serve": [], "generate": []}, {"serve": [], "generate": []}, Noise()
    with start(arguments, 1, "--draft-kind", "none") as server:
        for number in range(arguments.rounds + 1):
            stream = chat(server, seed=number, tokens=200)
            with noise.around(server):
                play([stream])
            times = stream.times()
            done = subprocess.run([BUILD / "lapidary", "generate", STORY, "--model", arguments.model, "--json", "--quiet", "--seed", str(number), "--context",
                                   str(CONTEXT), "--max-tokens", "200", "--temperature", "0.8", "--draft-kind", "none"], check=True, capture_output=True, text=True)
            stats = json.loads(done.stdout)["stats"]
            if number:  # the first of each is not counted
                speeds["serve"].append((stream.tokens - 1) / (times[-1] - times[0]))
                speeds["generate"].append(stats["decode_tok_s"])
                firsts["serve"].append(stream.first_s)
                firsts["generate"].append(stats["first_token_s"])
    ratio = median_of(speeds["serve"]) / median_of(speeds["generate"])
    later_ms = 1e3 * (median_of(firsts["serve"]) - median_of(firsts["generate"]))
    print(f"one stream: {median_of(speeds['serve']):.1f} tok/s, {ratio:.3f} of generate (goal 0.98 where a round takes 5 ms); "
          f"first token {1e3 * median_of(firsts['serve']):.1f} ms, {later_ms:+.1f} ms (goal +5); {noise}")


def streams(arguments):
    with start(arguments, 16) as auto, start(arguments, 16, "--draft-kind", "none") as none:
        servers = {"auto": auto, "none": none}
        for count in (1, 2, 4, 8, 16):
            speeds, noise = {name: [] for name in servers}, Noise()
            for number in range(arguments.rounds + 1):
                for name, server in servers.items():
                    with noise.around(server):
                        speed = play([chat(server, seed=100 * number + i) for i in range(count)])
                    if number:
                        speeds[name].append(speed)
            ratio = median_of([auto / none for auto, none in zip(speeds["auto"], speeds["none"])])  # of the same seeds: texts end where they like
            print(f"{count:2} streams: {median_of(speeds['none']):6.1f} tok/s without drafts, {median_of(speeds['auto']):6.1f} with, "
                  f"{ratio:.2f} (goal 0.98); {noise}", flush=True)


def silence(arguments):
    context = 8192 if pathlib.Path(arguments.model) == PEBBLE else CONTEXT
    with start(arguments, 4, context=context) as server:
        filler = "word " * 64
        size = len(json.loads(ask(server.port, "POST", "/tokenize", {"content": filler})[1])["tokens"])
        gaps, quiet_gaps, prompts, noise = [], [], [], Noise()
        for number in range(arguments.rounds):
            watched = [chat(server, seed=i, tokens=context // 2) for i in range(3)]
            for stream in watched:
                stream.start()
            for stream in watched:
                stream.first.wait()
            time.sleep(1)
            long = chat(server, content=f"{number} " + filler * ((context - 100) // size), tokens=1)
            began = time.perf_counter()
            with noise.around(server):
                play([long])
            ended = time.perf_counter()
            prompts.append(ended - began)
            for stream in watched:
                stream.end()
                times = stream.times()
                pairs = list(zip(times, times[1:]))
                gaps.append(max((later - earlier for earlier, later in pairs if later > began and earlier < ended), default=0))
                quiet_gaps += [later - earlier for earlier, later in pairs if later < began]
    print(f"silence: at most {1e3 * max(gaps):.0f} ms (median of the longest {1e3 * median_of(gaps):.0f}) for 3 streams while a prompt of {context - 100} tokens is read, "
          f"which takes {median_of(prompts):.1f} s; a round of theirs {1e3 * median_of(quiet_gaps):.1f} ms; {noise}")


def first(arguments):
    firsts, turns, noise = {"alone": [], "among 7": []}, [], Noise()
    with start(arguments, 8) as server:
        for number in range(arguments.rounds + 1):
            alone = chat(server, content="Hello", tokens=1, seed=number)
            play([alone])
            others = [chat(server, seed=i, tokens=1500) for i in range(7)]
            for stream in others:
                stream.start()
            for stream in others:
                stream.first.wait()
            time.sleep(0.5)
            among = chat(server, content="Hello", tokens=1, seed=number)
            began = time.perf_counter()
            with noise.around(server):
                play([among])
            for stream in others:
                stream.end()
            if number:
                firsts["alone"].append(alone.first_s)
                firsts["among 7"].append(among.first_s)
                times = [moment for moment in others[0].times() if began - 0.4 < moment < began]
                turns += [later - earlier for earlier, later in zip(times, times[1:])]
    alone, among, turn = median_of(firsts["alone"]), median_of(firsts["among 7"]), median_of(turns)
    print(f"first token of a short prompt: {1e3 * alone:.1f} ms alone, {1e3 * among:.1f} ms while 7 decode: {(among - alone) / turn:.2f} turns of {1e3 * turn:.1f} ms more (goal 1.5); {noise}")


def burst(arguments):
    """The same text before and after: what was learnt in company must not be held against who is alone."""
    ratios, noise = [], Noise()
    with start(arguments, 16) as server:
        for number in range(arguments.rounds + 1):
            with noise.around(server):
                before = play([chat(server, seed=number)])
                play([chat(server, seed=100 + i) for i in range(16)])
                after = play([chat(server, seed=number)])
            if number:
                ratios.append(after / before)
    print(f"one stream after 16: {median_of(ratios):.2f} of before ({', '.join(f'{ratio:.2f}' for ratio in sorted(ratios))}); {noise}")


# ---- against llama.cpp

@contextlib.contextmanager
def peer_server(program, model, count, tokens):
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    command = [program, "-m", model, "-t", "2", "-np", str(count), "-c", str(count * tokens), "--host", "127.0.0.1", "--port", str(port), "--no-warmup"]
    process = subprocess.Popen([str(part) for part in command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def ready():
        if process.poll() is not None:
            sys.exit(f"[serve.py] {program}, expected a server, got exit status {process.returncode}")
        with contextlib.suppress(OSError):
            return ask(port, "GET", "/health")[0] == 200
    try:
        wait_for("llama.cpp's server", ready, 300)
        yield port
    finally:
        process.terminate()
        process.wait()


def completions(port, count, tokens, dice, **fields):
    """Prompts by ids, of which each is another's; no token that ends a text is taken."""
    ends = {str(token): -100 for token in (1, 50, 106)}
    return [Stream(port, "/v1/completions", {"prompt": [2, *(dice.randrange(1000, 200000) for _ in range(31))], "max_tokens": tokens, "temperature": 1.0,
                                             "seed": i, "logit_bias": ends, **fields}) for i in range(count)]


def peers(arguments):
    program, context, tokens = compare.build_peer(arguments.cache, "llama-server"), 256, 64
    for model in arguments.peer_models.split(","):
        folder = arguments.cache / "models" / model
        folder.mkdir(parents=True, exist_ok=True)
        for name in compare.FORMATS.values():
            if not (folder / name).exists():
                compare.call(sys.executable, ROOT / "perf/random_model.py", model, folder / name, "--format", name)
        for count, goal in ((1, 1.8), (4, 2.0), (8, 2.0)):
            speeds = {"lapidary": [], "llama.cpp": []}
            for number in range(arguments.rounds):
                dice = random.Random(number)
                for side in speeds:  # one at a time: both in memory would share its pages
                    checkpoint = folder / compare.FORMATS[side]
                    compare.make_resident(checkpoint, [folder / name for name in compare.FORMATS.values() if folder / name != checkpoint])
                    with contextlib.ExitStack() as stack:
                        if side == "lapidary":
                            port = stack.enter_context(Server(BUILD, "--sessions", count, "--context", context, "--numeric", "fast", "--prefix-cache", "off",
                                                              model=checkpoint)).port
                        else:
                            port = stack.enter_context(peer_server(program, checkpoint, count, context))
                        play(completions(port, count, tokens, dice))  # so that most experts have been touched
                        speeds[side].append(play(completions(port, count, tokens, dice)))
                    print(f"{model}, {count} streams, {number + 1}, {side}: {speeds[side][-1]:.1f} tok/s", file=sys.stderr, flush=True)
            ours, theirs = median_of(speeds["lapidary"]), median_of(speeds["llama.cpp"])
            print(f"{model}, {count} streams: {ours:.1f} tok/s, llama.cpp {theirs:.1f}, {ours / theirs:.2f} (goal {goal})", flush=True)


TESTS = {"one": one, "streams": streams, "silence": silence, "first": first, "burst": burst, "peers": peers}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tests", nargs="*", default=["one", "streams", "silence", "first", "burst"], metavar="TEST")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--model", default=str(PEBBLE))
    parser.add_argument("--peer-models", default="e2b,26b-a4b")
    parser.add_argument("--cache", type=pathlib.Path, default=pathlib.Path("~/.cache/lapidary-perf").expanduser())
    arguments = parser.parse_args()
    for name in arguments.tests:
        if name not in TESTS:
            parser.error(f"TEST, expected some of {', '.join(TESTS)}, got {name}")
        TESTS[name](arguments)


if __name__ == "__main__":
    main()
