"""The runs of `aiperf demo`: small targets on the CPU, so that every page of the dashboard has something to show."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from attrs import frozen

from aiperf_analysis.history.judged import LEAST
from aiperf_core.errors import AiperfError, UsageError
from aiperf_core.names import words
from aiperf_core.results.filenames import MANIFEST

# No run starts that would, after the longest run so far, end later than this, and one that takes longer is stopped: two
# minutes hold on slow machines too.
LIMIT_S = 105.0
_END_S = 30.0  # for an interrupted run to write what it measured
_LOG_LINES = 5
_AIPERF = (sys.executable, "-m", "aiperf_core")
_QUICK = ("--device", "cpu", "--tier", "quick", "--budget", "0.3", "--quiet")

# What to look at afterwards: addresses of the dashboard, and what they show.
TOUR = (
    ("/", "the last runs, and whether anything got worse"),
    ("/history", "each figure over all runs"),
    ("/compare", "two runs: what differs, and what became faster or slower"),
    ("/scaling", "how the time of a product of matrices grows with its size"),
    ("/pareto", "which implementations no other one beats"),
)


@frozen
class Step:
    """A run of the demo: the name of its bundle, what it measures, and the arguments of `aiperf run`."""

    name: str
    about: str
    arguments: tuple[str, ...]


PLAN: tuple[Step, ...] = (
    Step("sizes", "a product of matrices at four sizes", ("practice.matmul", "--set", "m=64,128,256,512", *_QUICK)),
    Step("all", "three small targets", ("practice.*", *_QUICK)),
    # A history needs LEAST runs of a target. The run above is the first of them.
    *(Step(f"run-{number}", "one target again", ("practice.softmax", *_QUICK)) for number in range(2, LEAST + 1)),
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


def measure(folder: Path, say: Callable[[str], None], plan: Sequence[Step], limit_s: float = LIMIT_S) -> int:
    """Run the plan, and say what was done. Returns the number of whole runs.

    A run that the limit stops is kept as far as it came.

    Raises AiperfError for a run that leaves no bundle, and KeyboardInterrupt after Ctrl-C, when the run that was going
    on has written what it measured.
    """
    began = time.monotonic()
    longest = 0.0
    for number, step in enumerate(plan, start=1):
        start = time.monotonic()
        left_s = began + limit_s - start
        if longest > left_s or not _run(folder, step, left_s):
            say(f"The time is up after {number - 1} of {len(plan)} runs: this machine is slow or busy.")
            return number - 1
        took_s = time.monotonic() - start
        longest = max(longest, took_s)
        say(f"  {number} of {len(plan)}  {step.name}: {step.about}, {took_s:.0f} s")
    return len(plan)


def _run(folder: Path, step: Step, left_s: float) -> bool:
    """One run as a process of its own: whether it ended within the time. Its output is kept where it left no bundle."""
    log = folder / f"{step.name}.log"
    command = [*_AIPERF, "run", *step.arguments, "--out", str(folder / step.name)]
    try:
        with log.open("wb") as output:
            # Of its own session, so that Ctrl-C reaches it once, from here.
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
            )
            code = _waited(process, left_s)
    except OSError as error:
        raise AiperfError(f"cannot start aiperf run: {error.strerror or error}.") from error
    if code is not None and not (folder / step.name / MANIFEST).exists():
        said = words(" ".join(log.read_text(errors="replace").splitlines()[-_LOG_LINES:]))
        raise AiperfError(
            f"aiperf run ended with {code} and left no bundle. It said: {said or 'nothing'}. Try it by hand: "
            f"aiperf run {' '.join(step.arguments)}"
        )
    log.unlink()
    return code is not None


def _waited(process: "subprocess.Popen[bytes]", left_s: float) -> int | None:
    """The exit code of a run; None for one that took too long. It is then stopped, as after Ctrl-C."""
    try:
        return process.wait(left_s)
    except subprocess.TimeoutExpired:
        _stop(process)
        return None
    except KeyboardInterrupt:
        _stop(process)
        raise


def _stop(process: "subprocess.Popen[bytes]") -> None:
    """End a run, which gets time to write what it measured."""
    process.send_signal(signal.SIGINT)
    try:
        process.wait(_END_S)
    except (subprocess.TimeoutExpired, KeyboardInterrupt):
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
