"""When the clocks of a run agree, and what the events' own cost is taken off."""

import pytest

from aiperf_core.harness import clocks
from aiperf_core.harness.contestant import Contestant
from aiperf_core.harness.described import DescribedImplementation
from aiperf_core.results.models import Audit, Verdict

OVERHEAD_S = 2e-6


def contestant(device_s: float, *, hidden: bool = True) -> Contestant:
    declared = DescribedImplementation("wide", "variant", "cuda", "wide.py:1")
    one = Contestant(declared, "wide")
    sample = {"device_s": device_s, "wall_s": None, "cpu_s": 1e-3, "bracket_s": 1e-3, "hidden": hidden}
    for block in range(5):
        one.record((0, block, block), sample, judged=False)
    return one


def audit(event_s: float, span_s: float) -> Audit:
    return Audit([span_s] * 3, [event_s] * 3, [], 0)


@pytest.mark.parametrize(
    ("sampled_s", "event_s", "span_s"),
    [
        (12e-6, 12e-6, 10e-6),  # the events' own cost explains the difference
        (12.9e-6, 12.9e-6, 10e-6),  # within a microsecond
        (1.002e-3, 1.04e-3, 1e-3),  # within five per cent
        (15e-6, 12e-6, 10e-6),  # samples may be slower than calls that repeat their values
    ],
)
def test_clocks_that_agree(sampled_s: float, event_s: float, span_s: float) -> None:
    one = contestant(sampled_s)
    clocks.compare(one, audit(event_s, span_s), OVERHEAD_S)
    assert one.active
    assert one.findings == []


@pytest.mark.parametrize(
    ("sampled_s", "event_s", "span_s"),
    [
        (102e-6, 102e-6, 200e-6),  # work that the events missed
        (202e-6, 202e-6, 100e-6),  # time that no work explains
        (52e-6, 102e-6, 100e-6),  # samples that do less than audited calls
    ],
)
def test_clocks_that_disagree(sampled_s: float, event_s: float, span_s: float) -> None:
    one = contestant(sampled_s)
    clocks.compare(one, audit(event_s, span_s), OVERHEAD_S)
    assert one.ended is Verdict.UNTRUSTED
    assert one.reason == (
        f"the clocks disagree by more than 5% and 1 us: samples {(sampled_s - OVERHEAD_S) * 1e6:.2f} us, audited calls by "
        f"events {(event_s - OVERHEAD_S) * 1e6:.2f} us, audited calls by CUPTI {span_s * 1e6:.2f} us"
    )
    assert [one.issue for one in one.findings] == ["timing.clocks_disagree"]


def test_calls_that_wait_by_themselves_are_warned_of() -> None:
    one = contestant(300e-6, hidden=False)
    clocks.compare(one, audit(300e-6, 100e-6), OVERHEAD_S)
    assert one.active
    assert [(one.issue, one.severity) for one in one.findings] == [("timing.launch_not_hidden", "warning")]


def test_the_events_own_cost_is_taken_off_all_or_none() -> None:
    long, short = contestant(100e-6), contestant(2.2e-6)
    assert clocks.take_off_overhead([long, short], OVERHEAD_S) is None
    assert long.median("device") == pytest.approx(100e-6)
    assert clocks.take_off_overhead([long], OVERHEAD_S) == OVERHEAD_S
    assert long.median("device") == pytest.approx(98e-6)
    assert long.blocks("device", 1).times == pytest.approx([98e-6] * 5)
    assert long.samples.device_s == [100e-6] * 5
