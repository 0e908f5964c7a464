"""Functions compared in this process. The device's times are made up here: a function names its own."""

import os
import random
import re
import subprocess
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from aiperf_core import Tolerance, compare, do_bench, exact, timeit
from aiperf_core.devices.timing import Timed
from aiperf_core.errors import BenchmarkError, UsageError
from aiperf_core.inline import subject
from aiperf_core.results.models import Verdict

# Seconds that are made up for each function: a median, and the relative spread around it.
Times = dict[str, tuple[float, float]]


class MadeUpDevice:
    """A timing device whose calls take the times of the functions that they name."""

    def __init__(self, times: Times, drawn: random.Random) -> None:
        self.times, self.drawn, self.flushes = times, drawn, 0

    def flush(self) -> None:
        self.flushes += 1

    def make_ready(self) -> None:
        """Do nothing."""

    def time(self, call: Callable[[], Any], clock: str, calls: int = 1, align: None = None) -> Timed:
        name = str(call())
        median, spread = self.times[name]
        taken = calls * median * (1 + spread * self.drawn.uniform(-1, 1))
        return Timed(name, taken if clock == "device" else None, taken, 0.0, False, 0, 0)


@pytest.fixture
def made_up(monkeypatch: pytest.MonkeyPatch) -> Callable[..., MadeUpDevice]:
    """Makes the device of all functions: `made_up(times, clock=None)`."""

    def make(times: Times, clock: str | None = None) -> MadeUpDevice:
        device = MadeUpDevice(times, random.Random(1))
        kind = SimpleNamespace(clock=clock, on_host=False, open=lambda size, all_streams: device)
        monkeypatch.setattr(subject, "kind_of", lambda *values: kind)
        return device

    return make


def slow() -> str:
    return "slow"


def quick() -> str:
    return "quick"


def same_text(left: str, right: str) -> bool:
    return {left, right} <= {"slow", "quick"}


@pytest.mark.parametrize(
    ("quick_s", "verdict"),
    [(0.5e-3, Verdict.FASTER), (2e-3, Verdict.SLOWER), (1e-3, Verdict.SAME), (0.98e-3, Verdict.FASTER)],
)
def test_verdicts(made_up, quick_s: float, verdict: Verdict) -> None:
    made_up({"slow": (1e-3, 0.002), "quick": (quick_s, 0.002)})
    found = compare(slow, quick, check=same_text, budget_s=0.05)
    assert found.verdict is verdict
    # No made-up time is further than 0.2 % from its median: no ratio is further than 0.4 %. (An interval of 95 %
    # may miss the true value: one time in twenty.)
    for estimate, ratio in ((found.speedup, 1e-3 / quick_s), (found.control, 1)):
        ends = estimate.low, estimate.value, estimate.high
        assert list(ends) == sorted(ends)
        assert ends == pytest.approx([ratio] * 3, rel=0.0041)
    assert verdict.value in str(found).splitlines()[1]


def test_a_difference_below_the_floor_is_none(made_up) -> None:
    made_up({"slow": (1e-3, 0.0005), "quick": (0.97e-3, 0.0005)})
    assert compare(slow, quick, check=same_text, budget_s=0.05, floor=0.1).verdict is Verdict.SAME


def test_noise_leaves_it_open(made_up) -> None:
    # The ends of the band, from which thousands of such samples do not tell the speedup.
    made_up({"slow": (1.005e-3, 0.9), "quick": (1e-3, 0.9)})
    found = compare(slow, quick, check=same_text, budget_s=0.05)
    assert found.verdict is Verdict.INCONCLUSIVE
    assert "overlaps the band of 0.50 % around 1" in found.reason


def test_a_function_that_differs_from_itself_decides_nothing(made_up, monkeypatch) -> None:
    made_up({"slow": (1e-3, 0.001), "quick": (0.5e-3, 0.001)})
    sides = []
    monkeypatch.setattr(
        "aiperf_core.inline.sampling.Sampler._block",
        lambda self, side, samples: [
            sides.append(side)
            or SimpleNamespace(side=side, number=self.turns.passes, time_s=2e-3 if "again" in side else 1e-3)
        ],
    )
    found = compare(slow, quick, check=same_text, budget_s=0.05)
    assert found.verdict is Verdict.INCONCLUSIVE
    assert "differs from itself" in found.reason
    assert {"slow", "quick", "slow (again)"} == set(sides)


def test_a_device_with_a_clock_has_cold_caches_and_single_calls(made_up) -> None:
    device = made_up({"slow": (1e-6, 0.01), "quick": (1e-6, 0.01)}, clock="events")
    found = compare(slow, quick, check=same_text, budget_s=0.05)
    assert "device clock, cold caches" in found.method
    assert " of 1 calls" in found.method
    assert device.flushes >= len(found.samples)


def test_short_calls_are_timed_together(made_up) -> None:
    made_up({"slow": (1e-6, 0.01), "quick": (4e-6, 0.01)})
    found = compare(slow, quick, check=same_text, budget_s=0.05)
    assert re.search(r" of 20\d/5\d calls", found.method)


# --- what real functions do


def add(x: torch.Tensor) -> torch.Tensor:
    return x + 1


def add_two(x: torch.Tensor) -> torch.Tensor:
    return x + 2


def add_in_place(x: torch.Tensor) -> torch.Tensor:
    return x.add_(1)


def draw() -> tuple[torch.Tensor]:
    return (torch.randn(16),)


@pytest.mark.parametrize(
    ("first", "second", "check", "reason"),
    [
        (add, add_two, None, "the outputs of add and add_two differ: the output: relative L2 error"),
        (
            add,
            lambda x: (x + 1)[:3],
            None,
            "the outputs of add and second differ: a tensor float32[16] and a tensor float32[3]",
        ),
        (add, lambda x: None, None, "the outputs of add and second differ"),
        (lambda x: 1, lambda x: 2, None, "the outputs of first and second differ"),
        (lambda x: "a", lambda x: "b", None, "'a' and 'b'"),
        (add, lambda x: (x.double() + 1).float() * (1 + 1e-6), exact, "elements differ"),
        (add, add, lambda left, right: False, "the check returned False"),
        (add, add, lambda left, right: torch.testing.assert_close(left, right + 1), "AssertionError"),
        (add, add_in_place, None, "add_in_place changes its arguments (0); with mutates=True"),
    ],
)
def test_what_differs_is_invalid(first, second, check, reason: str) -> None:
    found = compare(first, second, draw, check=check, budget_s=0.01)
    assert found.verdict is Verdict.INVALID
    assert reason in found.reason
    assert found.samples == ()
    assert reason.replace("'", "&#x27;") in found._repr_html_()


def test_functions_that_mutate_get_copies() -> None:
    seen = []

    def record(x: torch.Tensor) -> torch.Tensor:
        seen.append(x.clone())
        return x.add_(1)

    made = []

    def make() -> torch.Tensor:
        made.append(torch.full((4,), float(len(made))))
        return made[-1]

    found = compare(record, record, make, mutates=True, budget_s=0.01)
    assert found.names == ("record (first)", "record (second)")
    assert {float(x[0]) for x in seen} <= set(map(float, range(len(made))))
    assert [float(one[0]) for one in made] == [*map(float, range(len(made)))]


def test_inputs_by_name_and_fresh_in_each_turn() -> None:
    drawn = []

    def make() -> dict[str, torch.Tensor]:
        drawn.append(torch.randn(4))
        return {"x": drawn[-1]}

    found = compare(add, lambda x: 1 + x, make, budget_s=0.05)
    turns = {sample.number for sample in found.samples}
    assert len(drawn) == len(turns) + 3  # two draws are checked, one warms up
    assert "the outputs agree on 2 draws of the inputs" in str(found)
    assert found.table().column_names == ["side", "pass", "time_s"]
    assert found.table().num_rows == len(found.samples)


def test_nothing_returned_is_nothing_checked() -> None:
    found = compare(lambda: None, lambda: None, budget_s=0.02)
    assert found.checked == "not checked: both functions return None"


def test_a_forked_child_ends_where_it_comes_back() -> None:
    parent = os.getpid()
    left = []

    def forks() -> int:
        if os.getpid() == parent and not left:
            left.append(os.fork())
        return 1

    timeit(lambda: 1, budget_s=0.01)
    assert os.getpid() == parent
    compare(lambda: 1, lambda: 1, budget_s=0.01)
    found = timeit(forks, budget_s=0.01)
    assert os.getpid() == parent
    assert found.samples
    os.waitpid(left[0], 0)


async def wait() -> None:
    """Do nothing."""


def fails() -> None:
    raise ValueError("no")


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: compare(3, add), UsageError, "the first function is 3; accepted is a function"),
        (lambda: compare(add, wait), UsageError, "a coroutine"),
        (lambda: compare(fails, fails), BenchmarkError, "fails (first) failed on its first call: ValueError: no"),
        (lambda: compare(add, add, fails), BenchmarkError, "the function for the inputs failed: ValueError: no"),
        (lambda: compare(add, add, draw, budget_s=0), UsageError, "budget_s=0"),
        (lambda: compare(add, add, draw, floor=2), UsageError, "floor=2"),
        (lambda: compare(add, add, draw, check="about"), UsageError, "check='about'"),
        (lambda: timeit("x"), UsageError, "the function is 'x'"),
        (lambda: do_bench(fails), BenchmarkError, "fails failed on its first call"),
        (lambda: do_bench(slow, return_mode="most"), UsageError, "return_mode='most'"),
    ],
)
def test_mistakes(call: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error) as caught:
        call()
    assert message in str(caught.value)


def test_a_tolerance_of_the_caller() -> None:
    wide = Tolerance(0.5, "a test")
    assert compare(add, lambda x: (x + 1) * 1.01, draw, check=wide, budget_s=0.01).verdict is not Verdict.INVALID


FREED = """
import psutil, torch
from aiperf_core import timeit
timeit(lambda: torch.ones(1 << 18), budget_s=0.01)
process = psutil.Process()
before = process.memory_info().rss
block = torch.ones(1 << 27)  # more than the hole that the evicting memory of the sampling left in the heap
held = process.memory_info().rss - before
del block
print(held, process.memory_info().rss - before)
"""


def test_the_callers_process_gives_freed_memory_back_afterwards() -> None:
    printed = subprocess.run([sys.executable, "-c", FREED], capture_output=True, text=True, check=True).stdout
    held, kept = map(int, printed.split())
    assert held > 1 << 28
    assert kept < 1 << 24


# --- one function


def test_the_time_of_a_function(made_up) -> None:
    made_up({"slow": (1e-3, 0.01)})
    found = timeit(slow, budget_s=0.05)
    assert found.median.low <= 1e-3 <= found.median.high
    assert found.shortest_s >= 0.99e-3
    assert re.match(r"slow  (999|1,00\d|1\.0)", str(found))


def test_the_signature_of_triton(made_up) -> None:
    made_up({"slow": (1e-3, 0.01)}, clock="events")
    gradient = torch.ones(1, requires_grad=True)
    gradient.grad = torch.ones(1)
    assert do_bench(slow, 1, 5, grad_to_none=[gradient]) == pytest.approx(1, rel=0.01)
    assert gradient.grad is None
    low, middle, high = do_bench(slow, rep=5, quantiles=[0, 0.5, 1])
    assert low <= middle <= high
    every = do_bench(slow, rep=5, return_mode="all")
    assert every == sorted(every)
    assert do_bench(slow, rep=5, return_mode="min") >= 0.99
