"""The power of `compare`, by simulation: a kernel of 100 us with made-up clocks, one second of sampling.

The noise is that of a GPU whose clocks nobody locked: samples with outliers, a state of the device that both functions
share within a turn and that drifts from turn to turn, and a state of each block of samples.
"""

import math
import random
from collections import Counter
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from aiperf_core import compare
from aiperf_core.devices.timing import Timed
from aiperf_core.inline import subject, turns
from aiperf_core.results.models import Verdict

# Seconds of a kernel, and of what surrounds a sample: the flush of the caches and the launch.
KERNEL_S, AROUND_S = 1e-4, 8e-5
# Relative standard deviations: of a sample, of a block, and of the device's drift from turn to turn.
SAMPLE, BLOCK, DRIFT = 0.008, 0.001, 0.002
# A sample in a hundred takes longer, by up to a tenth.
OUTLIERS, LONGER = 0.01, 0.1


class MadeUpGpu:
    """A GPU and the clock on the wall, both made up from a seed."""

    def __init__(self, seed: int) -> None:
        self.drawn, self.now_s, self.device, self.block = random.Random(seed), 0.0, 1.0, 1.0
        self.last: Any = None

    def monotonic(self) -> float:
        return self.now_s

    def flush(self) -> None:
        self.now_s += AROUND_S

    def make_ready(self) -> None:
        """Do nothing."""

    def begin_turn(self) -> None:
        """Drift, back to where it came from in the long run."""
        self.device = 1 + 0.9 * (self.device - 1) + self.drawn.gauss(0, DRIFT)

    def time(self, call: Callable[[], Any], clock: str, calls: int = 1, align: None = None) -> Timed:
        if call is not self.last:
            self.last, self.block = call, 1 + self.drawn.gauss(0, BLOCK)
        taken = KERNEL_S * call() * self.device * self.block * math.exp(self.drawn.gauss(0, SAMPLE))
        if self.drawn.random() < OUTLIERS:
            taken *= 1 + LONGER * self.drawn.random()
        self.now_s += taken
        return Timed(None, taken, None, 0.0, False, 0, 0)


def verdict(monkeypatch: pytest.MonkeyPatch, ratio: float, seed: int) -> Verdict:
    """The verdict on a function that takes this ratio of the time of the first."""
    gpu = MadeUpGpu(seed)
    kind = SimpleNamespace(clock="device", on_host=False, open=lambda size, all_streams: gpu)
    monkeypatch.setattr(subject, "kind_of", lambda *values: kind)
    monkeypatch.setattr(turns, "time", gpu)
    monkeypatch.setattr(turns, "random", SimpleNamespace(Random=lambda: random.Random(seed)))

    def inputs() -> float:
        gpu.begin_turn()
        return 1.0

    def first(scale: float) -> float:
        return scale

    def second(scale: float) -> float:
        return ratio * scale

    return compare(first, second, inputs, check=lambda left, right: True, budget_s=1.0).verdict


@pytest.mark.parametrize(("ratio", "wanted"), [(0.99, Verdict.FASTER), (1.01, Verdict.SLOWER)])
def test_a_difference_of_1_percent_is_found(monkeypatch: pytest.MonkeyPatch, ratio: float, wanted: Verdict) -> None:
    found = Counter(verdict(monkeypatch, ratio, seed) for seed in range(10))
    assert found[wanted] >= 9, found


def differences(monkeypatch: pytest.MonkeyPatch, seeds: range) -> int:
    """The number of comparisons in which a function differs from one that takes the same time."""
    found = Counter(verdict(monkeypatch, 1.0, seed) for seed in seeds)
    return found[Verdict.FASTER] + found[Verdict.SLOWER]


def test_functions_that_take_the_same_time_do_not_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    assert differences(monkeypatch, range(20)) == 0


@pytest.mark.long
def test_at_most_1_of_200_comparisons_finds_a_difference_that_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    assert differences(monkeypatch, range(200)) <= 1
