"""Machines that measure nothing: `aiperf run` is left out, and a sealed bundle of made-up times is delivered.

As a program it stands for `python -m aiperf_fleet.machine`, and does all else that this does. `$STUB` is a folder. A file `die.TARGET`
there kills the task once, `unfit.MACHINE` hands all tasks back, `fail.TARGET` leaves no bundle, `hold` lets tasks wait until it is gone,
`slow.MACHINE` has the factor of that machine's times, and `late.TARGET` the seconds after which, once, the delivered file appears in its
folder, as in a shared folder that is slow. Each start adds a line to `started`, each try to deliver one to `tries`.
"""

import os
import random
import signal
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

from attrs import asdict, evolve

from aiperf_core.fleet import MACHINE_VARIABLE, RESULT_VARIABLE
from aiperf_core.results import example
from aiperf_core.results.bundle import Bundle
from aiperf_fleet import delivery, machine
from aiperf_fleet.delivery import Outcome
from aiperf_fleet.records import Ending

STUB = "STUB"


def main(order):
    """Do what the folder says, within the test's own process; the exit code."""
    with tempfile.TemporaryDirectory() as folder:
        found = measured(order, Path(folder) / "bundle")
        if found is None:
            return -signal.SIGKILL
        bundle = Path(folder) / "bundle" if found.ending is Ending.DONE else None
        delivery.write(Path(os.environ[RESULT_VARIABLE]), found, bundle)
    return 0


def measured(order, bundle):
    """The outcome, with its bundle; None for a task that is to be killed."""
    stub, name = Path(os.environ[STUB]), os.environ[MACHINE_VARIABLE]
    target = order["arguments"][1]
    with open(stub / "started", "a") as file:
        file.write(f"{target} {name}\n")
    while (stub / "hold").exists():
        time.sleep(0.02)
    if (stub / f"die.{target}").exists():
        (stub / f"die.{target}").unlink()
        return None
    if (stub / f"unfit.{name}").exists():
        lasting = (stub / f"unfit.{name}").read_text() == "lasting"
        return Outcome(Ending.UNFIT, reason="made up", lasting=lasting)
    if (stub / f"fail.{target}").exists():
        return Outcome(Ending.FAILED, 2, reason="no such target")
    return delivery.outcome_of(made(bundle, target, stub, name, labels_of(order)), 0)


def labels_of(order):
    """The labels that the bundle is to have."""
    words = order["arguments"]
    return dict(words[place + 1].split("=", 1) for place, word in enumerate(words) if word == "--label")


def made(path, target, stub, machine, labels):
    """A bundle with the times of this machine."""
    slow = stub / f"slow.{machine}"
    # The same noise in each run of the tests.
    factor = (float(slow.read_text()) if slow.exists() else 1.0) * random.Random(target + machine).gauss(1, 0.01)
    bundle = Bundle.create_at(path)
    rows = [
        example.row("strided", "baseline", example.Verdict.MEASURED, 5.2e-3 * factor, kind="naive"),
        example.row("wide", "variant", example.Verdict.FASTER, 0.6e-3 * factor, 8.7),
    ]
    bundle.write_target(evolve(example.result(), target=target, rows=rows))
    bundle.write_manifest(evolve(example.manifest(), exit_code=0, labels={**labels, "machine": machine}))
    return path


# --- as a program


def carried_out(order, bundle):
    """In place of `machine.measure`."""
    found = measured(asdict(order), bundle)
    if found is None:
        os.kill(os.getpid(), signal.SIGKILL)
    late = Path(os.environ[STUB]) / f"late.{order.arguments[1]}"
    if late.exists():
        seconds = float(late.read_text())
        late.unlink()
        delivery.write = partial(deliver_later, seconds, delivery.write)
    return found


def deliver_later(seconds, write, *given, **more):
    """Deliver after the end of this process, by its child, to which it leaves the bundle."""
    if os.fork():
        os._exit(0)
    os.setsid()
    time.sleep(seconds)
    write(*given, **more)


def noted(write, *given):
    """Try to deliver."""
    with open(Path(os.environ[STUB]) / "tries", "a") as file:
        file.write("try\n")
    write(*given)


if __name__ == "__main__":
    delivery._write = partial(noted, delivery._write)
    machine.busy = lambda limits: []
    machine.measure = carried_out
    machine.main(sys.argv[-1])
