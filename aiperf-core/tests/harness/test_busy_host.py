"""A row of the host's beside a busy process: within 10 % of its quiet time, or marked."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from aiperf_core.results.models import Row, TargetResult
from aiperf_core.stats.conditions import LOAD

pytestmark = [
    pytest.mark.quiet,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="it pins processes to processors"),
]

NEAR = 0.1


@contextmanager
def busy_process(processors: set[int]) -> Iterator[None]:
    """A process that never sleeps, on these processors."""
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        os.sched_setaffinity(process.pid, processors)
        yield
    finally:
        process.kill()
        process.wait()


def measured(measure: Callable[..., object], **options: object) -> Row:
    found = measure("host_work", budget_s=1.0, **options)
    assert isinstance(found, TargetResult), found
    return found.rows[0]


def is_marked(row: Row) -> bool:
    return any(finding.issue == LOAD and "witness" in finding.evidence for finding in row.findings)


@pytest.mark.parametrize("beside", [False, True], ids=["its own processor", "another processor"])
def test_a_row_beside_a_busy_process_is_near_its_quiet_time_or_marked(
    beside: bool, measure: Callable[..., object]
) -> None:
    usable = sorted(os.sched_getaffinity(0))
    if beside and len(usable) < 2:
        pytest.skip("this machine has one processor")
    quiet = measured(measure)
    assert quiet.time_s is not None
    with busy_process({usable[0] if beside else usable[-1]}):  # a workload of one thread has the last processor
        row = measured(measure)
    assert row.time_s is not None
    near = abs(row.time_s.value / quiet.time_s.value - 1) <= NEAR
    assert near or is_marked(row) or is_marked(quiet), (quiet.time_s, row.time_s, row.findings)


def test_the_mark_has_its_figures(measure: Callable[..., object]) -> None:
    # A call of many time slices loses its processor; a short one may have it again each time that it wakes.
    with busy_process({sorted(os.sched_getaffinity(0))[-1]}):
        row = measured(measure, size="many")
    (finding,) = [one for one in row.findings if one.issue == LOAD and "witness" in one.evidence]
    assert finding.evidence["share"] >= 0.5
    assert "of the samples were disturbed" in finding.message
