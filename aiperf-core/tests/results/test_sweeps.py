"""The sweeps in a bundle, and the addresses of their points."""

import pytest
import swept

from aiperf_core.errors import UsageError
from aiperf_core.results import address
from aiperf_core.results.models import Verdict
from aiperf_core.results.sweeps import sweeps
from aiperf_core.stats.recheck import recheck

TARGET = swept.TARGET


@pytest.fixture
def stored(tmp_path):
    return swept.bundle(tmp_path / "run", [swept.point(m=2, n=10), swept.point(m=2, n=4), swept.point(m=1, n=10)])


def test_points_stand_in_the_order_of_their_values(stored):
    (found,) = sweeps([stored.outline(name) for name in stored.targets])
    assert (found.target, found.parameters) == (TARGET, ("m", "n"))
    assert [values for values, _ in found.points] == [{"m": 1, "n": 10}, {"m": 2, "n": 4}, {"m": 2, "n": 10}]
    assert found.values("n") == [4, 10]


def test_a_row_for_each_point_and_implementation_and_for_each_point_that_failed():
    (found,) = sweeps([swept.point(n=4), swept.failed(n=8)])
    rows = found.rows
    assert [(row.values["n"], row.implementation) for row in rows] == [
        (4, "strided"),
        (4, "coalesced"),
        (4, "remembered"),
        (8, None),
    ]
    assert [row.verdict for row in rows] == [Verdict.MEASURED, Verdict.FASTER, Verdict.INVALID, Verdict.FAILED]
    assert [row.time_s is None for row in rows] == [False, False, True, True]
    assert rows[3].reason == "ran out of memory"
    light = rows[1].speed_of_light
    assert light.low < light.value < light.high


def test_a_run_without_a_sweep_has_none(bundle):
    assert sweeps([bundle.outline(name) for name in bundle.targets]) == []


def test_the_bundle_of_a_sweep_is_rechecked_as_any_other(stored):
    assert recheck(stored).holds


@pytest.mark.parametrize(
    ("suffix", "names"),
    [
        ("", ["m=1,n=10", "m=2,n=10", "m=2,n=4"]),
        (f":{TARGET}", ["m=1,n=10", "m=2,n=10", "m=2,n=4"]),
        (f":{TARGET}@n=1e1", ["m=1,n=10", "m=2,n=10"]),
        (f":{TARGET}@n=4.0,m=2", ["m=2,n=4"]),
        (f":{TARGET}@m=1:coalesced", ["m=1,n=10"]),
    ],
)
def test_an_address_selects_points(stored, suffix, names):
    found = address.find(f"{stored.path}{suffix}")
    assert sorted(one.target for one in found.outlines()) == [f"{TARGET}@{name}" for name in names]


def test_a_point_that_is_not_there(stored):
    with pytest.raises(UsageError) as caught:
        address.find(f"{stored.path}:{TARGET}@n=5").outlines()
    assert str(caught.value).startswith(
        f"'{stored.path}' has no result of '{TARGET}@n=5'. Did you mean '{TARGET}@m=2,n="
    )


def test_a_single_point_is_asked_for_where_only_a_single_point_will_do(stored):
    with pytest.raises(UsageError) as caught:
        _ = address.find(f"{stored.path}:{TARGET}@m=2").single
    assert str(caught.value) == (
        f"'{stored.path}' has several results of '{TARGET}@m=2', a sweep; name a point, such as {TARGET}@m=2,n=10"
    )
