"""The results of `aiperf demo`: sealed bundles of real runs that this package has, and a small target measured here."""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from zipfile import ZipFile

from aiperf_core.errors import AiperfError, UsageError
from aiperf_core.names import words
from aiperf_core.results.filenames import MANIFEST

# Written by `benchmarks/demo_results.py`.
RESULTS = "demo_results.zip"
HERE = "measured-here"
LIVE = ("practice.softmax", "--device", "cpu", "--tier", "quick", "--budget", "5", "--quiet")
_AIPERF = (sys.executable, "-m", "aiperf_core")
_END_S = 30.0  # for an interrupted run to write what it measured
_LOG_LINES = 5

# What to look at afterwards: addresses of the dashboard, and what they show.
TOUR = (
    ("/", "the last runs, and whether anything got worse"),
    ("/live", "the run that goes on now"),
    ("/history", "each figure over all runs"),
    ("/compare", "two runs: what differs, and what became faster or slower"),
    ("/scaling", "how the time of a product of matrices grows with its size"),
    ("/pareto", "which implementations no other one beats"),
)


def checked(folder: Path) -> None:
    """Make the folder of the demo. Raises UsageError for a file and for a folder with entries."""
    name = words(str(folder))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        is_empty = not any(folder.iterdir())
    except (FileExistsError, NotADirectoryError):
        raise UsageError(f"'{name}' is a file; the demo needs a folder. Name a new one: aiperf demo FOLDER") from None
    except OSError as error:
        raise AiperfError(
            f"cannot make the folder '{name}': {error.strerror or error}. Name another: aiperf demo FOLDER"
        ) from error
    if not is_empty:
        raise UsageError(
            f"'{name}' is not empty; the demo needs a new or an empty folder. Name another: aiperf demo FOLDER. To "
            f"look at the results in this one: aiperf dashboard {name}"
        )


def unpack(folder: Path) -> int:
    """Put the bundles of the package into an empty folder: all of them or none. Returns their number.

    Raises AiperfError where they cannot be written.
    """
    name = words(str(folder))
    try:
        with tempfile.TemporaryDirectory(prefix=".demo-", dir=folder.parent) as parent:
            unpacked = Path(parent) / "bundles"
            with files("aiperf_analysis").joinpath(RESULTS).open("rb") as file, ZipFile(file) as archive:
                archive.extractall(unpacked)
            count = sum(1 for _ in unpacked.iterdir())
            unpacked.replace(folder)
    except OSError as error:
        raise AiperfError(
            f"cannot write the results of the demo to '{name}': {error.strerror or error}. Name another folder: aiperf "
            "demo FOLDER"
        ) from error
    return count


@contextmanager
def measuring(folder: Path) -> "Iterator[subprocess.Popen[bytes]]":
    """Measure a small target in a process of its own, which ends with the block and writes what it has measured.

    Raises AiperfError where it cannot start, and at the end of the block where it ended by itself without a bundle.
    """
    log = folder / f"{HERE}.log"
    command = [*_AIPERF, "run", *LIVE, "--out", str(folder / HERE)]
    try:
        with log.open("wb") as output:
            # Of its own session, so that Ctrl-C reaches it once, from here.
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
            )
    except OSError as error:
        raise AiperfError(f"cannot start aiperf run: {error.strerror or error}.") from error
    try:
        yield process
    finally:
        if stopped := process.poll() is None:
            _stop(process)
    if not stopped and not (folder / HERE / MANIFEST).exists():
        said = words(" ".join(log.read_text(errors="replace").splitlines()[-_LOG_LINES:]))
        raise AiperfError(
            f"aiperf run ended with {process.returncode} and left no bundle. It said: {said or 'nothing'}. Try it by "
            f"hand: aiperf run {' '.join(LIVE)}"
        )
    log.unlink()


def _stop(process: "subprocess.Popen[bytes]") -> None:
    """End a run, which gets time to write what it measured."""
    process.send_signal(signal.SIGINT)
    try:
        process.wait(_END_S)
    except (subprocess.TimeoutExpired, KeyboardInterrupt):
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
