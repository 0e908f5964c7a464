"""Several ranks: matching, clocks, the straggler; and the critical path. Figures are known, and must be exact."""

import numpy as np
import pytest

from aiperf_core.errors import UsageError
from aiperf_traces import example, ranks
from aiperf_traces import trace as analysis
from aiperf_traces.critical import WORDS

OFFSETS = (0, 5000, -123_456, 999)


def result(tmp_path, *, options=None, given=None, **job):
    made = example.Job(ranks=4, offsets=OFFSETS, **job)
    files = [example.write(tmp_path / f"rank{rank}.json", made, rank) for rank in given or range(4)]
    return analysis.analyze(files, options or analysis.Options())


def table(result, name):
    return next(one for one in result.tables if one.name == name)


def cell(result, name, row, key):
    records = {next(iter(one.cells.values())): one.cells for one in table(result, name).records}
    return records[row][key]


def test_the_straggler_and_the_clocks_are_exact(tmp_path):
    found = result(tmp_path, steps=8, straggler=2, late=7000)
    assert found.details["straggler"] == "rank 2"
    assert list(found.details["clock_offsets_ns"].values()) == list(OFFSETS)
    assert found.details["residual_skew_ns"] == 0
    share = cell(found, "ranks", "rank 2", "steps")
    assert (share.value, share.high) == (100, 100)
    assert share.low == pytest.approx(67.56, abs=0.01)  # Wilson's interval of 8 of 8
    assert cell(found, "ranks", "rank 2", "lead").value == pytest.approx(7e-6)
    assert found.summary[0] == (
        "rank 2 is the straggler: it holds up the others in 8 of 8 windows, by 7 us in the mean. Against the median of "
        "the others, a window, it is longer: in void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFun… "
        "+7 us."
    )
    spread = table(found, "collectives").records[0].cells
    assert spread["spread"].value == pytest.approx(7e-6)
    assert spread["shortest"].value == pytest.approx(40e-6)


def test_without_a_straggler_nobody_is_named(tmp_path):
    found = result(tmp_path, steps=6)
    assert found.details["straggler"] is None
    assert found.summary[0] == "No rank is last in most of the 6 windows."


def test_a_missing_rank_is_named_and_the_rest_has_figures(tmp_path):
    found = result(tmp_path, steps=6, straggler=2, late=7000, given=(0, 2, 3))
    assert [(one.what, one.reason) for one in found.left_out] == [
        ("rank 1", "no trace was given of it; the job has 4 ranks")
    ]
    assert found.details["straggler"] == "rank 2"


def test_without_numbers_collectives_are_matched_by_order_and_that_is_said(tmp_path):
    found = result(tmp_path, steps=6, straggler=1, late=3000, numbered=False)
    assert "matched by their order, as the trace has no sequence numbers" in table(found, "ranks").note
    assert found.details["straggler"] == "rank 1"


@pytest.mark.parametrize(("lead", "last"), [(110, 1), (90, -1)], ids=["beyond the skew", "within the skew"])
def test_the_last_arrival_must_be_later_than_the_skew(lead, last):
    # The ends of two ranks differ by 200, alternately, so that each end is 50 from their mean.
    count = 40
    end = np.array([[1000 * at, 1000 * at + (200 if at % 2 else 0)] for at in range(count)], dtype=np.int64)
    start = np.array([[1000 * at - 500, 1000 * at - 500] for at in range(count)], dtype=np.int64)
    rows = np.zeros((count, 2), dtype=np.int64)
    found = ranks.Collectives([(0, 0), (1, 0)], rows, start, end, ["ncclAllReduce"] * count, "order", 0)
    clocks = ranks.align(found)
    assert (clocks.offset.tolist(), clocks.skew, clocks.used) == ([0, 100], 50, count)
    found.start[:, 1] += 100 + lead
    assert set(ranks.arrivals(found, clocks).last.tolist()) == {last}


def test_clocks_are_not_aligned_by_broadcasts():
    rows, times = np.zeros((8, 2), dtype=np.int64), np.ones((8, 2), dtype=np.int64)
    found = ranks.Collectives([(0, 0), (1, 0)], rows, times, times, ["ncclBroadcast"] * 8, "order", 0)
    clocks = ranks.align(found)
    assert (clocks.used, clocks.known.tolist()) == (0, [True, False])
    assert set(ranks.arrivals(found, clocks).last.tolist()) == {-1}


def test_two_traces_of_one_rank_are_refused(tmp_path):
    paths = [example.write(tmp_path / f"{name}.json", example.Job(ranks=2), 0) for name in "ab"]
    with pytest.raises(UsageError, match=r"are both of rank 0\. Give one trace of each rank"):
        analysis.analyze(paths, analysis.Options())


@pytest.mark.parametrize("layers", [2, 4, 9])
def test_the_critical_path_of_a_rank_is_exact(tmp_path, layers):
    path = example.write(tmp_path / "one.json", example.Job(steps=3, layers=layers))
    found = analysis.analyze([path], analysis.Options()).details["critical_path"]
    assert found["length_ns"] == found["window_ns"] == 20_000 * layers + 58_000
    assert found["causes_ns"] == {
        "compute": 18_000 * (layers - 1) + 10_000,
        "communication": 40_000,
        "copies": 10_000,
        "host": 6000,
        "launch delays": 2000 * layers + 10_000,
    }
    # Without the collective the last kernel decides: it ends 20000 later than the collective would begin.
    assert found["without_ns"]["communication"] == 20_000 * layers + 32_000


def test_the_critical_path_goes_through_the_straggler(tmp_path):
    found = result(tmp_path, steps=5, layers=4, straggler=3, late=9000).details["critical_path"]
    assert found["length_ns"] == found["window_ns"] == 138_000 + 9000
    assert found["causes_ns"]["compute"] == 18_000 * 3 + 10_000 + 9000
    assert found["causes_ns"]["communication"] == 40_000


def test_slack(tmp_path):
    path = example.write(tmp_path / "one.json", example.Job(steps=3, layers=4))
    found = analysis.analyze([path], analysis.Options())
    # The last kernel runs beside the collective; it could end 26000 later, when the update begins.
    from aiperf_traces import reading, windows
    from aiperf_traces.critical import critical_path

    trace = reading.read([path])[0]
    graph = critical_path([trace], windows.of(trace)[:1], None, None)
    starts = {int(trace.slices.start[row]): spare for (_, row), spare in graph.slack.items()}
    begin = windows.of(trace)[0].start
    assert starts[begin + 80_000] == 26_000
    assert starts[begin + 5000] == 0
    assert set(found.details["critical_path"]["causes_ns"]) == set(WORDS[:5])
