"""Program of a task on its machine: `python -m aiperf_fleet.machine ORDER`, with the order as JSON.

It checks that the machine is fit, runs `aiperf run` in a folder of its own, and delivers the bundle in one file. The
exit code is 0 if an outcome was delivered, whatever it is. Nothing but the delivered file leaves the machine.
"""

import json
import os
import subprocess
import sys
import tempfile
from contextlib import suppress
from fnmatch import fnmatchcase
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from threading import Thread
from typing import IO

from attrs import asdict, field, frozen

from aiperf_core.devices.fitness import Busy, NotFitError, busy, lock
from aiperf_core.errors import AiperfError
from aiperf_core.fleet import MACHINE_VARIABLE, RESULT_VARIABLE
from aiperf_core.harness.processes.parent import end_child_with_this, end_with_parent
from aiperf_core.results import jsontext, structure
from aiperf_core.results.filenames import MANIFEST
from aiperf_core.results.machine import kinds
from aiperf_fleet import delivery
from aiperf_fleet.delivery import Outcome
from aiperf_fleet.records import Ending

_PRINT_S = 5.0


@frozen
class Order:
    """Order of a task to a machine.

    arguments: of `aiperf run`, without the folder. versions: the version that each distribution must have.
    kind: a pattern of the kind of hardware. device: for which device the kind counts. limits: when it is too busy.
    patience_s: how long it waits for space where the folder to which it delivers is full.
    """

    arguments: list[str]
    versions: dict[str, str] = field(factory=dict)
    kind: str | None = None
    device: str | None = None
    limits: Busy = field(factory=Busy)
    patience_s: float = 0.0


def to_text(order: Order) -> str:
    """An order as one argument."""
    return json.dumps(asdict(order))


def main(text: str) -> None:
    """Carry an order out, and deliver. Raises SystemExit where there is nothing to deliver, or it cannot be written."""
    end_with_parent()  # no task outlives the process of an engine, whatever that is
    order: Order = structure.structure(jsontext.loads(text.encode()), Order)
    result = Path(os.environ[RESULT_VARIABLE])
    with tempfile.TemporaryDirectory(prefix="aiperf-fleet-") as folder:
        bundle = Path(folder) / "bundle"
        try:
            outcome = _outcome(order, bundle)
        except AiperfError as error:
            raise SystemExit(str(error)) from error
        kept = bundle if outcome.ending is Ending.DONE else None
        try:
            delivery.write(result, outcome, kept, patience_s=order.patience_s)
        except OSError as error:
            # Python prints it on stderr, and exits with 1.
            raise SystemExit(f"cannot deliver to '{result}': {error.strerror or error}") from error


def _outcome(order: Order, bundle: Path) -> Outcome:
    if found := never_fit(order):
        return Outcome(Ending.UNFIT, reason=found, lasting=True)
    try:
        with lock(order.limits.wait_s):
            if reasons := busy(order.limits):
                return Outcome(Ending.UNFIT, reason=f"the machine is too busy to measure: {'; '.join(reasons)}")
            return measure(order, bundle)
    except NotFitError as error:
        return Outcome(Ending.UNFIT, reason=str(error))


def never_fit(order: Order) -> str:
    """Why this machine can never do it: another kind, or other versions; empty where it can."""
    if order.kind is not None and not any(fnmatchcase(one, order.kind) for one in kinds(order.device)):
        there = " or ".join(kinds(order.device))
        return f"the machine is of the kind {there}; its class demands '{order.kind}'"
    for name, wanted in order.versions.items():
        try:
            found = version(name)
        except PackageNotFoundError:
            found = "missing"
        if found != wanted:
            return f"{name} is {found} on the machine and {wanted} where the fleet was started"
    return ""


def measure(order: Order, bundle: Path) -> Outcome:
    """Run `aiperf run`; its output goes to that of the task, as far as there is space for it."""
    machine = os.environ.get(MACHINE_VARIABLE, "unknown")
    command = [sys.executable, "-m", "aiperf_core", *order.arguments, "--label", f"machine={machine}"]
    process = subprocess.Popen(
        [*command, "--out", str(bundle)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        close_fds=False,  # it holds the lock of the host, too
        preexec_fn=end_child_with_this(),
    )
    assert process.stdout is not None
    copying = Thread(target=_copy, args=[process.stdout], daemon=True)
    copying.start()
    code = process.wait()
    # A process that the run left behind may hold the pipe.
    copying.join(_PRINT_S)
    if (bundle / MANIFEST).exists() and code >= 0:
        return delivery.outcome_of(bundle, code)
    return Outcome(Ending.FAILED, code, reason=f"aiperf run ended with {code} and left no bundle")


def _copy(printed: IO[bytes]) -> None:
    """Print what the run prints. The log may lie in a shared folder that is full, which must not end the run."""
    with printed:
        for line in printed:
            with suppress(OSError):
                os.write(1, line)


if __name__ == "__main__":
    main(sys.argv[1])
