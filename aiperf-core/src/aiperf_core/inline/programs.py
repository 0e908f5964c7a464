"""Two programs compared as two functions are: in turns, each run a sample."""

import subprocess
from collections.abc import Callable

from attrs import evolve

from aiperf_core.devices.device import CPU
from aiperf_core.errors import AiperfError
from aiperf_core.inline.compare import Compared, Pair
from aiperf_core.inline.sampling import Sampler

NOT_PROVEN = "Each run starts a shell. Outputs were not compared, only exit codes."


def compare_programs(first: str, second: str, *, prepare: str | None, budget_s: float, floor: float) -> Compared:
    """Compare the time of a second command of the shell with that of a first.

    prepare: a command that runs before each run of either, outside of all times.

    Raises AiperfError for a command that ends with an exit code other than 0.
    """
    sides = (_runner(first), _runner(second))
    names = (first, second) if first != second else (f"{first} (first)", f"{second} (second)")
    pair = Pair(names, sides, tolerance=None, checker=None)
    before = _runner(prepare) if prepare else None
    sampler = Sampler(pair.sides, None, CPU.resolve(), budget_s, single=True, before=before)
    return evolve(pair.measured(sampler, floor), proof=NOT_PROVEN)


def _runner(command: str) -> Callable[[], None]:
    """A function that runs a command and waits for its end."""

    def run() -> None:
        # A program that reads its input would wait for the terminal.
        ended = subprocess.run(
            command,
            shell=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            check=False,
        )
        if ended.returncode:
            said = ended.stderr.decode(errors="replace").strip().splitlines()
            last = f": {said[-1]}" if said else ""
            raise AiperfError(f"'{command}' ended with exit code {ended.returncode}{last}")

    return run
