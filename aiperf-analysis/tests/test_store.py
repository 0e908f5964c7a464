"""The store, on SQLite and on a real PostgreSQL, by the same tests."""

import json
import random
import shutil
import sqlite3
import subprocess
import sys
import threading
import time
import zlib
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
import sqlalchemy as sa
from attrs import asdict, evolve
from click.testing import CliRunner

from aiperf_analysis import lines, selection
from aiperf_analysis.filters import Filters
from aiperf_analysis.store import adding, database, figures, listing, pruning, reading, summaries, tables
from aiperf_analysis.store.database import VERSION, StoreError, made, opened
from aiperf_core.analysis_options import of_files, options_of
from aiperf_core.cli.main import Shell
from aiperf_core.errors import AiperfError, UsageError
from aiperf_core.plugins import load_plugins
from aiperf_core.results import example
from aiperf_core.results.bundle import Bundle
from aiperf_core.results.models import DISBELIEVED, Verdict

DAY = "2026-11-{:02}T10:00:00+00:00"
FIRST = DAY.format(1)


# --- bundles


def written(path, created=FIRST, *, targets=("ch07.memory_access",), labels=None, rows=None, machine=None):
    """Write a bundle, and return its folder."""
    bundle = Bundle.create_at(path)
    for name in targets:
        result = evolve(example.result(), target=name)
        bundle.write_target(evolve(result, rows=rows) if rows else result)
    manifest = evolve(example.manifest(), created=created, labels=labels or {})
    bundle.write_manifest(evolve(manifest, machine=machine or manifest.machine))
    return path


@pytest.fixture(scope="session")
def templates(tmp_path_factory):
    """Bundles of two targets, two kinds of machine and two branches; two began in one second."""
    folder = tmp_path_factory.mktemp("templates") / "runs"
    other = example.manifest().machine
    other = evolve(other, gpus=[{**other.gpus[0], "name": "NVIDIA B200"}])
    control = [*example.rows()[:3], example.row("again", "control", Verdict.SAME, 5.2e-3, 1.001)]
    both = ("ch07.memory_access", "ch07.transpose")
    written(folder / "a", DAY.format(1), labels={"branch": "main"})
    written(folder / "b", DAY.format(2), targets=both, labels={"branch": "main", "pool": "x"})
    written(folder / "c", DAY.format(2), rows=control, labels={"branch": "topic"})
    written(folder / "d", DAY.format(3), targets=("ch07.transpose@n=1e6",), machine=other)
    written(folder / "é", "2026-11-01T09:00:00.5+02:00")
    return folder


@pytest.fixture
def runs(templates, tmp_path):
    """A copy of the bundles."""
    return Path(shutil.copytree(templates, tmp_path / "runs"))


@pytest.fixture(scope="module")
def filled(engine, templates):
    """A store with all bundles, for tests that only read."""
    url = engine.place("filled", True)
    assert add(url, templates) == ["added"] * 5
    return url


def add(url, *paths):
    """Add bundles to a store, and return how each ended."""
    with opened(url) as store:
        return [one.ending for one in adding.add_all(store, adding.named([str(path) for path in paths]))]


PLUGINS = load_plugins()
ANALYSES = PLUGINS.analyses


def run(*arguments, answer=None, env=None):
    return CliRunner().invoke(Shell(PLUGINS), ["db", *map(str, arguments)], input=answer, env=env)


def counted(url):
    """The number of rows of each table."""
    with opened(url) as store, store.reading() as connection:
        return {
            name: connection.execute(sa.select(sa.func.count()).select_from(table)).scalar()
            for name, table in tables.METADATA.tables.items()
        }


# --- a selection is that of the bundles


def same(found, expected):
    """Whether two selections have the same content."""
    assert [asdict(evolve(run, bundle=None)) for run in found.runs] == [
        asdict(evolve(run, bundle=None)) for run in expected.runs
    ]
    assert [(one.run.id, one.result, one.row, one.key) for one in found.every] == [
        (one.run.id, one.result, one.row, one.key) for one in expected.every
    ]
    assert found.left_out == expected.left_out
    assert found.sources == expected.sources


FILTERS = [
    {},
    {"targets": ["*.transpose*"]},
    {"targets": ["ch07.memory_access", "none.*"]},
    {"hardware": "nvidia-b200-*"},
    {"device": "cpu"},
    {"labels": {"branch": "main"}},
    {"labels": {"branch": "main", "pool": "x"}, "targets": ["ch07.transpose"]},
    {"labels": {"branch": "none"}},
]


@pytest.mark.parametrize("filters", FILTERS, ids=str)
def test_a_selection_is_that_of_the_bundles(filled, templates, filters):
    add(filled, templates)
    same(reading.select(filled, **filters), selection.select([str(templates)], **filters))


@pytest.mark.parametrize("name", [name for name in sorted(ANALYSES) if not of_files(ANALYSES[name].record.resolve())])
def test_each_analysis_says_the_same_of_a_store(filled, templates, name):
    add(filled, templates)
    analyze = ANALYSES[name].record.resolve()

    def told(found):
        try:
            return analyze(found, options_of(analyze)())
        except AiperfError as error:
            return str(error)

    assert told(reading.select(filled)) == told(selection.select([str(templates)]))


def left_out(url):
    return {one.what: one.reason for one in reading.select(url).unreadable}


def test_a_bundle_is_read_from_its_folder_while_that_is_the_same(url, engine, runs):
    add(url, runs)

    def read(name):
        """The folder of a run and the samples of its first row, None where these are gone; none for no run."""
        found = reading.select(url)
        of_run = [one for one in found.entries if one.run.path == str(runs / name)]
        return [(one.run.bundle and one.run.bundle.path, one.blocks()) for one in of_run[:1]]

    ((path, blocks),) = read("a")
    expected = next(one for one in selection.select([str(runs / "a")]).entries).blocks()
    assert (path, blocks.key) == (runs / "a", expected.key)
    shutil.rmtree(runs / "a")
    (runs / "b/targets/ch07.transpose.json").write_text("changed")
    shutil.rmtree(runs / "c")
    written(runs / "c", DAY.format(9))  # another run at its place
    if engine.name == "postgresql":  # other users of a server do not have the folder: it keeps the files
        assert [read(name) for name in "abc"] == [[(None, None)]] * 3
        assert left_out(url) == {}
        return
    assert [read(name) for name in "abc"] == [[]] * 3
    gone = "its folder '{}' is gone, or holds another run now; the lists of the dashboard and the series have its figures. If it was moved: aiperf db add FOLDER"
    reasons = left_out(url)
    assert reasons.pop("b").startswith(f"'{runs}/b' was changed after its run ended: targets/ch07.transpose.json")
    assert reasons == {name: gone.format(runs / name) for name in "ac"}
    with opened(url) as store:
        assert figures.matches(store).rows == 44


def test_kept_files_that_were_changed_are_left_out(place, runs, engine):
    url = place(True)
    names = ("a", "b", "c", "d", "é")
    with opened(url) as store:
        list(adding.add_all(store, [runs / name for name in names]))
        every = [
            pruning.Prunable(bundle.manifest.hashes["manifest.json"], bundle.path, 0)
            for bundle in map(Bundle, (runs / name for name in names))
        ]
        assert len(list(pruning.prune(store, every, "all"))) == 5
        changes = {
            "a": ("targets/ch07.memory_access.json", b"no zlib"),
            "b": ("targets/ch07.transpose.json", zlib.compress(b"{}")),
        }
        with store.writing() as connection:
            numbers = {one.name: one.number for one in connection.execute(sa.select(tables.bundle))}
            of_bundle = sa.select(tables.file.c.data).where(
                tables.file.c.bundle == numbers["c"], tables.file.c.path == "manifest.json"
            )
            edited = {**json.loads(zlib.decompress(connection.execute(of_bundle).scalar_one())), "git": "0" * 40}
            changes["c"] = ("manifest.json", zlib.compress(json.dumps(edited).encode()))
            for name, (path, data) in changes.items():
                chosen = (tables.file.c.bundle == numbers[name], tables.file.c.path == path)
                connection.execute(sa.update(tables.file).where(*chosen).values(data=data))
            connection.execute(sa.update(tables.bundle).where(tables.bundle.c.name == "d").values(schema_version=99))
    reasons = left_out(url)
    assert reasons["c"] == (
        "'c' in the store was changed after it was added: its manifest does not agree with its seal. Restore a copy of "
        "the store, or make a new one and add the bundles again."
    )
    assert reasons["d"] == ("'d' in the store has format 99, and this aiperf reads format 5 only. Upgrade aiperf-core.")
    assert "its file does not agree with the seal" in reasons["b"]
    assert sorted(reasons) == ["a", "b", "c", "d"]


# --- adding


def test_a_bundle_is_added_once(url, runs, tmp_path):
    assert add(url, runs / "a") == ["added"]
    before = counted(url)
    assert (before["bundle"], before["target"], before["row"]) == (1, 1, 8)
    assert add(url, runs / "a", runs / "a") == ["known"]
    shutil.copytree(runs / "a", tmp_path / "copy")
    assert add(url, tmp_path / "copy") == ["known"]
    shutil.rmtree(runs / "a")
    assert add(url, tmp_path / "copy") == ["moved"]
    assert counted(url) == before
    assert reading.select(url).runs[0].bundle.path == tmp_path / "copy"


def test_several_writers_add_a_bundle_once(url, tmp_path):
    paths = [written(tmp_path / f"r{number}", DAY.format(number + 1)) for number in range(8)]
    endings, failed = [], []

    def write(order):
        try:
            endings.extend(add(url, *order))
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=write, args=(order,)) for order in (paths, paths[::-1], paths[3:] + paths[:3])]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert failed == []
    assert sorted(endings) == ["added"] * 8 + ["known"] * 16
    found = counted(url)
    assert (found["bundle"], found["row"], found["series"], found["newest"]) == (8, 64, 8, 1)


def test_a_bundle_is_added_whole_or_not_at_all(url, runs, monkeypatch):
    add(url, runs / "a")
    before = counted(url)

    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(adding, "_renew", killed)
        with pytest.raises(KeyboardInterrupt):
            add(url, runs / "b")
    assert counted(url) == before
    assert add(url, runs / "b") == ["added"]


def test_bundles_that_do_not_hold_are_refused_by_name(url, engine, runs):
    target = runs / "a/targets/ch07.memory_access.json"
    target.write_text(target.read_text().replace("5.2134e-3", "5.2e-3").replace("0.0052134", "0.0052"))
    (samples,) = (runs / "b/targets").glob("ch07.transpose.*.npz")
    samples.write_bytes(samples.read_bytes()[:-1] + b"x")
    manifest = runs / "c/manifest.json"
    manifest.write_text(manifest.read_text().replace('"schema_version": 5', '"schema_version": 6'))
    (runs / "d/manifest.json").write_text("[]")
    found = run("add", runs, "--db", url)
    assert found.exit_code == 3
    assert found.stdout == f"{engine.shown(url)}: 1 added, 4 refused\n"
    refused = sorted(found.stderr.splitlines())
    assert refused == [
        f"refused: '{runs}/a' was changed after its run ended: targets/ch07.memory_access.json has other content. What is read from it is no evidence. All differences: aiperf recheck {runs}/a",
        f"refused: '{runs}/b' was changed after its run ended: targets/{samples.name} has other content. What is read from it is no evidence. All differences: aiperf recheck {runs}/b",
        f"refused: '{manifest}' has format 6, and this aiperf reads format 5 only. Upgrade aiperf-core.",
        f"refused: '{runs}/d/manifest.json' is not a manifest file of format 5: at the top level: found a list of 0; expected an object. It was cut off or changed after aiperf wrote it; restore it or run again.",
    ]
    shutil.rmtree(runs / "a")
    shutil.rmtree(runs / "b")
    assert run("add", runs, "--db", url).exit_code == 1


def test_a_run_that_goes_on_is_left_out(url, engine, runs):
    bundle = Bundle.create_at(runs / "open")
    bundle.write_target(example.result())
    bundle.write_manifest(evolve(example.manifest(), exit_code=None, complete=False))
    found = run("add", runs / "open", runs / "a", "--db", url)
    assert (found.exit_code, found.stdout) == (0, f"{engine.shown(url)}: 1 added, 1 left out without a seal\n")
    assert found.stderr == (
        f"left out: '{runs}/open' has no seal yet, since its run goes on or was killed: a change of its files would not be seen. If it was killed: aiperf run --resume {runs}/open\n"
    )


@pytest.mark.parametrize(
    ("labels", "problem"),
    [({"a": "x\0y"}, "value has a NUL character")],
    ids=["NUL"],
)
def test_values_that_an_engine_cannot_hold_are_refused(url, tmp_path, labels, problem):
    path = written(tmp_path / "odd", labels=labels)
    with opened(url) as store:
        (found,) = adding.add_all(store, [path])
    assert (found.ending, found.exit_code) == ("refused", 1)
    assert found.reason == (
        f"'{path}' cannot be stored: {problem}. A run writes no such value; the bundle was not added."
    )
    assert set(counted(url).values()) == {0}


def test_a_number_beyond_the_engines_is_refused(url, tmp_path):
    machine = evolve(example.manifest().machine, cores=10**25)
    with opened(url) as store:
        (found,) = adding.add_all(store, [written(tmp_path / "odd", machine=machine)])
    assert found.reason.startswith(f"'{tmp_path}/odd' cannot be stored: cores is too large: 1e+25.")


def test_hostile_names_do_not_reach_the_terminal(url, tmp_path):
    written(tmp_path / "a\x1b[2Jb", labels={"x": "\x1b]0;owned\x07"}, created="\x1b[31m9")
    assert run("add", tmp_path, "--db", url).exit_code == 0
    found = run("list", "--db", url)
    assert found.exit_code == 0
    assert "\x1b" not in found.stdout
    assert "9" in found.stdout


def test_a_name_of_no_bundle_adds_nothing(url, runs):
    found = run("add", runs / "a", "nowhere", "--db", url)
    assert found.exit_code == 2
    assert found.stderr.startswith("aiperf: 'nowhere' names no bundle.")
    found = run("add", f"{runs}/a:ch07.memory_access", "--db", url)
    assert found.stderr == (
        f"aiperf: '{runs}/a:ch07.memory_access' names a target; a store takes whole bundles: {runs}/a\n"
    )
    assert counted(url)["bundle"] == 0


# --- figures by SQL


def as_filters(chosen):
    labels = tuple(sorted(chosen.get("labels", {}).items()))
    return Filters(tuple(chosen.get("targets", ())), chosen.get("hardware"), chosen.get("device"), labels)


@pytest.mark.parametrize("chosen", FILTERS, ids=str)
def test_lists_and_summaries_by_sql_are_those_of_the_bundles(filled, templates, chosen):
    add(filled, templates)
    filters, selected = as_filters(chosen), selection.select([str(templates)], **chosen)
    with opened(filled) as store:
        if not chosen:
            assert summaries.contents(store) == lines.contents_of(selected) >= {"quick"}
        newest = summaries.newest_results(store, filters, 100)
        expected = lines.newest_of_selection(selected, 100)
        assert evolve(newest, distrusted=[]) == evolve(expected, distrusted=[])
        assert sorted(newest.distrusted, key=str) == sorted(expected.distrusted, key=str)
        for words in ((), ("strided",), ("invalid", "ch07"), ("b200", "n=")):
            found, of_bundles = figures.matches(store, filters, words), lines.rows_of_selection(selected, words)
            every = of_bundles.part(0, of_bundles.total)
            assert found.rows == len(every)
            assert figures.rows(store, found, 0, found.rows) == every
            assert figures.rows(store, found, 5, 20) == every[5:20]
        runs = lines.runs_of_selection(selected, filters)
        assert listing.run_lines(store, figures.bundles(store, filters), filters) == runs.part(0, runs.total)
        assert figures.counts(store) == figures.Counts(5, 6, 44, 0)


def test_the_newest_is_that_by_time_and_not_the_last_added(url, runs):
    for name in "cbaéd":
        add(url, runs / name)
    newest = selection.select([str(runs)]).latest()
    expected = {(one.run.path, one.result.target) for one in newest.every}
    with opened(url) as store, store.reading() as connection:
        of = tables.target
        joined = tables.newest.join(of, of.c.id == tables.newest.c.target).join(
            tables.bundle, tables.bundle.c.number == of.c.bundle
        )
        found = connection.execute(sa.select(tables.bundle.c.path, of.c.name).select_from(joined)).all()
    assert sorted(map(tuple, found)) == sorted(expected)
    assert (str(runs / "c"), "ch07.memory_access") in expected  # of two in one second that with the greater name


def test_a_series_has_the_believed_rows_in_the_order_of_time(filled, templates):
    add(filled, templates)
    stored = reading.select(filled)
    assert len(stored.series()) > 8
    with opened(filled) as store:
        for key, entries in stored.series().items():
            found = figures.series(store, key)
            assert found.created == [one.run.created for one in entries]
            rows = [one.row for one in entries]
            # Of two runs of one second, a selection has that with the greater name first.
            assert sorted(zip(found.bundle, found.verdict, found.figures["time_s"], strict=True)) == sorted(
                (one.run.id, row.verdict.value, row.time_s) for one, row in zip(entries, rows, strict=True)
            )
            last = figures.series(store, key.digest, limit=1)
            assert (len(last), last.bundle) == (1, found.bundle[-1:])
        assert len(figures.series(store, "none")) == 0


def test_a_row_that_is_not_believed_has_no_figures(url, tmp_path):
    rows = [evolve(row, verdict=Verdict.INVALID, reason="a finding", speedup=None) for row in example.rows()[:2]]
    add(url, written(tmp_path / "odd", rows=rows))
    with opened(url) as store:
        (one, _) = figures.rows(store, figures.matches(store), 0, 2)
        (key, _) = {entry.key for entry in reading.select(url).every}
        assert len(figures.series(store, key)) == 0
    assert (one.verdict, one.reason) == (Verdict.INVALID, "a finding")
    assert {figure.value for figure in one.figures.values()} == {None}
    assert one.figures["time_s"].reason == "INVALID: a finding"


# --- the command


def test_a_store_from_the_first_to_the_last_command(place, engine, runs, monkeypatch):
    url = place()
    shown = engine.shown(url)
    env = {"AIPERF_DB": url}
    found = run("list", env=env)
    assert (found.exit_code, found.stdout) == (1, "")
    missing = "there is no store at" if engine.name == "sqlite" else ""
    holds = "" if engine.name == "sqlite" else " holds no store"
    assert (
        found.stderr
        == f"aiperf: {missing}{' ' if missing else ''}{shown}{holds}. Make it: aiperf db init --db {shown}\n"
    )
    assert run("init", env=env).stdout == f"made {shown}\n"
    assert run("init", env=env).stdout == "the store exists already; nothing was changed\n"
    assert run("list", env=env).stdout == f"{shown} has no bundles. Add some: aiperf db add FOLDER\n"
    assert run("add", runs, env=env).stdout == f"{shown}: 5 added\n"
    monkeypatch.chdir(runs.parent)
    assert run("add", "--in", "runs", env=env).stdout == f"{shown}: 0 added, 5 there already\n"
    assert run("add", env=env).stderr == (
        "aiperf: 'artifacts/runs' does not exist, so there are no results yet. Make some: aiperf run PATTERN\n"
    )
    shutil.rmtree(runs / "a")
    found = run("list", "--limit", 3, env=env).stdout.splitlines()
    assert found[0].split() == [
        "bundle",
        "seal",
        "run",
        "targets",
        "rows",
        "load",
        "points",
        *["kind", "of", "machine", "folder"],
    ]
    assert [line.split()[0] for line in found[1:4]] == ["d", "c", "b"]
    assert found[4:] == ["5 bundles, 6 targets, 44 rows, 0 load points; 2 older bundles are not shown (--limit)"]
    listed = json.loads(run("list", "--json", env=env).stdout)
    assert [(one["name"], one["folder"]) for one in listed] == [
        ("d", "there"), ("c", "there"), ("b", "there"), ("a", "gone"), ("é", "there"),
    ]  # fmt: skip
    assert listed[2]["labels"] == {"branch": "main", "pool": "x"}
    assert listed[0]["hardware"] == ["nvidia-b200-x1"]


def test_an_analysis_reads_a_store(filled, templates):
    add(filled, templates)
    analyze = ["analyze", "overview", "--json"]
    shell = Shell(PLUGINS)
    found, expected = (CliRunner().invoke(shell, [*analyze, *more]) for more in (["--db", filled], [str(templates)]))
    assert (found.exit_code, found.stderr) == (0, "")
    assert found.stdout == expected.stdout


# --- keeping and removing


def test_old_folders_are_removed_and_figures_stay(url, engine, tmp_path):
    folder = tmp_path / "runs"
    for number in range(1, 6):
        written(folder / f"r{number}", DAY.format(number))
    written(folder / "other", DAY.format(1), targets=("ch07.transpose",))
    add(url, folder)
    before = reading.select(url)
    found = run("prune", "--keep", 2, "--dry-run", "--db", url)
    assert found.stdout.splitlines()[:-1] == [f"{folder}/r1", f"{folder}/r2", f"{folder}/r3"]
    assert found.stdout.splitlines()[-1].startswith("would remove 3 folders, ")
    assert run("prune", "--keep", 2, "--db", url, answer="n\n").exit_code == 1
    assert len(list(folder.iterdir())) == 6
    (folder / "r1/notes.txt").write_text("mine")
    shutil.rmtree(folder / "r2")
    written(folder / "r2", DAY.format(20))
    found = run("prune", "--keep", 2, "--yes", "--db", url)
    assert found.exit_code == 0
    assert found.stderr == (
        f"kept: '{folder}/r1' was not removed: beside a run's results it holds 'notes.txt'. Move that away, or remove the folder yourself.\n"
        f"kept: '{folder}/r2' holds another bundle than the one that was added from there\n"
    )
    assert found.stdout.splitlines()[0] == f"removed {folder}/r3"
    assert sorted(one.name for one in folder.iterdir()) == ["other", "r1", "r2", "r4", "r5"]
    kept = reading.select(url)
    lost = set() if engine.name == "postgresql" else {"r1", "r2"}  # changed folders, of which SQLite keeps no files
    assert {one.what for one in kept.unreadable} == lost - {"r1"}
    assert {one.id for one in before.runs} - {one.id for one in kept.runs} == {
        one.id for one in before.runs if Path(one.path).name in lost - {"r1"}
    }
    (pruned,) = [one for one in kept.every if one.run.path == str(folder / "r3")][:1]
    (expected,) = [one for one in before.every if one.run.path == str(folder / "r3")][:1]
    assert (pruned.result, pruned.row, pruned.run.bundle) == (expected.result, expected.row, None)
    with opened(url) as store:
        assert {one.name: one.folder for one in listing.listed(store)}["r3"] == "pruned"
        with store.reading() as connection:
            assert connection.execute(sa.select(tables.tombstone.c.rule)).scalars().all() == ["keep 2"]
    shutil.rmtree(folder / "r1")
    shutil.rmtree(folder / "r2")
    assert run("prune", "--keep", 2, "--yes", "--db", url).stdout == "nothing to remove\n"


def test_the_folder_of_a_changed_bundle_stays(url, tmp_path):
    for number in (1, 2):
        written(tmp_path / f"r{number}", DAY.format(number))
    add(url, tmp_path)
    file = next((tmp_path / "r1" / "targets").glob("*.json"))
    file.write_bytes(file.read_bytes() + b" ")
    found = run("prune", "--keep", 1, "--yes", "--db", url)
    assert (found.exit_code, found.stdout) == (3, "nothing to remove\n")
    assert found.stderr.startswith(f"kept: '{tmp_path}/r1' was changed after its run ended: ")
    assert file.exists()


def test_a_bundle_that_one_series_needs_keeps_its_folder(url, tmp_path):
    written(tmp_path / "both", DAY.format(1), targets=("ch07.memory_access", "ch07.transpose"))
    for number in (2, 3):
        written(tmp_path / f"r{number}", DAY.format(number))
    add(url, tmp_path)
    with opened(url) as store:
        assert [one.path.name for one in pruning.prunable(store, 1)] == ["r2"]


def test_a_kill_between_tombstone_and_folder_is_made_good(url, tmp_path, monkeypatch):
    for number in (1, 2):
        written(tmp_path / f"r{number}", DAY.format(number))
    add(url, tmp_path)
    with opened(url) as store:
        found = pruning.prunable(store, 1)
        with monkeypatch.context() as patched:
            patched.setattr(pruning, "remove", lambda _: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                list(pruning.prune(store, found, "keep 1"))
        assert [one.path.name for one in pruning.prune(store, pruning.prunable(store, 1), "keep 1")] == ["r1"]
    assert counted(url)["tombstone"] == 1


def test_a_store_as_parquet(filled, templates, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    add(filled, templates)
    found = run("export", "--parquet", tmp_path / "out", "--db", filled)
    assert found.exit_code == 0, found.stderr
    assert f"written: {tmp_path}/out/rows.parquet (44 rows)" in found.stdout.splitlines()
    rows = parquet.read_table(tmp_path / "out/rows.parquet").to_pylist()
    expected = {(one.run.id, one.result.target, one.row.name): one for one in reading.select(filled).every}
    assert len(rows) == len(expected)
    for one in rows:
        entry = expected[one["bundle"], one["target"], one["row"]]
        believed = entry.row.verdict not in DISBELIEVED
        assert one["time_s"] == (entry.row.time_s.value if believed else None)
        assert (one["verdict"], one["series"]) == (entry.row.verdict.value, entry.key.digest)
        manifest = entry.run.manifest
        assert (one["created"], one["commit"], one["hardware"]) == (manifest.created, manifest.git, entry.hardware)
        assert (one["run"], dict(json.loads(one["params"]))) == (Path(entry.run.path).name, dict(entry.key.params))
    (bundle,) = [one for one in parquet.read_table(tmp_path / "out/bundles.parquet").to_pylist() if one["name"] == "a"]
    assert bundle["complete"] is True
    again = run("export", "--parquet", tmp_path / "out", "--db", filled)
    assert (again.exit_code, again.stderr) == (
        2,
        f"aiperf: '{tmp_path}/out' exists and is not an empty folder. Name a new one with --parquet.\n",
    )


def test_an_export_that_fails_leaves_nothing(url, runs, tmp_path, monkeypatch):
    pytest.importorskip("pyarrow")
    from aiperf_analysis.store import exporting

    add(url, runs / "a")
    monkeypatch.setattr(exporting, "_value", lambda *_: 1 / 0)
    with opened(url) as store, pytest.raises(ZeroDivisionError):
        exporting.export(store, tmp_path / "deep" / "out")
    assert list((tmp_path / "deep").iterdir()) == []
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert run("export", "--parquet", tmp_path / "out", "--db", url).stderr == (
        "aiperf: --parquet needs PyArrow, which is not installed: pip install 'aiperf-analysis[parquet]'\n"
    )


# --- versions


def test_the_tables_of_sqlite_are_strict(url, engine):
    if engine.name != "sqlite":
        return
    with opened(url) as store, store.reading() as connection:
        listed = connection.exec_driver_sql("SELECT name, strict, wr FROM pragma_table_list WHERE schema = 'main'")
        strict = {name: (strict, without_rowid) for name, strict, without_rowid in listed}
        for name, table in tables.METADATA.tables.items():
            assert strict[name] == (1, int(not table.dialect_options["sqlite"]["with_rowid"])), name
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"


def test_a_store_that_cannot_be_made_leaves_nothing(place, engine, monkeypatch):
    url = place()
    with monkeypatch.context() as patched:
        patched.setattr(database, "VERSION_TABLE", "no name")
        with pytest.raises(sa.exc.DBAPIError):
            made(url)
    with database._connected(url) as store, store.reading() as connection:
        assert sa.inspect(connection).get_table_names() == []
    assert made(url) == (engine.shown(url), True)
    assert made(url) == (engine.shown(url), False)


@pytest.mark.parametrize("version", ["5", "8", "abcdef"])
def test_a_store_of_another_version_is_refused(url, engine, version, runs):
    with opened(url) as store, store.writing() as connection:
        connection.execute(sa.text(f"UPDATE {database.VERSION_TABLE} SET version_num = '{version}'"))
    for command in (["list"], ["init"], ["add", runs]):
        found = run(*command, "--db", url)
        assert (found.exit_code, found.stderr) == (
            1,
            f"aiperf: the store {engine.shown(url)} has version {version}, and this aiperf-analysis reads version {VERSION} only. Make it anew from the bundles: aiperf db init --db NEW; aiperf db add FOLDER --db NEW\n",
        )


def test_a_database_of_another_program_is_left_alone(place, engine):
    url = place()
    engine.load(url, "CREATE TABLE bundle (id integer);")
    found = run("init", "--db", url)
    assert (found.exit_code, found.stderr) == (
        1,
        f"aiperf: {engine.shown(url)} has a table 'bundle' of another program; a store needs a database of its own. Name a new one with --db.\n",
    )


@pytest.mark.parametrize("table", ["TABLE cookies (id integer)", "VIEW moz AS SELECT 1"])
def test_a_database_with_other_names_is_left_alone_too(place, engine, table):
    url, name = place(), table.split()[1]
    engine.load(url, f"CREATE {table};")
    file = Path(url.removeprefix("sqlite:///"))
    before = file.read_bytes() if file.is_file() else b""
    found = run("init", "--db", url)
    assert (found.exit_code, found.stderr) == (
        1,
        f"aiperf: {engine.shown(url)} has a table '{name}' of another program; a store needs a database of its own. Name a new one with --db.\n",
    )
    assert (file.read_bytes() if file.is_file() else b"") == before


@pytest.mark.parametrize("name", ["empty.db", "q?x.db", "a%20b#c.db"])
def test_exactly_the_named_file_becomes_the_store(tmp_path, name):
    (tmp_path / name).touch()
    assert run("init", "--db", tmp_path / name).exit_code == 0
    assert [one.name for one in tmp_path.iterdir()] == [name]
    assert counted(str(tmp_path / name))["bundle"] == 0


@pytest.mark.long
def test_a_killed_command_leaves_a_whole_store(tmp_path, templates):
    file, chance = tmp_path / "s.db", random.Random(1)
    command = [sys.executable, "-m", "aiperf_core", "db", "add", str(templates), "--db", str(file)]
    run("init", "--db", file)
    began = time.monotonic()
    subprocess.run(command, check=True, capture_output=True)
    whole_s = time.monotonic() - began
    for _ in range(30):
        file.unlink()
        run("init", "--db", file)
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(whole_s * chance.uniform(0.3, 1.0))
        process.kill()
        process.wait()
        connection = sqlite3.connect(file)
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        connection.close()
        assert set(add(str(file), templates)) <= {"added", "known"}
        assert counted(str(file))["bundle"] == 5


def test_a_store_is_made_once_by_several(place):
    url, failed = place(), []

    def make():
        try:
            made(url)
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=make) for _ in range(3)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert failed == []
    assert set(counted(url).values()) == {0}


# --- a store that cannot be used


@contextmanager
def held(url, engine):
    """Another process that writes and does not end."""
    if engine.name == "sqlite":
        connection = sqlite3.connect(url.removeprefix("sqlite:///").partition("?")[0], isolation_level=None)
        connection.execute("BEGIN IMMEDIATE")
        yield
        connection.close()
        return
    with psycopg.connect(url) as connection:
        connection.execute("LOCK TABLE bundle")
        yield
        connection.rollback()


def test_a_locked_store(url, engine, runs, monkeypatch):
    monkeypatch.setattr(database, "BUSY_S", 0.1)
    with held(url, engine):
        found = run("add", runs / "a", "--db", url)
    assert (found.exit_code, found.stdout) == (1, "")
    assert found.stderr.startswith(f"aiperf: the store {engine.shown(url)} is locked: ")
    assert found.stderr.endswith("What was added before is stored.\n")
    assert found.stderr.count("\n") == 1
    assert add(url, runs / "a") == ["added"]


def test_a_full_disk(tmp_path, runs, monkeypatch):
    url = f"sqlite:///{tmp_path}/full.db"
    made(url)
    set_up = database._set_up_sqlite
    connection = sqlite3.connect(tmp_path / "full.db")
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    connection.close()

    def small(connection, record):
        set_up(connection, record)
        connection.execute(f"PRAGMA max_page_count = {pages + 8}")

    monkeypatch.setattr(database, "_set_up_sqlite", small)
    for number in range(12):
        written(runs / f"more{number:02}", f"2026-10-{number + 1:02}T10:00:00+00:00")
    found = run("add", runs, "--db", url)
    assert (found.exit_code, found.stderr) == (
        1,
        f"aiperf: the store {url} cannot be written: the disk is full. Free some space and try again; what was added before is stored, and nothing half-way.\n",
    )
    monkeypatch.undo()
    before = counted(url)
    assert 0 < before["bundle"] < 17
    assert add(url, runs).count("known") == before["bundle"]


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (
            psycopg.errors.DiskFull("no space"),
            "cannot be written: the server lacks disk, memory or connections (no space).",
        ),
        (psycopg.errors.DeadlockDetected("x"), "was being written by others in a conflicting order. Try again (x)."),
        (psycopg.errors.InsufficientPrivilege("x"), "cannot be used: this user lacks a right."),
        (psycopg.errors.AdminShutdown("x"), "cannot be reached: the server shuts down or ended the connection."),
        (psycopg.errors.ReadOnlySqlTransaction("x"), "cannot be written: the server is read-only."),
    ],
    ids=lambda one: type(one).__name__,
)
def test_errors_of_a_server_are_told(error, told):
    wrapped = sa.exc.DBAPIError.instance("", {}, error, psycopg.Error)
    found = database._postgresql_told(wrapped)
    assert found.startswith(told)
    assert found.endswith("What was added before is stored.")


def test_a_mistake_of_ours_keeps_its_traceback(url):
    with pytest.raises(sa.exc.DBAPIError), opened(url) as store, store.reading() as connection:
        connection.execute(sa.text("SELECT nothing FROM nowhere"))


@pytest.mark.parametrize(
    ("text", "code", "told"),
    [
        ("mysql://u:secret@h/x", 2, "'mysql://u:***@h/x' is no store. Accepted: sqlite:///FILE, the path of a file, or postgresql://USER@HOST/NAME."),
        ("sqlite://", 2, "'sqlite://' is no store. Accepted: sqlite:///FILE, the path of a file, or postgresql://USER@HOST/NAME."),
        ("://", 2, "'://' is no store. Accepted: sqlite:///FILE, the path of a file, or postgresql://USER@HOST/NAME."),
        ("sqlite:///x.db?timeout=soon", 2, "'sqlite:///x.db?timeout=soon' has an option that is unknown. Accepted: ?timeout=SECONDS. For a file with '?' in its name, give the path of the file."),
        ("sqlite:///q?x.db", 2, "'sqlite:///q?x.db' has an option that is unknown. Accepted: ?timeout=SECONDS. For a file with '?' in its name, give the path of the file."),
        ("sqlite:///q?", 2, "'sqlite:///q?' has an option that is unknown. Accepted: ?timeout=SECONDS. For a file with '?' in its name, give the path of the file."),
        ("sqlite+aiosqlite:///x", 2, "'sqlite+aiosqlite:///x' is no store. Accepted: sqlite:///FILE, the path of a file, or postgresql://USER@HOST/NAME."),
        ("sqlite://h/x.db", 2, "'sqlite://h/x.db' is no store. Accepted: sqlite:///FILE, the path of a file, or postgresql://USER@HOST/NAME."),
        ("postgresql:///x?wrong=1", 1, 'the store postgresql:///x?wrong=1 cannot be reached: invalid connection option "wrong". Check the host, the port, the user and the database in --db; then try again.'),
        ("{folder}/text", 1, "the store sqlite:///{folder}/text is no database of SQLite. Name another file with --db."),
        ("{folder}", 1, "the store sqlite:///{folder} cannot be opened: it is a folder, or this user may not use its folder. Name a file with --db."),
        ("{folder}/text/x.db", 1, "cannot make the folder of sqlite:///{folder}/text/x.db: File exists."),
        ("postgresql://u:secret@127.0.0.1:1/x", 1, 'the store postgresql://u:***@127.0.0.1:1/x cannot be reached: connection failed: connection to server at "127.0.0.1", port 1 failed: Connection refused. Check the host, the port, the user and the database in --db; then try again.'),
    ],
    ids=["engine", "memory", "nothing", "option", "no option", "empty option", "driver", "host", "option of a server", "text", "folder", "below a file", "no server"],
)  # fmt: skip
def test_places_that_are_no_store(tmp_path, text, code, told):
    (tmp_path / "text").write_text("this is no database, and stays as it is\n" * 100)
    found = run("init", "--db", text.format(folder=tmp_path))
    assert (found.exit_code, found.stderr) == (code, f"aiperf: {told.format(folder=tmp_path)}\n")
    assert (tmp_path / "text").read_text().startswith("this is no database")


def test_a_server_without_that_database_or_user(server):
    found = run("list", "--db", server.replace("/postgres?", "/nothing?"))
    assert found.exit_code == 1
    assert 'FATAL: database "nothing" does not exist. Check the host' in found.stderr
    assert found.stderr.count("\n") == 1


def test_psycopg_is_asked_for(monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg", None)
    found = run("list", "--db", "postgresql://h/x")
    assert (found.exit_code, found.stderr) == (
        2,
        "aiperf: a store on PostgreSQL needs psycopg, which is not installed: pip install 'aiperf-analysis[postgres]'\n",
    )


def test_a_path_is_a_file_of_sqlite():
    assert database.shown("a/b.db") == "sqlite:///a/b.db"
    assert database.url_of("postgres://h/x").drivername == "postgresql+psycopg"
    with pytest.raises(UsageError, match="is no store"):
        database.url_of("sqlite:///:memory:")


def test_a_read_only_store_says_so(runs, tmp_path, monkeypatch):
    url = f"sqlite:///{tmp_path}/s.db"
    made(url)
    # Root may write anywhere, so that a file without permissions would not do.
    set_up = database._set_up_sqlite
    monkeypatch.setattr(
        database, "_set_up_sqlite", lambda one, _: (set_up(one, _), one.execute("PRAGMA query_only = 1"))
    )
    with pytest.raises(StoreError, match="cannot be written: the file or its folder is read-only for this user"):
        add(url, runs / "a")


def test_help_and_parsing_import_no_database():
    code = (
        "import sys; from aiperf_core.cli.main import main; sys.argv = ['aiperf', 'db', 'add', '--help']\n"
        "try: main()\nexcept SystemExit: pass\n"
        "print({'sqlalchemy', 'numpy', 'psycopg', 'torch'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "--db URL" in done.stdout
    assert done.stdout.splitlines()[-1] == "set()"
