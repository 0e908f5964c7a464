"""A store with very many rows: lists by SQL, one run at a time, and analyses of the newest results."""

import runpy
from pathlib import Path

import pytest

from aiperf_analysis.sources import source
from aiperf_analysis.store import adding, reading
from aiperf_analysis.store.database import opened
from aiperf_core.results import example
from aiperf_core.results.models import DISBELIEVED

HERE = Path(__file__).parent
site = runpy.run_path(str(HERE / "dashboard_site.py"))
history = runpy.run_path(str(HERE / "history_bundles.py"))
RUNS = 12


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A history whose last two runs are slower."""
    folder = tmp_path_factory.mktemp("large")
    for number in range(RUNS):
        history["run"](folder, number, (0.43e-3 if number < RUNS - 2 else 0.65e-3) * (1 + number % 3 * 1e-3))
    return folder


@pytest.fixture(scope="module")
def store(engine, folder):
    """A store of this history, on SQLite and on PostgreSQL."""
    return filled(engine.place("large", True), folder)


def filled(url, folder):
    """The store with the bundles of a folder."""
    paths = sorted(folder.iterdir())
    with opened(url) as database:
        assert [one.ending for one in adding.add_all(database, paths)] == ["added"] * len(paths)
    return url


@pytest.fixture
def client(store, monkeypatch):
    """A client of the store as if it were large. Reading more than a run is an error."""
    monkeypatch.setattr(source, "LARGE", 10)
    select = reading.select

    def of_one_run(url, *, run=None, **more):
        assert run is not None, "a page reads all results"
        return select(url, run=run, **more)

    monkeypatch.setattr(reading, "select", of_one_run)
    return site["client_of"](store)


def test_the_overview_leads_to_the_samples_of_what_got_worse(client):
    text = client.get("/").text
    worse = text.partition("What got worse")[2].partition("</section>")[0].replace("<wbr>", "")
    assert "ch07.memory_access:coalesced" in worse
    assert "REGRESSION" in worse
    assert "strided" not in worse
    series, samples = site["links"](worse)[:2]
    assert client.get(series).status_code == 200
    answer = client.get(samples)
    assert answer.status_code == 200
    assert "coalesced" in answer.text
    assert "Which times were measured" in answer.text
    assert f"All {RUNS} runs" in text


def test_nothing_got_worse(client, monkeypatch):
    monkeypatch.setattr("aiperf_analysis.store.summaries.worse", lambda database: ([], 2))
    text = client.get("/").text
    assert "No series got worse." in text
    assert "The newest runs of 2 series were held to their last 24 runs." in text


def test_lists_are_those_of_a_small_store(client, store):
    lists = {address: client.get(address).text for address in ("/runs", "/rows", "/rows?q=coalesced")}
    assert lists["/runs"].count('<a href="/run/') == RUNS
    assert "2 of 2 rows of the newest results are shown. The store has 24 rows" in lists["/rows"]
    assert "1 of 1 row of the newest results" in lists["/rows?q=coalesced"]
    links = site["links"](lists["/rows?q=coalesced"])
    assert sum(one.startswith("/series/") for one in links) == 1
    run = next(one for one in site["links"](lists["/runs"]) if one.startswith("/run/"))
    assert client.get(run).status_code == 200
    assert client.get(run[:-40]).status_code == 200, "the begin of an id"
    assert client.get("/run/" + "0" * 64).status_code == 404
    assert client.get("/run/%25").status_code == 404


def test_pages_of_runs(client, monkeypatch):
    monkeypatch.setattr("aiperf_analysis.dashboard.pages.large.PAGE", 5)
    pages = [client.get(f"/runs?page={number}").text for number in (1, 2, 3, 4)]
    assert [one.count('<a href="/run/') for one in pages] == [5, 5, 2, 2]
    assert "page 2 of 3" in pages[1]


def test_an_analysis_reads_the_newest_results_and_says_so(store, monkeypatch):
    monkeypatch.setattr(source, "LARGE", 10)
    monkeypatch.setattr(source, "MOST_RESULTS", 4)
    monkeypatch.setattr(reading, "FEW", 2)
    text = site["client_of"](store).get("/history").text
    assert "8 older runs" in text
    assert "only the newest 4 runs of this large store are read here; narrow the filters, or use the command" in text


def test_a_row_that_is_not_believed_is_on_the_overview(url, tmp_path, monkeypatch):
    monkeypatch.setattr(source, "LARGE", 1)
    runpy.run_path(str(HERE / "dashboard_bundles.py"))["whole"](tmp_path / "runs", 1)
    text = site["client_of"](filled(url, tmp_path / "runs")).get("/").text
    wrong = [row for row in example.rows() if row.verdict in DISBELIEVED]
    assert f"Not trusted in the newest results: {len(wrong)}" in text
    for row in wrong:
        assert f">{row.name}</a>" in text


def test_the_board_has_the_figures_of_the_bundles(store, folder):
    """By SQL, what a folder shows of its newest run; intervals that follow from those of the times are not stored."""
    from aiperf_analysis.dashboard.pages import rows
    from aiperf_analysis.selection import select
    from aiperf_core.report.result import Figure

    entries = [one for one in select([str(folder)]).latest().every if one.row.role != "control"]
    with opened(store) as database:
        board = reading.board(database)

    def stored(record):
        return record.origins, {
            key: cell
            if not isinstance(cell, Figure)
            else (cell.value, cell.unit, *((cell.low, cell.high) if key in ("time_s", "speedup") else ()))
            for key, cell in record.cells.items()
        }

    assert [stored(rows.stored_record(one)) for one in board] == [stored(rows.record(one)) for one in entries]


def test_a_series_of_a_store_has_the_steps_of_the_folder(client, folder):
    of_folder = site["client_of"](folder)
    listed = of_folder.get("/api/v1/series").json()["tables"][0]["records"]
    key = next(one["cells"]["key"] for one in listed if one["cells"]["row"] == "coalesced")
    answers = [one.get(f"/api/v1/series/{key}").json() for one in (client, of_folder)]
    assert answers[0] == answers[1]
    assert [one["cells"]["at"] for one in answers[0]["tables"][1]["records"]] == []
