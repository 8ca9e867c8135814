"""What the tests of a running server share: `lapidary serve` as a process, requests, and counting as tools/check reads it."""
import http.client
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
PEBBLE = ROOT / "models/pebble"
SKIPPED = 77  # the exit status of a test that cannot run here
PATIENCE_S = 60  # until something that must happen is taken for something that does not


def skip(what):
    print(f"[{pathlib.Path(sys.argv[0]).name}] skipped: {what}")
    sys.exit(SKIPPED)


def wait_for(what, condition, patience_s=PATIENCE_S):
    """What `condition` returns, as soon as it is true."""
    end = time.monotonic() + patience_s
    while not (got := condition()):
        if time.monotonic() > end:
            raise TimeoutError(f"{what}, expected within {patience_s} s, got {got!r}")
        time.sleep(0.02)
    return got


class Tests:
    """Functions that were marked, run one after the other; the last line is `N passed, N failed`."""

    def __init__(self):
        self.tests, self.passed, self.failed = [], 0, 0

    def __call__(self, test):
        self.tests.append(test)
        return test

    def run(self, *arguments, only=""):
        for test in self.tests:
            name = test.__name__.replace("_", " ")
            if only not in name:
                continue
            try:
                test(*arguments)
                self.passed += 1
            except Exception as error:
                frame = error.__traceback__
                while frame.tb_next and frame.tb_next.tb_frame.f_code.co_filename == test.__code__.co_filename:
                    frame = frame.tb_next
                print(f"FAILED {name}, line {frame.tb_lineno}: {type(error).__name__} {error}", flush=True)
                self.failed += 1
        print(f"{self.passed} passed, {self.failed} failed")
        sys.exit(1 if self.failed or not self.passed else 0)


def same(what, expected, got):
    if expected != got:
        raise AssertionError(f"{what}, expected {expected!r}, got {got!r}")


class Server:
    """A process of `lapidary serve` on a free port of this machine."""

    def __init__(self, build, *flags, model=PEBBLE, port=0, environment=None, on_line=None):
        command = [str(pathlib.Path(build) / "lapidary"), "serve", "--model", str(model), "--port", str(port), *map(str, flags)]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ, **(environment or {})})
        self.lines, self.port, self.on_line = [], None, on_line or (lambda line: None)
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()
        try:
            wait_for("a line that says where the server listens", lambda: self.port or self.process.poll() is not None)
        except TimeoutError:
            self.stop()
            raise
        if not self.port:
            raise RuntimeError(f"{' '.join(command)}, expected a server, got exit status {self.process.returncode}\n" + "\n".join(self.lines))

    def _read(self):
        for line in self.process.stderr:
            self.lines.append(line.rstrip("\n"))
            self.on_line(self.lines[-1])
            if found := re.search(r"listening on http://[^ ]*:(\d+)", line):
                self.port = int(found[1])
            del self.lines[:-1000]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self, number=signal.SIGTERM):
        """Ends it, in peace by default, and returns its exit status."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.wait()

    def wait(self):
        """Its exit status, when it has ended."""
        try:
            return self.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise

    @property
    def address(self):
        return f"http://127.0.0.1:{self.port}"

    def ask(self, method, path, body=None, headers=None):
        """Status and text of an answer."""
        return ask(self.port, method, path, body, headers)

    def get(self, path):
        status, text = self.ask("GET", path)
        same(f"status of {path}", 200, status)
        return json.loads(text)

    def chat(self, content, **fields):
        status, text = self.ask("POST", "/v1/chat/completions", {"messages": [{"role": "user", "content": content}], **fields})
        same(f"status of {text[:200]}", 200, status)
        return json.loads(text)

    def metrics(self):
        """Every sample by its name, labels included."""
        status, text = self.ask("GET", "/metrics")
        same("status of /metrics", 200, status)
        samples = (line.rsplit(" ", 1) for line in text.splitlines() if line and not line.startswith("#"))
        return {name: float(value) for name, value in samples}

    def wait_until_idle(self, patience_s=PATIENCE_S):
        def idle():
            return not any(slot["is_processing"] for slot in self.get("/slots"))
        wait_for("slots that are idle", idle, patience_s)


def ask(port, method, path, body=None, headers=None):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    try:
        text = body if body is None or isinstance(body, (str, bytes)) else json.dumps(body)
        connection.request(method, path, text, {"Content-Type": "application/json", **(headers or {})})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def venv(build, *packages):
    """The Python of a private environment that has them."""
    folder = pathlib.Path(build).resolve().parent / "venv"
    python, receipt = folder / "bin/python", folder / "packages"
    wanted = "\n".join(sorted(packages))
    if not receipt.exists() or receipt.read_text() != wanted:
        shutil.rmtree(folder, ignore_errors=True)
        for command in ([sys.executable, "-m", "venv", folder], [python, "-m", "pip", "install", "-q", *packages]):
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                skip(f"{' '.join(map(str, command))}, expected exit status 0, got {done.stderr.strip()[-200:]}")
        receipt.write_text(wanted)
    return python
