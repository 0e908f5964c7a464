"""The host floor: each implementation at the sizes that leave the host's work alone, beside its row."""

from collections.abc import Callable

import pytest

from aiperf_core import Benchmark
from aiperf_core.errors import BenchmarkError
from aiperf_core.measurements import Samples
from aiperf_core.render import notes
from aiperf_core.report.metrics import METRICS
from aiperf_core.results.models import Row, TargetResult


@pytest.fixture(scope="module")
def result(shared_measure: Callable[..., object]) -> TargetResult:
    found = shared_measure("floors")
    assert isinstance(found, TargetResult), found
    return found


def test_the_floor_is_the_program_on_the_smallest_tensors(result: TargetResult) -> None:
    row = result.rows[0]
    assert result.problem.params == {"n": 1 << 18, "steps": 40}
    assert result.problem.floor == {"n": 1}
    assert len(row.floor_samples_s) >= 7
    assert row.floor_s is not None
    assert row.time_s is not None
    assert 0 < row.floor_s.value < row.time_s.value, "40 additions of one element take less than those of 262,144"
    assert METRICS["floor_s"].of(result, row).value == row.floor_s.value
    told = dict(notes.notes(result))
    assert told["host floor"].startswith("pairs: it does not run at the floor's sizes: RuntimeError")
    shown = [text for label, text in notes.notes(result) if label == "host floor"]
    assert shown[0].startswith("steps ")
    assert shown[0].endswith("is the host's: what the same calls take at n=1")


def test_code_that_does_not_take_such_sizes_has_its_row_and_no_floor(result: TargetResult) -> None:
    row = result.rows[1]
    assert row.is_believed, row.reason
    assert (row.floor_samples_s, row.floor_s) == ([], None)
    assert row.no_floor is not None
    assert row.no_floor.startswith("RuntimeError: shape '[-1, 2]' is invalid")


def test_a_target_that_declares_none_has_no_floor(shared_measure: Callable[..., object]) -> None:
    found = shared_measure("pinned")
    assert isinstance(found, TargetResult), found
    row: Row = found.rows[0]
    assert (row.floor_s, row.no_floor, found.problem.floor) == (None, None, {})
    assert METRICS["floor_s"].of(found, row).reason == "the workload declares no sizes of a host floor"


def test_the_witness_runs_before_samples_by_the_wall_clock(result: TargetResult) -> None:
    taken: Samples = result.rows[0].samples
    assert any(turn is not None for turn in taken.witness_s)
    assert result.witness_quiet_s is not None
    assert result.witness_quiet_s > 1e-6
    assert METRICS["witness"].of(result, result.rows[0]).value is not None
    assert any(label == "witness" for label, _ in notes.notes(result))


@pytest.mark.parametrize(
    ("declared", "presets", "message"),
    [
        ({"clock": "device"}, {"smoke": {"n": 1}}, "has a floor; accepted for that is Benchmark(clock='wall')"),
        ({"clock": "wall"}, {"smoke": {"n": 1, "world_size": 2}}, "has a floor; accepted for that is Benchmark(clock"),
        ({"clock": "wall"}, {"smoke": {"m": 1}}, "has a floor of 'n'; sizes are m"),
    ],
)
def test_floors_that_cannot_be_measured_are_refused(
    declared: dict[str, str], presets: dict[str, dict[str, int]], message: str
) -> None:
    bench = Benchmark(goal="speed", **declared)  # type: ignore[arg-type]
    with pytest.raises(BenchmarkError) as caught:

        @bench.workload(floor={"n": 1}, **presets)
        def inputs(device, generator):
            return {}

    assert message in str(caught.value)
