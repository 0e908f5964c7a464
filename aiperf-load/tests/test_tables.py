"""Tables and notes of a load: what a person reads of it."""

from attrs import evolve
from load_points import point

from aiperf_load import sweep, tables
from aiperf_load.cli import output
from aiperf_load.figures import EARLIER, LATE
from aiperf_load.intervals import Figure
from aiperf_load.records import LoadResult
from aiperf_load.spec import Arrivals, Limits

LIMITED = Limits(ttft_s=0.2)
HALF = Figure(value=0.5, low=0.4, high=0.6)


def late(rate, p99_s, **changes):
    """A point whose generator was late."""
    return point(rate, trusted=False, lateness_p99_s=p99_s, lateness_limit_s=2e-3, reasons=[f"{LATE}, p99"], **changes)


def load(*points, limits=LIMITED, met=0.99):
    """A sweep of these points, in the order in which they were measured."""
    named = [
        evolve(one, name=f"p{number:03d}", spec=evolve(one.spec, limits=limits)) for number, one in enumerate(points)
    ]
    return LoadResult(mode="sweep", points=named, complete=True, knee=sweep.knee(named, met))


def printed(monkeypatch, result, **options):
    monkeypatch.setenv("COLUMNS", "80")
    given = {"picture": None, "csv_file": None, "as_json": False, "verbose": False, **options}
    lines = []
    monkeypatch.setattr(output.click, "echo", lambda text="", **_: lines.append(text))
    monkeypatch.setattr("aiperf_core.cli.tables.click.echo", lambda text="", **_: lines.append(text))
    output.show(result, "server", given)
    return lines


def test_a_table_of_80_columns_compares_rates(monkeypatch):
    lines = printed(
        monkeypatch,
        load(point(20), late(160, 3.2e-3), point(320, state="OVERLOAD", goodput_share=HALF)),
    )
    assert lines[:5] == [
        "points",
        "rate   requests/s  TTFT p50  TTFT p99  TPOT p50  tokens/s  outcome, good",
        "20/s         18.3   10.0 ms         -   5.71 ms     145.7  STEADY, 100 %",
        "160/s         152   10.0 ms   10.0 ms   5.71 ms      1217  UNTRUSTED, 100 %",
        "320/s         304   10.0 ms   10.0 ms   5.71 ms      2426  OVERLOAD, 50 %",
    ]
    assert "note: 20/s: TTFT p99 needs 1,000 requests" in lines


def test_all_figures_are_shown_on_demand():
    brief, full = (tables.tables(load(point(20)), verbose=verbose) for verbose in (False, True))
    assert [one.title for one in brief] == ["points"]
    assert [one.title for one in full] == ["points", "latencies", "over time"]
    assert full[0].heads == tables.POINT_HEADS
    assert full[0].rows[0][0] == "20/s"


def test_without_limits_no_request_is_good_or_bad():
    (table,) = tables.tables(load(point(20), limits=Limits()))
    assert table.heads[-1] == "outcome"
    assert table.rows[0][-1] == "STEADY"


def test_points_have_their_rates_as_names():
    closed = point(5)
    closed = evolve(closed, spec=evolve(closed.spec, arrivals=Arrivals(kind="closed", clients=8)))
    assert tables.labels(load(point(40), point(20), point(40), closed)) == {
        "p003": "closed:8",
        "p001": "20/s",
        "p000": "40/s",
        "p002": "40/s #2",
    }


def test_points_share_a_note():
    result = load(late(20, 3.2e-3), late(20, 5e-3), late(40, 4e-3))
    result = evolve(result, notes=["p001: the first CUT: 'x'", "p9: foreign"])
    assert tables.notes(result) == [
        "20/s #2: the first CUT: 'x'",
        "p9: foreign",
        f"20/s, 20/s #2, 40/s: {LATE}, p99 3.20 to 5.00 ms of at most 2.00 ms, which every latency includes; {EARLIER}",
        "20/s, 20/s #2, 40/s: TTFT p99 needs 1,000 requests",
        "no capacity at 99 % good requests: no measured rate was trusted and met the limits",
    ]


def test_an_unknown_knee_is_left_out():
    assert not any(note.startswith("knee") for note in tables.notes(load(point(20), point(40))))
    known = load(point(20), point(40), point(80), point(160, goodput_share=HALF))
    assert any(note.startswith("knee: ") for note in tables.notes(known))
