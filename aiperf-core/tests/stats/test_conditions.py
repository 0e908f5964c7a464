import json

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiperf_core.devices.gpu_telemetry import REASONS
from aiperf_core.measurements import Flush, Reading
from aiperf_core.stats import conditions
from aiperf_core.stats.conditions import (
    CHOSEN,
    POWER,
    THERMAL,
    Conditions,
    Spread,
    findings,
    summary,
    throttled_blocks,
    warm_after_flush,
)
from aiperf_core.validity.policy import Policy


def readings(**series):
    """Readings from lists of one length, one figure a list."""
    return [
        Reading(at_s=float(index), **dict(zip(series, row, strict=True)))
        for index, row in enumerate(zip(*series.values(), strict=True))
    ]


def issues(found):
    assert all(Policy().effect(one.issue) == "warning" for one in found)
    return [one.issue for one in found]


def test_nothing_is_known_of_no_readings():
    assert summary([]) == Conditions()
    assert findings(Conditions(), Conditions()) == []


def test_nothing_is_known_of_empty_readings():
    assert summary([Reading(at_s=0.0)] * 3) == Conditions(readings=3)
    assert throttled_blocks([Reading(at_s=0.0)]) == [False]


def test_a_summary():
    found = summary(
        readings(
            sm_clock_hz=[1.98e9, None, 1.2e9, 1.9e9],
            memory_clock_hz=[3e9] * 4,
            cpu_clock_hz=[3.1e9, 2.9e9, None, None],
            temperature_c=[40.0, 70.0, 65.0, None],
            power_w=[100.0, 700.0, 690.0, None],
            throttled=[(), ("sw_power_cap", "clocks_setting"), ("clocks_setting",), None],
            cpu_busy=[0.5, 0.25, None, 0.1],
            cpu_own=[0.25, 0.5, None, None],
            steal=[0.0, 0.02, None, 0.5],
            other_pids=[(), (7,), None, (3, 7)],
        )
    )
    assert found == Conditions(
        readings=4,
        sm_clock_hz=Spread(1.2e9, 1.9e9, 1.98e9),
        memory_clock_hz=Spread(3e9, 3e9, 3e9),
        cpu_clock_hz=Spread(2.9e9, 3e9, 3.1e9),
        temperature_max_c=70.0,
        power_median_w=690.0,
        throttled={"clocks_setting": 2 / 3, "sw_power_cap": 1 / 3},
        throttled_share=1 / 3,
        background=Spread(0.0, 0.125, 0.25),
        steal=Spread(0.0, 0.02, 0.5),
        other_pids=[3, 7],
    )
    json.dumps(attrs.asdict(found))


def test_clocks_that_somebody_chose_are_no_throttling():
    found = readings(throttled=[("clocks_setting",), ("hw_slowdown",), (), None, ("reason_0x800",)])
    assert throttled_blocks(found) == [False, True, False, False, True]


def test_every_reason_has_its_place():
    # Sync boost and reliability hold clocks down, and are neither heat nor power.
    assert THERMAL | POWER | CHOSEN | {"idle", "sync_boost", "reliability", "cpu_thermal"} == {
        *REASONS.values(),
        "cpu_thermal",
    }
    assert len(THERMAL) + len(POWER) + len(CHOSEN) == len(THERMAL | POWER | CHOSEN)


@pytest.mark.parametrize("reason", sorted(THERMAL))
def test_heat(reason):
    found = findings(summary(readings(throttled=[(reason,), *[()] * 9], temperature_c=[88.0] * 10)))
    assert issues(found) == ["environment.thermal_throttling"]
    assert found[0].message == f"heat reduced the clocks in 10 % of the blocks ({reason})"
    assert found[0].evidence == {
        "shares": {reason: 0.1},
        "readings": 10,
        "temperature_max_c": 88.0,
        "power_median_w": None,
    }


@pytest.mark.parametrize("reason", sorted(POWER))
def test_a_limit_of_power(reason):
    found = findings(summary(readings(throttled=[(reason,), (reason,)], power_w=[699.0, 701.0])))
    assert issues(found) == ["environment.power_throttling"]
    assert found[0].message == f"a limit of power reduced the clocks in 100 % of the blocks ({reason})"
    assert found[0].evidence["power_median_w"] == 700.0


def test_a_few_blocks_do_not_move_a_median():
    throttled = [("sw_thermal_slowdown",)] + [()] * 20
    assert findings(summary(readings(throttled=throttled))) == []
    assert issues(findings(summary(readings(throttled=throttled[:20])))) == ["environment.thermal_throttling"]


def test_a_limit_of_processor_time():
    found = findings(summary(readings(throttled=[("cpu_quota",), ()])))
    assert issues(found) == ["environment.cpu_quota"]
    assert found[0].message == "the CPU limit of the container stopped its processes in 50 % of the blocks"


@pytest.mark.parametrize(
    ("busy", "steal", "message"),
    [
        (0.54, 0.01, None),
        (0.60, 0.0, "other processes kept 10 % of the processors busy"),
        (0.50, 0.025, "the hypervisor gave 2.5 % of the processor time to other guests"),
        (
            0.75,
            0.025,
            "other processes kept 25 % of the processors busy; "
            "the hypervisor gave 2.5 % of the processor time to other guests",
        ),
    ],
)
def test_background_load(busy, steal, message):
    found = findings(summary(readings(cpu_busy=[busy] * 3, cpu_own=[0.5] * 3, steal=[steal] * 3)))
    assert [one.message for one in found] == ([message] if message else [])
    assert issues(found) == (["environment.background_load"] if message else [])


def test_the_load_of_whole_rounds_counts_where_it_is_known():
    """Blocks of short calls have no reading of the load each, and one that has may have had a quiet moment."""
    blocks = readings(cpu_busy=[None, 0.5, None], cpu_own=[None, 0.5, None], steal=[None, 0.0, None])
    rounds = readings(cpu_busy=[0.9], cpu_own=[0.4], steal=[0.0])
    assert findings(summary(blocks)) == []
    found = summary(blocks, rounds)
    assert (found.readings, issues(findings(found))) == (3, ["environment.background_load"])


def test_background_needs_both_figures():
    assert findings(summary(readings(cpu_busy=[1.0, 1.0]))) == []


def test_one_moment_of_load_is_evidence_and_no_finding():
    quiet = readings(cpu_busy=[0.9, 0.1, 0.1], cpu_own=[0.1, 0.1, 0.1], steal=[0.5, 0.0, 0.0])
    assert findings(summary(quiet)) == []


def test_a_shared_gpu():
    found = findings(summary(readings(other_pids=[None, (), (42, 7)])))
    assert issues(found) == ["environment.shared_gpu"]
    assert found[0].message == "the GPU was shared with other processes (pid 7, 42)"
    assert findings(summary(readings(other_pids=[None, ()]))) == []


@pytest.mark.parametrize(
    ("variant", "baseline", "drifts"),
    [
        ([1.98e9] * 3, [1.98e9] * 3, False),
        ([1.04e9] * 3, [1.0e9] * 3, False),
        ([1.06e9] * 3, [1.0e9] * 3, True),
        ([0.94e9] * 3, [1.0e9] * 3, True),
        # Blocks alternate: what drifts in both alike makes no difference.
        ([1.9e9, 1.5e9, 1.2e9], [1.9e9, 1.5e9, 1.2e9], False),
        ([None] * 3, [1.0e9] * 3, False),
        ([1.0e9] * 3, [None] * 3, False),
    ],
)
def test_clock_drift(variant, baseline, drifts):
    found = findings(summary(readings(sm_clock_hz=variant)), summary(readings(sm_clock_hz=baseline)))
    assert issues(found) == (["environment.clock_drift"] if drifts else [])


def test_the_message_of_clock_drift():
    (found,) = findings(summary(readings(sm_clock_hz=[1.5e9])), summary(readings(sm_clock_hz=[1.98e9])))
    assert found.message == (
        "the GPU ran at 1500 MHz in these blocks and at 1980 MHz in the baseline's: "
        "part of the difference in time is a difference of clocks"
    )
    assert found.evidence == {"sm_clock_hz": 1.5e9, "baseline_sm_clock_hz": 1.98e9, "ratio": pytest.approx(1.5 / 1.98)}


some = st.none() | st.floats(0, 1e10)
names = st.none() | st.lists(st.sampled_from([*REASONS.values(), "cpu_quota"]), unique=True).map(tuple)
pids = st.none() | st.lists(st.integers(1, 9), unique=True).map(tuple)
any_reading = st.builds(
    Reading,
    at_s=st.floats(0, 1e6),
    sm_clock_hz=some,
    memory_clock_hz=some,
    cpu_clock_hz=some,
    temperature_c=some,
    power_w=some,
    throttled=names,
    cpu_busy=st.none() | st.floats(0, 1),
    cpu_own=st.none() | st.floats(0, 1),
    steal=st.none() | st.floats(0, 1),
    other_pids=pids,
)


@given(st.lists(any_reading, max_size=30), st.randoms())
def test_a_summary_is_within_its_readings_and_knows_no_order(taken, shuffler):
    found = summary(taken)
    for name in ("sm_clock_hz", "memory_clock_hz", "cpu_clock_hz", "steal"):
        known = [value for one in taken if (value := getattr(one, name)) is not None]
        spread = getattr(found, name)
        assert (spread is None) == (not known)
        if spread:
            assert spread.low == min(known) <= spread.median <= max(known) == spread.high
    assert all(0 < share <= 1 for share in found.throttled.values())
    known_blocks = [one for one in taken if one.throttled is not None]
    assert (found.throttled_share is None) == (not known_blocks)
    if known_blocks:
        assert found.throttled_share == sum(throttled_blocks(taken)) / len(known_blocks)
    assert found.background is None or 0 <= found.background.low <= found.background.high <= 1
    shuffled = list(taken)
    shuffler.shuffle(shuffled)
    assert summary(shuffled) == found
    assert len(throttled_blocks(taken)) == len(taken)
    assert all(Policy().effect(one.issue) == "warning" and one.evidence for one in findings(found, summary(taken[:5])))


def test_thresholds_are_above_what_noise_reaches():
    assert 0 < conditions.STEAL <= conditions.BACKGROUND < 1


@pytest.mark.parametrize(
    ("hot", "cold", "flushed", "warned"),
    [
        (1.0, 4.0, 4.1, False),
        (1.0, 4.0, 2.6, False),
        (1.0, 4.0, 2.4, True),
        (1.0, 4.0, 1.0, True),
        (1.0, 1.1, 1.0, False),  # displaced or not, it takes as long: nothing can be seen
    ],
)
def test_a_flush_that_leaves_the_cache_warm(hot: float, cold: float, flushed: float, warned: bool) -> None:
    found = warm_after_flush(Flush(hot * 1e-5, cold * 1e-5, flushed * 1e-5))
    assert (found is not None) is warned
    if found:
        assert (found.issue, Policy().effect(found.issue)) == ("timing.cache_not_cold", "warning")
