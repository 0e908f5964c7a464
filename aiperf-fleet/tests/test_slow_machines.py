"""The comparison of machines: tables of the distributions, and simulated fleets."""

import math
import random

import pytest

from aiperf_fleet.slow import Measured, compare


def fleet(seed, machines=3, targets=4, noise=0.01, slowed=1.0, spread=0.0):
    """Machines that run each target once; the times of the first are multiplied."""
    chance = random.Random(seed)
    effect = [chance.gauss(0, spread) + (math.log(slowed) if one == 0 else 0) for one in range(machines)]
    return [
        Measured(f"t{target}", f"m{machine}", target + effect[machine] + chance.gauss(0, noise))
        for target in range(targets)
        for machine in range(machines)
    ]


def named(seed, **more):
    return [one.machine for one in compare(fleet(seed, **more)).machines if one.slow]


def test_a_machine_slowed_by_a_tenth_is_named_and_no_other():
    found = [named(seed, slowed=1.1) for seed in range(100)]
    assert sum("m0" in one for one in found) >= 90
    assert all(set(one) <= {"m0"} for one in found)


def test_equal_machines_are_not_named():
    assert sum(bool(named(seed)) for seed in range(100)) <= 8
    assert sum(bool(named(seed, machines=6)) for seed in range(50)) <= 6


def test_a_spread_of_machines_widens_the_interval():
    alike, unlike = (compare(fleet(1, machines=8, spread=one)).machines[0] for one in (0.0, 0.05))
    assert math.log(unlike.high / unlike.low) > 5 * math.log(alike.high / alike.low)


def test_the_effect_and_its_interval():
    """Without noise the ratio is exact. By hand: two machines' mean log time is 0, that of the third log 1.5."""
    exact = [Measured(t, m, math.log(1.5) if m == "c" else d) for t in "xy" for m, d in (("a", 0), ("b", 0), ("c", 0))]
    found = compare(exact)
    assert next((one.machine, round(one.ratio, 9), one.slow) for one in found.machines) == ("c", 1.5, True)
    assert [one.slow for one in found.machines[1:]] == [False, False]


def test_a_machine_that_is_slower_by_less_than_the_floor_is_not_named():
    assert named(1, noise=1e-5, slowed=1.019) == []
    assert named(1, noise=1e-5, slowed=1.021) == ["m0"]


@pytest.mark.parametrize(
    ("measurements", "reason"),
    [
        ([], "0 machines have measured a target in common; at least 3 are needed (machines = \"each\" in the suite)"),
        (fleet(1, machines=2), "2 machines have measured a target in common; at least 3 are needed (machines = \"each\" in the suite)"),
        (fleet(1, targets=1), "too few runs: each target needs several runs, or several targets are needed"),
    ],
)  # fmt: skip
def test_what_cannot_be_compared(measurements, reason):
    assert compare(measurements).reason == reason


def test_lost_runs_leave_the_others_comparable():
    """A slow machine that lost the slowest target must not look fast: targets have levels of their own."""
    covered = 0
    for seed in range(40):
        whole = fleet(seed, slowed=1.1, noise=0.005)
        found = compare([one for one in whole if (one.target, one.machine) != ("t3", "m0")])
        (slowed,) = (one for one in found.machines if one.machine == "m0")
        covered += slowed.low < 1.1 < slowed.high
    assert covered >= 34
