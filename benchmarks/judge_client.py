"""What the benchmarks of `aiperf judge` share: the service, other work on the machine, and a file of lines."""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from aiperf_core.errors import AiperfError

START_S = 120.0
# A process of the other work: arithmetic, then copies of a block that no cache holds.
_WORK = """
block = bytes(64 << 20)
while True:
    for _ in range(300_000):
        pass
    bytearray(block)
"""


class Service:
    """`aiperf judge --serve` for a target, as a user starts it. Use as a context manager: leaving it ends the process.

    cache: the folder with its quarantine and the ceilings of the machine, which are measured once.
    """

    def __init__(self, target: str, cache: Path, *options: str) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="aiperf-judge-benchmark-")
        self._socket, self._log = (Path(self._folder.name, name) for name in ("judge.sock", "log"))
        command = [sys.executable, "-m", "aiperf_core", "judge", "--serve", str(self._socket), "--target", target]
        environment = {**os.environ, "AIPERF_CACHE_DIR": str(cache.resolve())}
        with self._log.open("w") as log:
            out = ("--out", str(Path(self._folder.name, "bundles")))
            self._process = subprocess.Popen(
                [*command, *out, *options], env=environment, stdout=log, stderr=subprocess.STDOUT
            )

    def __enter__(self) -> Self:
        self._connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        until = time.monotonic() + START_S
        while True:
            try:
                self._connection.connect(str(self._socket))
                break
            except OSError:
                if self._process.poll() is not None or time.monotonic() > until:
                    raise AiperfError(f"the service did not start: {self._log.read_text().strip()}") from None
                time.sleep(0.01)
        self._lines = self._connection.makefile("rb")
        return self

    def judge(self, code: str) -> dict[str, Any]:
        """The answer to a candidate's text. Raises `AiperfError` where the service has ended."""
        self._connection.sendall(json.dumps({"code": code}).encode() + b"\n")
        line = self._lines.readline()
        if not line:
            raise AiperfError(f"the service ended: {self._log.read_text().strip()}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def __exit__(self, *_: object) -> None:
        self._lines.close()
        self._connection.close()
        self._process.send_signal(signal.SIGTERM)
        self._process.wait()
        self._folder.cleanup()


@contextmanager
def other_work(processes: int) -> Iterator[None]:
    """Keep processors and memory busy meanwhile."""
    started = [subprocess.Popen([sys.executable, "-c", _WORK]) for _ in range(processes)]
    try:
        yield
    finally:
        for one in started:
            one.kill()
            one.wait()


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The objects of a file with one a line; none where there is no file."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def append(path: Path, line: dict[str, Any]) -> None:
    """Append an object to such a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab", buffering=0) as file:  # in one write, so that no interruption leaves half a line
        file.write(f"{json.dumps(line)}\n".encode())
