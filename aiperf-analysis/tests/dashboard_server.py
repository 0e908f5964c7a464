"""The dashboard's real server process, for tests."""

import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from attrs import frozen


@frozen
class Served:
    """A running server: its address, its process, and the file with its output of errors."""

    address: str
    process: subprocess.Popen
    errors: Path

    def settle(self) -> None:
        """Wait until the overview is whole: until then, a browser loads its pages again by itself."""
        while True:
            with urllib.request.urlopen(self.address) as answer:
                if "refresh" not in answer.headers:
                    return
            time.sleep(0.05)

    def faults(self) -> str:
        """What it wrote to its output of errors."""
        return self.errors.read_text()


@contextmanager
def served(folder: Path, errors: Path, *options: str) -> Iterator[Served]:
    """Serve a folder on a free port, and stop the server at the end.

    errors: the file that gets the server's output of errors; it must not be in `folder`.
    """
    command = [sys.executable, "-m", "aiperf_core", "dashboard", str(folder), "--port", "0", *options]
    with (
        errors.open("wb") as file,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=file, stdin=subprocess.DEVNULL, text=True) as process,
    ):
        try:
            yield Served(_address(process, errors), process, errors)
        finally:
            process.terminate()
            process.wait(10)


def _address(process: subprocess.Popen, errors: Path) -> str:
    said = ""
    for line in process.stdout:
        said += line
        found = re.search(r"http://127\.0\.0\.1:\d+", line)
        if found:
            return found[0]
    raise AssertionError(f"the server ended without an address: {said}{errors.read_text()}")
