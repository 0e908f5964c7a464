"""Fleets in a store, on SQLite and on a real PostgreSQL, and on the pages of the dashboard."""

import json
import runpy
import zlib
from pathlib import Path

import pytest
import sqlalchemy as sa
from attrs import evolve
from click.testing import CliRunner

from aiperf_analysis.sources.source import FolderSource, StoreSource
from aiperf_analysis.store import adding, listing, pruning, reading, tables
from aiperf_analysis.store.database import opened
from aiperf_core.cli.main import Shell
from aiperf_core.errors import BundleError
from aiperf_core.plugins import load_plugins
from aiperf_core.results import example
from aiperf_core.results.bundle import Bundle

HERE = Path(__file__).parent
FLEETS = runpy.run_path(str(HERE / "fleet_bundles.py"))
SITE = runpy.run_path(str(HERE / "dashboard_site.py"))
PLUGINS = load_plugins()
CREATED, payload, written = (FLEETS[name] for name in ("CREATED", "payload", "written"))


def add(url, *paths):
    """Add bundles to a store, and return how each ended."""
    with opened(url) as store:
        return [one.ending for one in adding.add_all(store, paths)]


def pruned(url, *paths):
    """Remove folders as `aiperf db prune` does."""
    folders = [pruning.Prunable(Bundle(path).manifest.hashes["manifest.json"], path, 0) for path in paths]
    with opened(url) as store:
        assert len(list(pruning.prune(store, folders, "all"))) == len(paths)


def run(*arguments):
    return CliRunner().invoke(Shell(PLUGINS), ["db", *map(str, arguments)])


def rows(url):
    """The fleets of a store as dictionaries."""
    with opened(url) as store, store.reading() as connection:
        return [dict(one._mapping) for one in connection.execute(sa.select(tables.fleet))]


def test_a_fleet_is_a_row(url, tmp_path):
    path = written(tmp_path / "b")
    assert add(url, path, path) == ["added", "known"]
    (found,) = rows(url)
    assert {name: found[name] for name in ("name", "created", "label", "engine", "state", "tasks", "bundles", "slow")} == {
        "name": "nightly", "created": CREATED, "label": "nightly-20261122-100000", "engine": "slurm", "state": "PARTIAL",
        "tasks": 2, "bundles": 1, "slow": '["m2"]',
    }  # fmt: skip
    with opened(url) as store:
        assert [one.fleets for one in listing.listed(store)] == [{"nightly": "PARTIAL"}]
    assert json.loads(run("list", "--json", "--db", url).stdout)[0]["fleets"] == {"nightly": "PARTIAL"}


def test_a_fleet_of_aiperf_fleet_is_read(url, tmp_path):
    """What the package writes has all that the store reads."""
    records = pytest.importorskip("aiperf_fleet.records")
    from aiperf_core.results.structure import document
    from aiperf_fleet.slow import compare
    from aiperf_fleet.suite import Suite

    attempts = [records.Attempt(1, "7", CREATED, "m1", records.Ending.DONE, 0, "", "0" * 64, CREATED)]
    result = records.FleetResult(
        id="n-1", name="n", engine="here", options={}, suite=Suite(name="n", targets=["t"]), created=CREATED,
        state=records.State.COMPLETE, tasks=[records.Task("0001-t", "t", [], "any", 0, attempts=attempts)],
        measurements=[], machines=compare([]),
    )  # fmt: skip
    assert add(url, written(tmp_path / "b", document(result))) == ["added"]
    (found,) = rows(url)
    assert (found["state"], found["tasks"], found["bundles"], found["slow"]) == ("COMPLETE", 1, 1, "[]")


@pytest.mark.parametrize(("content", "problem"), [
    (payload(format=2), "has format 2, and this aiperf-analysis reads format 1. Upgrade aiperf-analysis."),
    ({"rate": 3}, "holds no fleet of format 1: at the top level: found no field 'id'; expected every field of a Fleet"),
    (payload(state=3), "holds no fleet of format 1: at state: found 3; expected a string"),
])  # fmt: skip
def test_a_fleet_of_another_format_is_refused_by_name(url, tmp_path, content, problem):
    found = run("add", written(tmp_path / "b", content), "--db", url)
    assert (found.exit_code, found.stderr) == (1, f"refused: '{tmp_path}/b/fleet/nightly.json' {problem}\n")
    assert rows(url) == []


def test_parquet_has_fleets(url, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    add(url, written(tmp_path / "b"))
    assert (
        f"written: {tmp_path}/out/fleets.parquet (1 rows)\n"
        in run("export", "--parquet", tmp_path / "out", "--db", url).stdout
    )
    (one,) = parquet.read_table(tmp_path / "out/fleets.parquet").to_pylist()
    assert (one["label"], one["state"], one["tasks"], one["bundles"]) == ("nightly-20261122-100000", "PARTIAL", 2, 1)


def test_a_fleet_that_was_changed_in_the_store_is_refused(url, tmp_path):
    path = written(tmp_path / "b")
    add(url, path)
    pruned(url, path)
    (measured,) = reading.select(url).runs
    with opened(url) as store:
        assert reading.document(store, measured, "fleet", "nightly").payload["state"] == "PARTIAL"
        with store.writing() as connection:
            connection.execute(sa.update(tables.file).values(data=zlib.compress(b"{}")))
        with pytest.raises(BundleError, match="was changed after it was added: its file does not agree with the seal"):
            reading.document(store, measured, "fleet", "nightly")


@pytest.fixture
def fleet_and_run(tmp_path):
    """The folder of a bundle of a fleet and of that of its task, and the seal of the latter."""
    runs = tmp_path / "runs"
    task_run = Bundle.create_at(runs / "0001-t")
    task_run.write_target(evolve(example.result(), target="ch07.t"))
    task_run.write_manifest(evolve(example.manifest(), exit_code=0))
    seal = task_run.manifest.hashes["manifest.json"]
    written(runs / "fleet", payload(seal))
    return runs, seal


def test_a_fleet_of_a_folder_has_a_page_that_leads_to_its_runs(fleet_and_run):
    runs, seal = fleet_and_run
    leads_to_its_run(FolderSource(runs), seal)


def test_a_fleet_of_a_store_has_a_page_that_leads_to_its_runs(url, fleet_and_run):
    runs, seal = fleet_and_run
    assert add(url, *runs.iterdir()) == ["added", "added"]
    pruned(url, *runs.iterdir())
    leads_to_its_run(StoreSource(url), seal)


def leads_to_its_run(source, seal):
    client = SITE["client_of"](source, PLUGINS)
    listed = client.get("/runs").text
    assert "1 fleet</a>" in listed
    run_page = client.get(SITE["links"](listed[listed.index("1 fleet</a>") - 120 :])[0]).text
    place = next(one for one in SITE["links"](run_page) if one.startswith("/fleet/"))
    assert place in SITE["links"](client.get("/fleets").text)
    answer = client.get(place)
    assert answer.status_code == 200
    assert "PARTIAL: 1 of 2 tasks left a bundle." in answer.text
    assert "Slow: m2." in answer.text
    assert f"/run/{seal}" in SITE["links"](answer.text)
    machines, tasks, _ = client.get(f"/api/v1/fleets/{place.rpartition('/')[2]}").json()["tables"]
    assert [(one["cells"]["machine"], one["cells"]["slow"]) for one in machines["records"]] == [
        ("m2", "SLOW"), ("m1", None), ("m3", None),
    ]  # fmt: skip
    assert [(one["cells"]["machine"], one["cells"]["ending"], one["cells"]["reason"]) for one in tasks["records"]] == [
        ("m2", "DONE", None), ("m3", "LOST", "lost 1 times"),
    ]  # fmt: skip
    found = {address: one.status_code for address, one in SITE["crawled"](client, most=150).items()}
    assert {code for address, code in found.items() if "fleet" in address} == {200}
    assert max(found.values()) < 500


def test_a_run_of_another_kind_has_no_fleets(url, made):
    add(url, made.bundle("plain"))
    (measured,) = reading.select(url).runs
    client = SITE["client_of"](StoreSource(url), PLUGINS)
    assert "No bundle here holds a fleet" in client.get("/fleets").text
    assert 'id="fleets"' not in client.get(f"/run/{measured.id}").text
