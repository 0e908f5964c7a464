"""Sizing from the bundle of a sweep: what counts as a point, and what is refused."""

import runpy
from pathlib import Path

import pytest

from aiperf_calc import sizing
from aiperf_calc.load_bundle import read_bundle

LOADS = runpy.run_path(str(Path(__file__).with_name("load_bundles.py")))
point, payload = LOADS["point"], LOADS["payload"]
POINTS = [point(80, 40), point(20, 20), point(40, 40), point(60, 60, trusted=False), point(50, 50, complete=False)]


@pytest.fixture
def written(tmp_path):
    """Write a bundle with loads by name."""

    def write(**loads):
        contents = {name: payload(*one) if isinstance(one, list) else one for name, one in loads.items()}
        return LOADS["written"](tmp_path / "b", **contents)

    return write


def test_trusted_and_complete_points_are_the_curve(written):
    curve = read_bundle(written(server=POINTS))
    assert [(one.rate_per_s, one.goodput_per_s, one.residence_s) for one in curve.points] == [
        (20, 20, 0.1), (40, 40, 0.1), (80, 40, 0.1)
    ]  # fmt: skip
    assert curve.points[0].goodput_low == pytest.approx(19.6)
    assert curve.limit_s == 0.5


@pytest.mark.parametrize(("peak", "wanted"), [(30, 1), (60, 2), (90, 3)])
def test_the_command_sizes_a_bundle(aiperf, written, peak, wanted):
    path = written(server=POINTS)
    # ceil(peak * 1.2 / 40), the goodput of the highest rate that met the limits. It may be up to 80, which missed them.
    assert sizing.size(read_bundle(path), peak, headroom=0.2).needed == wanted
    done = aiperf("calc", "sizing", path, "--peak", peak, "--headroom", 0.2)
    assert done.code == 0, done.err
    assert f"for {peak} requests/s at peak with 20 % headroom." in done.out


@pytest.mark.parametrize(("loads", "code", "message"), [
    ({}, 2, "'{path}' has no load; sizing takes a bundle with one load. Measure it: aiperf load sweep URL"),
    ({"a": POINTS, "b": POINTS}, 2,
     "'{path}' has 2 loads, a, b; sizing takes a bundle with one load. Measure it: aiperf load sweep URL"),
    ({"a": [point(60, 60, trusted=False)]}, 1,
     "none of the 1 points of '{path}' can be used: a point must be trusted, complete and with a goodput. Imported "
     "results are never trusted. Measure on a quieter machine: aiperf load sweep URL"),
    ({"a": {"points": [{"rate": 3}], "format": 1}}, 1,
     "'{path}/load/a.json' holds no load of format 1: at the top level: found no field 'mode'; expected every field of a "
     "Load"),
    ({"a": payload(*POINTS, format=2)}, 1,
     "'{path}/load/a.json' has format 2, and this aiperf-calc reads format 1. Upgrade aiperf-calc."),
])  # fmt: skip
def test_what_cannot_be_sized_is_told(aiperf, written, loads, code, message):
    path = written(**loads)
    done = aiperf("calc", "sizing", path, "--peak", 10)
    assert (done.code, done.err) == (code, f"aiperf: {message}\n".replace("{path}", str(path)))


def test_a_changed_bundle_is_refused(aiperf, written):
    path = written(server=POINTS)
    file = path / "load/server.json"
    file.write_text(file.read_text().replace("80", "90"))
    done = aiperf("calc", "sizing", path, "--peak", 10)
    assert done.code == 3
    assert "load/server.json" in done.err
