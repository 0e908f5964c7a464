"""Whether this machine is fit to measure a suite now."""

import time
from fnmatch import fnmatchcase

from aiperf_analysis.ci.suite import Suite
from aiperf_core.devices.fitness import POLL_S, NotFitError, busy
from aiperf_core.names import words
from aiperf_core.results.machine import kinds


def check(suite: Suite) -> None:
    """Raise NotFitError for another kind of machine than demanded, and for one that stays too busy."""
    if suite.machine is not None:
        there = kinds(suite.device)
        if not any(fnmatchcase(one, suite.machine) for one in there):
            raise NotFitError(
                f"the suite '{suite.name}' demands a machine of the kind '{words(suite.machine)}'; this is "
                f"{' or '.join(there)}. Run it there, or change 'machine'."
            )
    deadline = time.monotonic() + suite.busy.wait_s
    while reasons := busy(suite.busy):
        if time.monotonic() >= deadline:
            raise NotFitError(
                f"the machine is too busy to measure: {'; '.join(reasons)}; waited {suite.busy.wait_s:g} s. Stop that, "
                "try again later, or change the limits in 'busy'."
            )
        time.sleep(min(POLL_S, max(0.0, deadline - time.monotonic())))
