"""How long `aiperf list` takes, beside the imports that it cannot do without.

    python benchmarks/list_speed.py [ROUNDS]

Both are started in turn, so that a change of the machine's pace meets both. Ends with 1 when the ratio of the medians
is over the limit. Both run from compiled bytecode, as installed packages do.
"""

import os
import pty
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

LIMIT = 2.5

IMPORTS = [sys.executable, "-c", "import click, rich, attrs, pluggy"]
LIST = [sys.executable, "-c", "from aiperf_core.cli.main import main; main()", "list"]

# Where PYTHONDONTWRITEBYTECODE is set, a package run from its source would be compiled anew in every round.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def piped(command: list[str]) -> None:
    """Run a command whose output nobody sees."""
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=ENVIRONMENT)


def in_terminal(command: list[str]) -> None:
    """Run a command whose output goes to a terminal."""
    ours, theirs = pty.openpty()
    subprocess.run(command, check=True, stdout=theirs, env=ENVIRONMENT)
    os.close(theirs)
    os.close(ours)


def seconds(run: Callable[[list[str]], None], command: list[str]) -> float:
    """Return the wall time of one run."""
    start = time.perf_counter()
    run(command)
    return time.perf_counter() - start


def main(rounds: int) -> int:
    """Measure, print and return the exit code."""
    rows = {"imports": (piped, IMPORTS), "aiperf list | cat": (piped, LIST), "aiperf list": (in_terminal, LIST)}
    times: dict[str, list[float]] = {name: [] for name in rows}
    for _ in range(rounds + 1):
        for name, row in rows.items():
            times[name].append(seconds(*row))
    medians = {
        name: statistics.median(found[1:]) for name, found in times.items()
    }  # the first round fills the caches of disk and bytecode
    print(f"{'':17}  median   fastest  ratio of medians   ({rounds} rounds)")
    for name, found in times.items():
        ratio = medians[name] / medians["imports"]
        print(f"{name:17}  {medians[name] * 1e3:4.0f} ms  {min(found[1:]) * 1e3:4.0f} ms  {ratio:.2f}")
    return int(max(medians.values()) > LIMIT * medians["imports"])


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 20))
