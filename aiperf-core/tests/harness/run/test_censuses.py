"""When processes are looked at between their blocks: certainly at first, then by chance."""

import itertools
from types import SimpleNamespace
from typing import Any

import pytest

from aiperf_core.harness.run import conditions
from aiperf_core.harness.run.conditions import Censuses
from aiperf_core.measurements import Census

PASS_S, CENSUS_S, PASSES = 0.01, 0.02, 20_000


class Monitor:
    """A monitor of a process that rests."""

    def __init__(self, pid: int) -> None:
        self.pid = pid

    def settle(self) -> None:
        """Wait for nothing."""

    mark = settle

    def between_calls(self) -> Census:
        """Nothing."""
        return Census()


def test_later_passes_are_looked_at_by_chance_for_a_small_part_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]

    def wait(seconds: float) -> None:
        now[0] += seconds

    monkeypatch.setattr(conditions, "time", SimpleNamespace(monotonic=lambda: now[0], sleep=wait))
    monkeypatch.setattr(conditions, "ProcessMonitor", Monitor)
    setup: Any = SimpleNamespace(guards=lambda _: True, plan=SimpleNamespace(described=SimpleNamespace(files=())))
    sides: list[Any] = [
        SimpleNamespace(name=name, worker=SimpleNamespace(pid=pid), process=SimpleNamespace(census=[]))
        for pid, name in enumerate(("baseline", "candidate"))
    ]
    telemetry: Any = SimpleNamespace(nvml=None)
    taking, looked_at = Censuses(setup, telemetry), []
    for number in range(PASSES):
        before = now[0]
        taking.take(sides)
        if now[0] > before:
            looked_at.append(number)
        wait(PASS_S)
    assert looked_at[:4] == [0, 1, 2, 3]
    assert len(sides[0].process.census) == len(sides[1].process.census) == len(looked_at)
    assert 0.025 < CENSUS_S * len(looked_at[4:]) / (PASS_S * PASSES) < 0.035
    gaps = {after - before for before, after in itertools.pairwise(looked_at)}
    assert len(gaps) > 50
    sides[1].worker.pid = 7  # a new round has new processes
    count = len(sides[1].process.census)
    for _ in range(4):
        taking.take(sides)
    assert len(sides[1].process.census) == count + 4
