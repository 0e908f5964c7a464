"""Loads in a store, on SQLite and on a real PostgreSQL."""

import json
import runpy
import zlib
from pathlib import Path

import pytest
import sqlalchemy as sa
from click.testing import CliRunner

from aiperf_analysis.sources.source import StoreSource
from aiperf_analysis.store import adding, pruning, reading, tables
from aiperf_analysis.store.database import opened
from aiperf_core.cli.main import Shell
from aiperf_core.errors import BundleError
from aiperf_core.plugins import load_plugins
from aiperf_core.results.bundle import Bundle

HERE = Path(__file__).parent
LOADS = runpy.run_path(str(HERE.parents[1] / "aiperf-calc" / "tests" / "load_bundles.py"))
SITE = runpy.run_path(str(HERE / "dashboard_site.py"))
point, payload, written, stored = (LOADS[name] for name in ("point", "payload", "written", "stored"))
PLUGINS = load_plugins()


def add(url, *paths):
    """Add bundles to a store, and return how each ended."""
    with opened(url) as store:
        return [one.ending for one in adding.add_all(store, paths)]


def run(*arguments):
    return CliRunner().invoke(Shell(PLUGINS), ["db", *map(str, arguments)])


def rows(url, table):
    """The rows of a table as dictionaries."""
    with opened(url) as store, store.reading() as connection:
        return [dict(one._mapping) for one in connection.execute(sa.select(table).order_by(*table.primary_key))]


def test_a_point_is_a_row(url, tmp_path):
    path = stored(tmp_path / "b")
    assert add(url, path, path) == ["added", "known"]
    (load,) = rows(url, tables.load)
    assert (load["name"], load["mode"], load["origin"], bool(load["complete"])) == (
        "chat",
        "sweep",
        "aiperf-load",
        True,
    )
    assert (load["capacity_per_s"], load["capacity_per_s_low"], load["met"]) == (20.0, pytest.approx(19.6), 0.99)
    first, _, last = rows(url, tables.load_point)
    expected = json.loads((path / "load/chat.json").read_text())["payload"]["points"][0]
    for column, (name, share) in tables.LOAD_PERCENTILES.items():
        found = expected["latencies"][name][share]
        assert [first[f"{column}{end}"] for end in ("", "_low", "_high")] == [
            found[end] for end in ("value", "low", "high")
        ]
    assert first["e2e_s_p50"] == 0.05
    assert first["e2e_s_p999"] is None
    for name in tables.LOAD_ESTIMATES:
        found = expected[name]
        assert [first[f"{name}{end}"] for end in ("", "_low", "_high")] == [
            found[end] for end in ("value", "low", "high")
        ]
    for name in (*tables.LOAD_FIGURES, "offered_per_s", "lateness_p99_s", "requests", "counted", "state", "started"):
        assert first[name] == expected[name], name
    assert (first["url"], first["rate_per_s"], first["limit_e2e_s"], first["input_high"]) == (
        "http://127.0.0.1:8000", 20.0, 0.5, 32,
    )  # fmt: skip
    assert json.loads(first["outcomes"]) == {"OK": 997, "CUT": 3}
    # A point that is not trusted has what tells why, and no figures.
    assert (bool(last["trusted"]), json.loads(last["reasons"])) == (False, ["UNTRUSTED: the generator was late"])
    assert (last["requests"], last["lateness_p99_s"]) == (1000, 0.0004)
    figures = [*tables.LOAD_FIGURES, *tables.LOAD_ESTIMATES, *tables.LOAD_PERCENTILES]
    assert {last[name] for name in figures} == {None}


def test_a_load_of_aiperf_load_is_read(url, tmp_path):
    """What the package writes has all that the store reads, points without any answer included."""
    load = pytest.importorskip("aiperf_load.records")
    from aiperf_core.results.models import Document
    from aiperf_core.results.structure import document
    from aiperf_load import arrivals, figures, outcomes, spec
    from aiperf_load.outcomes import Kind, Reply

    asked = spec.LoadSpec(
        server=spec.Server(url="http://127.0.0.1:1"), arrivals=spec.Arrivals(rate_per_s=20.0),
        limits=spec.Limits(e2e_s=0.5), rules=spec.Rules(duration_s=10.0, warmup_s=1.0),
    )  # fmt: skip
    times = arrivals.plan(asked).scheduled_s
    points = []
    for name, kind in (("p000", Kind.OK), ("p001", Kind.REFUSED)):
        replies = [
            Reply(number, 100 + at, 128, 64, 100 + at, 100 + at, 100.01 + at, 100.1 + at, 100.1 + at, 64, kind, 200,
                  gaps_s=[0.001] * 63)
            for number, at in enumerate(times.tolist())
        ]  # fmt: skip
        found = outcomes.outcomes(replies, 100.0)
        points.append(figures.point(name, asked, "2026-11-22T10:00:00+00:00", found, complete=True))
    bundle = Bundle(written(tmp_path / "b"))
    result = load.LoadResult(mode="run", points=points, complete=True)
    bundle.write_document(Document("load", "s", "2026-11-22T10:00:00+00:00", document(result)))
    bundle.write_manifest(bundle.manifest)
    assert add(url, bundle.path) == ["added"]
    good, failed = rows(url, tables.load_point)
    assert good["e2e_s_p50"] == points[0].latencies["e2e_s"]["p50"].value == pytest.approx(0.1)
    assert json.loads(failed["counted_outcomes"]) == {"OK": 0, "REFUSED": failed["counted"]}
    assert (bool(good["trusted"]), bool(failed["trusted"])) == (True, False)


def changed(**more):
    """A load whose only point has other values."""
    return payload({**point(20, 20), **more})


@pytest.mark.parametrize(("content", "problem"), [
    (payload(point(20, 20), format=2), "has format 2, and this aiperf-calc reads format 1. Upgrade aiperf-calc."),
    ({"rate": 3}, "holds no load of format 1: at the top level: found no field 'mode'; expected every field of a Load"),
    (changed(trusted="yes"), "holds no load of format 1: at points[0].trusted: found \"yes\"; expected true or false"),
    (changed(latencies={}), "holds no load of format 1: point 'p000' has no p50 of ttft_s."),
    ({**payload(), "points": [point(20, 20), point(30, 20)]},
     "holds no load of format 1: it has several points 'p000'."),
])  # fmt: skip
def test_a_load_of_another_format_is_refused_by_name(url, tmp_path, content, problem):
    bad, good = written(tmp_path / "bad", a=content), stored(tmp_path / "good")
    found = run("add", bad, good, "--db", url)
    assert (found.exit_code, found.stderr) == (1, f"refused: '{bad}/load/a.json' {problem}\n")
    assert found.stdout.endswith(": 1 added, 1 refused\n")
    assert len(rows(url, tables.load)) == 1


def test_values_that_an_engine_cannot_hold_are_refused(url, tmp_path):
    bad = written(tmp_path / "b", a=changed(requests=1 << 70), b=changed(state="a\0b"))
    found = run("add", bad, "--db", url)
    assert found.stderr == (
        f"refused: '{bad}' cannot be stored: requests is too large: 1.18e+21. A run writes no such value; the bundle was not added.\n"
    )
    assert rows(url, tables.bundle) == []


def test_a_changed_load_is_refused(url, tmp_path):
    path = stored(tmp_path / "b")
    file = path / "load/chat.json"
    file.write_text(file.read_text().replace("0.0004", "0.0003"))
    found = run("add", path, "--db", url)
    assert found.exit_code == 3
    assert "load/chat.json" in found.stderr
    assert rows(url, tables.bundle) == []


def test_a_bundle_is_stored_with_its_loads_or_not_at_all(url, tmp_path, monkeypatch):
    path = stored(tmp_path / "b")
    with monkeypatch.context() as patched:
        patched.setattr(adding, "insert_loads", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            add(url, path)
    assert rows(url, tables.bundle) == []
    assert add(url, path) == ["added"]


def test_lists_and_parquet_have_loads(url, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    add(url, written(tmp_path / "two", a=payload(), b=payload(point(20, 20))))
    found = run("list", "--db", url).stdout.splitlines()
    assert found[1].split() == ["two", found[1].split()[1], "2026-11-22T10:00:00", "0", "0", "1", "there"]
    assert found[2] == "1 bundles, 0 targets, 0 rows, 1 load points"
    (listed,) = json.loads(run("list", "--json", "--db", url).stdout)
    assert listed["loads"] == {"a": 0, "b": 1}
    found = run("export", "--parquet", tmp_path / "out", "--db", url).stdout.splitlines()
    assert found[-3:] == [
        f"written: {tmp_path}/out/loads.parquet (2 rows)", f"written: {tmp_path}/out/load_points.parquet (1 rows)",
        f"written: {tmp_path}/out/fleets.parquet (0 rows)",
    ]  # fmt: skip
    loads = parquet.read_table(tmp_path / "out/loads.parquet").to_pylist()
    assert [(one["bundle"], one["name"], one["complete"]) for one in loads] == [
        (listed["id"], "a", True), (listed["id"], "b", True),
    ]  # fmt: skip
    (one,) = parquet.read_table(tmp_path / "out/load_points.parquet").to_pylist()
    assert (one["bundle"], one["load"], one["point"], one["trusted"]) == (listed["id"], "b", "p000", True)
    assert (one["origin"], one["goodput_per_s"], one["ttft_s_p99_low"]) == ("aiperf-load", 20.0, pytest.approx(0.0392))


@pytest.fixture
def gone(url, tmp_path):
    """A store of a bundle with a load, whose folder was pruned."""
    path = stored(tmp_path / "b")
    add(url, path)
    folder = pruning.Prunable(Bundle(path).manifest.hashes["manifest.json"], path, 0)
    with opened(url) as store:
        assert len(list(pruning.prune(store, [folder], "all"))) == 1
    return url


def test_a_load_stays_when_the_folder_is_gone(gone, tmp_path):
    client = SITE["client_of"](StoreSource(gone), PLUGINS)
    runs = client.get("/runs").text
    assert "1 load</a>" in runs
    page = client.get(SITE["links"](runs[runs.index("1 load</a>") - 120 :])[0]).text
    place = next(one for one in SITE["links"](page) if one.startswith("/load/"))
    assert place in SITE["links"](client.get("/loads").text)
    answer = client.get(place)
    assert answer.status_code == 200
    assert "http://127.0.0.1:8000" in answer.text
    assert "The capacity is 20 requests/s, at 99 % good requests." in answer.text
    points, failures, _ = client.get(f"/api/v1/loads/{place.rpartition('/')[2]}").json()["tables"]
    cells = [one["cells"] for one in points["records"]]
    assert [(one["point"], one["trust"], one["ok"]) for one in cells] == [
        ("p000", "trusted", 897), ("p001", "trusted", 897), ("p002", "UNTRUSTED", 897),
    ]  # fmt: skip
    assert (cells[0]["good"]["value"], cells[0]["good"]["unit"]) == (100.0, "%")
    assert cells[0]["ttft_p99"]["low"] == pytest.approx(0.0392)
    assert [tuple(one["cells"].values()) for one in failures["records"]] == [
        (f"p00{number}", "CUT", 3, 3) for number in range(3)
    ]  # fmt: skip
    wrong = {
        address: one.status_code for address, one in SITE["crawled"](client, most=150).items() if one.status_code >= 500
    }
    assert not wrong


def test_a_load_that_was_changed_in_the_store_is_refused(gone):
    with opened(gone) as store:
        (measured,) = reading.select(gone).runs
        with pytest.raises(BundleError, match="'load/other' of .* in the store was changed after it was added"):
            reading.document(store, measured, "load", "other")
        with store.writing() as connection:
            connection.execute(
                sa.update(tables.file).where(tables.file.c.path == "load/chat.json").values(data=zlib.compress(b"{}"))
            )
        with pytest.raises(BundleError, match="was changed after it was added: its file does not agree with the seal"):
            reading.document(store, measured, "load", "chat")
    client = SITE["client_of"](StoreSource(gone), PLUGINS)
    place = next(one for one in SITE["links"](client.get("/loads").text) if one.startswith("/load/"))
    answer = client.get(place)
    assert answer.status_code == 422
    assert "its file does not agree with the seal" in answer.text


def test_a_run_of_another_kind_has_no_loads(url, made):
    assert add(url, made.bundle("plain")) == ["added"]
    (measured,) = reading.select(url).runs
    assert measured.bundle is not None
    client = SITE["client_of"](StoreSource(url), PLUGINS)
    assert "No bundle here holds a load" in client.get("/loads").text
    assert 'id="loads"' not in client.get(f"/run/{measured.id}").text
