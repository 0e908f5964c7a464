"""Marks of the witness: which samples it finds disturbed, and which rows are marked for it. It decides no verdict."""

from typing import Any

import numpy as np
import pytest
from attrs import asdict, evolve

from aiperf_core import Cost
from aiperf_core.measurements import Samples
from aiperf_core.results.models import Judging, Observations, Row, Verdict
from aiperf_core.stats.judge import judge
from aiperf_core.stats.observations import Clocks
from aiperf_core.stats.standing import Rules
from aiperf_core.stats.witness import Witnessed, is_host_bound, never_quiet

PASSES = 12
QUIET_S = 2e-5


def samples(
    times_s: list[float],
    ratios: list[float | None],
    *,
    place: int = 0,
    switches: int = 0,
    device_s: float | None = None,
    hidden: bool = True,
) -> Samples:
    """Samples by the wall clock, each with its witness; one more by the device's clock after each."""
    count = len(times_s)
    turns = [None if ratio is None else QUIET_S * ratio for ratio in ratios]
    taken = {
        "round": [0] * count,
        "block": [2 * number + place for number in range(count)],
        "step": list(range(count)),
        "device_s": [None] * count,
        "wall_s": list(times_s),
        "bracket_s": list(times_s),
        "calls": [1] * count,
        "hidden": [False] * count,
        "involuntary_switches": [switches] * count,
        "witness_s": turns,
    }
    if device_s is not None:
        extra: dict[str, Any] = {**taken, "device_s": [device_s] * count, "wall_s": [None] * count}
        extra |= {"witness_s": [None] * count, "involuntary_switches": [0] * count, "hidden": [hidden] * count}
        taken = {name: [one for pair in zip(taken[name], extra[name], strict=True) for one in pair] for name in taken}
    return Samples(**taken)


def row_of(taken: Samples, **rules: Any) -> Row:
    return judged([Observations("plain", "baseline", "cpu", samples=taken)], **rules)[0]


def judged(observed: list[Observations], **rules: Any) -> list[Row]:
    usual: dict[str, Any] = {"clock": "wall", "cache": "warm", "goal": "speed", "floor": 0.01, "ceilings": None}
    cost = asdict(Cost(flops=1.0)) | {"world_size": 1, "nodes": 1}
    usual |= {"cost": cost, "clocks": Clocks(), "judging": Judging(), "complete": True, "witness_quiet_s": QUIET_S}
    return judge(observed, Rules(**{**usual, **rules}))


def marks(row: Row) -> list[str]:
    return [finding.message for finding in row.findings if "witness" in finding.evidence]


def noisy(time_s: float) -> list[float]:
    return [time_s * (1 + 0.002 * (-1) ** number * (number % 3)) for number in range(PASSES)]


def test_ratios_are_of_the_samples_by_the_wall_clock() -> None:
    taken = samples([1.0, 2.0], [1.0, 1.5], device_s=0.5)
    assert Witnessed.of(taken, QUIET_S).ratios == pytest.approx([1.0, 1.5])
    assert Witnessed.of(taken, QUIET_S).disturbed.tolist() == [False, True]
    spread = Witnessed.of(taken, QUIET_S).spread
    assert spread is not None
    assert (spread.low, spread.median, spread.high) == pytest.approx((1.0, 1.25, 1.5))
    assert Witnessed.of(taken, None).spread is None
    assert Witnessed.of(samples([1.0], [None]), QUIET_S).spread is None


@pytest.mark.parametrize(
    ("ratios", "switches", "message"),
    [
        ([1.0] * PASSES, 0, None),
        ([1.5] * 5 + [1.0] * 7, 0, None),
        ([None] * PASSES, 3, None),  # nothing is known of the host
        ([1.5] * PASSES, 0, "100 % of the samples were disturbed: a fixed loop on the host took 1.50x its quiet time"),
        ([1.0] * PASSES, 1, "100 % of the samples were disturbed: 100 % lost a processor to other work"),
        (
            [1.5] * 3 + [1.0] * 9,
            1,
            "100 % of the samples were disturbed: a fixed loop on the host took up to 1.50x its quiet time, 100 % lost a "
            "processor to other work",
        ),
        (
            [1.5] * 7 + [1.0] * 5,
            1,
            "100 % of the samples were disturbed: a fixed loop on the host took 1.50x its quiet time, 100 % lost a "
            "processor to other work",
        ),
    ],
)
def test_a_row_whose_host_never_was_quiet_is_marked(
    ratios: list[float | None], switches: int, message: str | None
) -> None:
    row = row_of(samples(noisy(0.005), ratios, switches=switches))
    assert row.verdict is Verdict.MEASURED
    assert marks(row) == ([f"{message}; repeat it on a quiet machine"] if message else [])


def test_a_long_call_may_lose_its_processor_now_and_then() -> None:
    assert never_quiet(samples(noisy(0.029), [1.0] * PASSES, switches=1), QUIET_S)
    assert not never_quiet(samples(noisy(0.5), [1.0] * PASSES, switches=1), QUIET_S)


@pytest.mark.parametrize(("device_s", "bound"), [(None, True), (0.001, True), (0.0036, False), (0.005, False)])
def test_a_row_whose_device_is_busy_is_not_marked_for_its_host(device_s: float | None, bound: bool) -> None:
    taken = samples(noisy(0.005), [1.5] * PASSES, device_s=device_s)
    assert is_host_bound(taken, Clocks()) is bound
    assert bool(marks(row_of(taken))) is bound
    assert marks(row_of(taken, clock="device")) == []


def test_a_device_s_time_with_launches_in_it_says_nothing_of_the_host() -> None:
    taken = samples(noisy(0.005), [1.5] * PASSES, device_s=0.005, hidden=False)
    assert is_host_bound(taken, Clocks())
    assert marks(row_of(taken))


def test_a_machine_that_is_slow_all_the_time_is_slow_for_both_sides() -> None:
    sides = [("plain", "baseline", 0.0075, 0), ("other", "variant", 0.005, 1)]
    observed = [
        Observations(name, role, "cpu", samples=samples(noisy(time_s), [1.5] * PASSES, place=place))
        for name, role, time_s, place in sides
    ]
    rows = judged(observed)
    assert rows[1].verdict is Verdict.FASTER
    assert all(map(marks, rows))


def test_an_older_row_has_no_witness() -> None:
    taken = samples(noisy(0.005), [None] * PASSES)
    assert np.array_equal(Witnessed.of(taken, None).disturbed, np.zeros(PASSES, dtype=bool))
    assert marks(row_of(evolve(taken), witness_quiet_s=None)) == []
