"""Figures by their keys."""

import attrs
import pytest

from aiperf_core.devices.ceiling_figures import as_fields, beats, better, figures, of_datasheet
from aiperf_core.measurements import Ceilings

BASIC = Ceilings(
    "GPU",
    "today",
    100.0,
    80.0,
    50.0,
    {"fp32": 10.0},
    how={"copy_bytes_per_s": "a loop"},
    missing={"launch_s": "no time"},
)
WHOLE = attrs.evolve(
    BASIC, copy_bytes_per_s=90.0, launch_s=2.0, event_overhead_s=3.0, cache_bytes=7.0, whole=True, took_s=9.0,
    flop_per_s={"fp32": 8.0, "bf16": 30.0}, how={"copy_bytes_per_s": "a call", "launch_s": "many"}, missing={},
)  # fmt: skip


def test_there_and_back() -> None:
    found = figures(WHOLE)
    assert found == {
        "copy_bytes_per_s": 90.0,
        "read_bytes_per_s": 80.0,
        "write_bytes_per_s": 50.0,
        "flop_per_s.fp32": 8.0,
        "flop_per_s.bf16": 30.0,
        "event_overhead_s": 3.0,
        "cache_bytes": 7.0,
        "launch_s": 2.0,
    }
    assert attrs.evolve(BASIC, **as_fields(found)) == attrs.evolve(
        WHOLE, how=BASIC.how, missing=BASIC.missing, whole=False, took_s=None
    )


def test_of_two_measurements_each_figure_is_the_better() -> None:
    both = better(attrs.evolve(BASIC, launch_s=1.0, event_overhead_s=4.0, missing={}, how={"launch_s": "few"}), WHOLE)
    assert both.copy_bytes_per_s == 100.0
    assert both.flop_per_s == {"fp32": 10.0, "bf16": 30.0}
    assert both.launch_s == 1.0
    assert both.how["launch_s"] == "few"
    assert both.event_overhead_s == 4.0  # neither more nor less is better: the newest
    assert both.whole
    assert both.took_s == 9.0


def test_what_was_measured_once_is_not_missing() -> None:
    assert better(BASIC, WHOLE).missing == {}
    assert better(BASIC, attrs.evolve(WHOLE, launch_s=None)).missing == {"launch_s": "no time"}


@pytest.mark.parametrize(
    ("key", "more_is_better"),
    [("flop_per_s.fp8", True), ("sm_clock_hz", True), ("launch_s", False), ("timer_call_s.x", False)],
)
def test_rates_grow_and_times_shrink(key: str, more_is_better: bool) -> None:
    assert beats(key, 2.0, 1.0) is more_is_better
    assert beats(key, 1.0, 2.0) is not more_is_better


def test_fractions_of_the_data_sheet() -> None:
    assert of_datasheet(attrs.evolve(BASIC, datasheet={"copy_bytes_per_s": 200.0, "launch_s": 1.0})) == {
        "copy_bytes_per_s": 0.5
    }
