"""What `aiperf_core.results` offers to programs that read results."""

import subprocess
import sys
from datetime import UTC, datetime

import attrs
import measured
import pytest

import aiperf_core
from aiperf_core import RequestedTarget, RunRequest, results, units
from aiperf_core.errors import BundleError, UsageError
from aiperf_core.results import Store, open_bundle
from aiperf_core.results.models import Document, Verdict

TARGET = "ch07.memory_access"


def made(path, created="2026-11-21T14:25:30+00:00", seed=0, factors=measured.FACTORS, **changes):
    return measured.bundle(path, seed, factors, created=created, **changes)


@pytest.fixture
def store(tmp_path):
    made(tmp_path / "a", "2026-11-20T10:00:00+00:00", labels={"branch": "main", "pool": "h200"})
    made(tmp_path / "b", "2026-11-21T10:00:00+00:00", seed=1, labels={"branch": "main"})
    made(tmp_path / "c", "2026-11-22T10:00:00+00:00", seed=2, complete=False, labels={"branch": "new"})
    (made(tmp_path / "d").path / "manifest.json").write_text("{}")
    return Store(tmp_path)


@pytest.mark.parametrize(
    ("filters", "names"),
    [
        ({}, "cba"),
        ({"target": TARGET}, "cba"),
        ({"target": "ch07.*"}, "cba"),
        ({"target": "ch08.*"}, ""),
        ({"device": "cuda"}, "cba"),
        ({"device": "cpu"}, ""),
        ({"since": "2026-11-21"}, "cb"),
        ({"since": "2026-11-21T10:00:00Z"}, "cb"),
        ({"since": datetime(2026, 11, 21, 10, 0, 1, tzinfo=UTC)}, "c"),
        ({"since": datetime(2026, 11, 22, 1)}, "c"),
        ({"until": "2026-11-21T11:00:00+01:00"}, "ba"),
        ({"labels": {"branch": "main"}}, "ba"),
        ({"labels": {"branch": "main", "pool": "h200"}}, "a"),
        ({"labels": {"branch": ""}}, ""),
        ({"complete": False}, "c"),
        ({"complete": True, "since": "2026-11-21"}, "b"),
    ],
)
def test_runs_are_filtered_and_newest_first(store, filters, names):
    assert [run.name for run in store.runs(**filters)] == list(names)


def test_what_cannot_be_read_is_left_out_and_named(store):
    (found,) = store.unreadable()
    assert found.name == "d"
    assert "is not a manifest file of format 5" in found.problem


def test_several_roots_and_none(store, tmp_path, monkeypatch):
    other = made(tmp_path / "elsewhere/e", "2026-11-21T12:00:00+00:00").path.parent
    assert [run.name for run in Store(store.roots[0], other).runs()] == ["c", "e", "b", "a"]
    monkeypatch.chdir(tmp_path)
    assert Store().roots[0].as_posix() == "artifacts/runs"
    with pytest.raises(BundleError) as caught:
        Store().runs()
    assert str(caught.value) == (
        "'artifacts/runs' is not a folder; a store is made of folders of bundles, such as artifacts/runs."
    )


def test_a_time_that_is_none(store):
    with pytest.raises(UsageError) as caught:
        store.runs(since="yesterday")
    assert str(caught.value) == "since takes a time in ISO 8601, such as 2026-11-21; got 'yesterday'."


def test_documents_are_listed(store):
    store.runs()[0].bundle.write_document(Document("fleet", "pool", "2026-11-21T10:00:00+00:00", {}))
    assert [run.documents for run in store.runs()] == [("fleet/pool",), (), ()]


def test_a_bundle_and_a_row_say_in_short_what_they_are(store, tmp_path):
    bundle = store.runs()[0].bundle
    assert (
        repr(bundle)
        == f"<Bundle {str(bundle.path)!r}: 1 target, {units.moment(bundle.manifest.created)}, not complete>"
    )
    assert repr(results.Bundle(tmp_path / "none")) == f"<Bundle '{tmp_path}/none': not readable>"
    rows = bundle.outline(TARGET).rows
    assert repr(rows[1]) == "<Row 'coalesced': variant, FASTER, 2.00 ms, 1.999x>"
    assert repr(rows[4]) == "<Row 'remembered': variant, INVALID>"


def test_a_notebook_shows_the_rows_of_a_bundle_in_a_frame(store):
    frame = store.runs()[0].bundle._repr_html_()
    assert frame.startswith('<iframe srcdoc="&lt;!doctype html&gt;')
    assert frame.count("<") == 2
    assert "coalesced" in frame


def test_rows_as_arrow(store):
    pytest.importorskip("pyarrow")
    table = results.rows_table(store)
    assert table.num_rows == 15
    assert table.column_names[:7] == ["bundle", "seal", "created", "commit", "commit_time", "labels", "run"]
    assert table.column("sizes")[0].as_py().startswith('{"n": ')
    rows = table.to_pylist()
    assert [row["implementation"] for row in rows[:5]] == ["strided", "coalesced", "wide", "memcpy", "remembered"]
    newest = store.runs()[0]
    assert {row["bundle"] for row in rows[:5]} == {str(newest.path)}
    assert rows[0]["seal"] == newest.manifest.hashes["manifest.json"]
    assert rows[0]["labels"] == '{"branch": "new"}'
    assert (rows[4]["verdict"], rows[4]["time_s"]) == ("INVALID", None)
    assert rows[1]["speedup"] == newest.bundle.outline(TARGET).rows[1].speedup.value
    assert (rows[1]["world_size"], rows[1]["mechanisms"]) == (1, "")


def test_samples_as_arrow(store):
    pytest.importorskip("pyarrow")
    (first, *_) = store.runs()
    table = results.samples_table(f"{first.path}:{TARGET}:coalesced")
    row = first.bundle.target(TARGET).rows[1]
    assert table.column("device_s").to_pylist() == row.samples.device_s
    assert table.column("hidden").to_pylist() == row.samples.hidden
    assert set(table.column("implementation").to_pylist()) == {"coalesced"}
    assert results.samples_table([first, first.bundle, first.path]).num_rows == 3 * (4 * 24 + 3)


def test_without_pyarrow(store, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    for table in (results.rows_table, results.samples_table):
        with pytest.raises(UsageError) as caught:
            table(store)
        assert str(caught.value) == (
            "Arrow tables and --format parquet need PyArrow, which is not installed. "
            "Install it: pip install 'aiperf-core[arrow]'"
        )


def test_compare_and_verify(store):
    newest, *_, oldest = store.runs()
    found = results.compare(oldest.path, f"{newest.path}:{TARGET}")
    assert [row.implementation for row in found.rows if row.verdict] == ["strided", "coalesced", "wide", "memcpy"]
    seal = oldest.manifest.hashes["manifest.json"]
    assert results.verify(oldest.path, seal=seal).holds
    assert [one.what for one in results.verify(oldest.path, seal="0" * 64).differences] == ["seal"]
    with pytest.raises(UsageError, match="is not a file; it has lines such as"):
        results.verify(oldest.path, signers=oldest.path / "nobody")


def test_a_trend_is_in_the_order_of_commits(tmp_path):
    """The run of the older commit came last."""
    slower = {**measured.FACTORS, "coalesced": 0.6}
    runs = (("x", 20, 11, slower), ("y", 21, 12, measured.FACTORS), ("z", 22, 10, measured.FACTORS))
    for name, day, commit_day, factors in runs:
        moment = "2026-11-{}T10:00:00+00:00"
        made(tmp_path / name, moment.format(day), day, factors, commit_time=moment.format(commit_day))
    (trend,) = results.trend(Store(tmp_path).runs(), TARGET, "coalesced")
    assert (trend.hardware, trend.params, trend.precision) == ("nvidia-h200-x1", {"n": float(1 << 28)}, "fp32")
    assert [point.run.name for point in trend.points] == ["z", "x", "y"]
    assert [point.change for point in trend.points] == [None, Verdict.SLOWER, Verdict.FASTER]
    assert trend.points[1].ratio.value == pytest.approx(0.5 / 0.6, rel=0.01)


def test_a_row_that_is_not_believed_is_a_point_without_a_time(tmp_path):
    made(tmp_path / "x")
    found = results.trend(Store(tmp_path).runs(), TARGET)
    assert [trend.implementation for trend in found] == ["coalesced", "memcpy", "remembered", "strided", "wide"]
    (point,) = found[2].points
    assert (point.verdict, point.time_s, point.ratio, point.change) == (Verdict.INVALID, None, None, None)


def test_other_work_is_another_trend(tmp_path):
    made(tmp_path / "x")
    bundle = made(tmp_path / "y")
    result = bundle.target(TARGET)
    bundle.write_target(attrs.evolve(result, problem=attrs.evolve(result.problem, params={"n": 5})))
    assert len(results.trend(Store(tmp_path).runs(), TARGET, "wide")) == 2
    assert results.trend(Store(tmp_path).runs(), "ch07.other") == []


def test_a_request_as_json():
    request = RunRequest(
        [RequestedTarget(TARGET, ["coalesced"], "cuda", params={"n": 4.0})], tier="audit", budget_s=2.5
    )
    text = results.to_json(request)
    assert results.from_json(RunRequest, text) == request
    assert results.from_json(RunRequest, f'{{"targets": [{{"target": "{TARGET}"}}]}}') == RunRequest(
        [RequestedTarget(TARGET)]
    )
    with pytest.raises(ValueError, match=r"at targets\[0\].variant: found an unknown field"):
        results.from_json(RunRequest, '{"targets": [{"target": "x", "variant": "y"}]}')


@attrs.frozen
class Rate:
    per_s: float
    format: int = 2


@pytest.mark.parametrize("place", ["", "runs/a/load/chat.json"])
def test_the_payload_of_a_document(place):
    def read(**payload):
        return results.read_payload(Document("load", "chat", "", payload), Rate, 2, "aiperf-load", place=place)

    def refused(**payload):
        with pytest.raises(BundleError) as caught:
            read(**payload)
        return str(caught.value).removeprefix(f"'{place or 'load/chat'}' ")

    assert read(per_s=3.0, format=2) == Rate(3.0)
    assert refused(format=3) == "has format 3, and this aiperf-load reads format 2. Upgrade aiperf-load."
    assert refused(per_s="3", format=2) == 'holds no load of format 2: at per_s: found "3"; expected a number from 0'
    if place:  # of another package, of which some fields are read
        assert read(per_s=3.0, format=2, clients=4) == Rate(3.0)
    else:
        assert "at clients: found an unknown field" in refused(per_s=3.0, format=2, clients=4)


def test_every_name_is_there():
    for module in (results, aiperf_core):
        assert all(getattr(module, name) is not None for name in module.__all__)
        with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
            _ = module.nothing


def test_reading_needs_neither_jsonschema_nor_cattrs_nor_torch(tmp_path):
    path = made(tmp_path / "a").path
    code = (
        "import sys; from aiperf_core import results; list(sys.argv)\n"
        "early = {'numpy', 'aiperf_core.harness.run.planner', 'aiperf_core.stats'} & sys.modules.keys()\n"
        "bundle = results.open_bundle(sys.argv[1]); bundle.manifest; bundle.outline(sys.argv[2])\n"
        "print(sorted(early | ({'jsonschema', 'cattrs', 'torch', 'numpy', 'rich'} & sys.modules.keys())))"
    )
    done = subprocess.run([sys.executable, "-c", code, path, TARGET], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_open_bundle_takes_a_path_or_text(tmp_path):
    path = made(tmp_path / "a").path
    assert open_bundle(path).path == open_bundle(str(path)).path == path
    with pytest.raises(BundleError, match="does not exist"):
        open_bundle(tmp_path / "b")
