"""The dashboard of a store: lists by SQL, one run at a time, and analyses of the newest results."""

import re
import runpy
import shutil
from pathlib import Path

import pytest
import sqlalchemy as sa

from aiperf_analysis.sources import source
from aiperf_analysis.store import adding, reading
from aiperf_analysis.store.database import opened
from aiperf_core.results import example

HERE = Path(__file__).parent
site = runpy.run_path(str(HERE / "dashboard_site.py"))
history = runpy.run_path(str(HERE / "history_bundles.py"))
RUNS = 12


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A history whose last two runs are slower."""
    folder = tmp_path_factory.mktemp("stored")
    for number in range(RUNS):
        history["run"](folder, number, (0.43e-3 if number < RUNS - 2 else 0.65e-3) * (1 + number % 3 * 1e-3))
    return folder


@pytest.fixture(scope="module")
def store(engine, folder):
    """A store of this history, on SQLite and on PostgreSQL."""
    return filled(engine.place("stored", True), folder)


def filled(url, folder):
    """The store with the bundles of a folder."""
    paths = sorted(folder.iterdir())
    with opened(url) as database:
        assert [one.ending for one in adding.add_all(database, paths)] == ["added"] * len(paths)
    return url


@pytest.fixture
def client(store, monkeypatch):
    """A client of the store. Reading more than a run is an error."""
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
    series, samples = [link for link in site["links"](worse) if not link.startswith("/glossary")][:2]
    assert client.get(series).status_code == 200
    answer = client.get(samples)
    assert answer.status_code == 200
    assert "coalesced" in answer.text
    assert "Which times were measured" in answer.text
    assert f"All {RUNS} runs" in text


def test_the_overview_has_the_course_of_each_best_variant_as_that_of_the_folder(client, folder):
    courses = [one.get("/").text.partition("Over the last runs")[2].partition("</section>")[0]
               for one in (client, site["client_of"](folder))]  # fmt: skip
    assert courses[0] == courses[1]
    assert "time of the last 12 runs" in courses[0]
    (series,) = site["links"](courses[0])
    assert client.get(series).status_code == 200
    (line,) = re.findall(r'<path class="s0 course" d="M([^"]*)"', courses[0])
    heights = [float(number) for number in line.split()[1::2]]
    assert len(heights) == RUNS
    assert min(heights[:-2]) > 2 * max(heights[-2:]), "the two slower runs stand higher"


def test_nothing_got_worse(client, monkeypatch):
    monkeypatch.setattr("aiperf_analysis.store.summaries.worse", lambda *_: ([], 2))
    text = client.get("/").text
    assert "No series got worse." in text
    assert "The newest runs of 2 series were held to their last 24 runs." in text


@pytest.mark.parametrize("query", [
    "", "q=coalesced", "q=COALESCED+nvidia", "q=n%3D", "q=no_such_word", "q=a%00b", "q=%25", "target=ch07.*&limit=7",
    "target=none", "class=nvidia-*", "class=none", "device=cuda", "device=a%00", "label=branch%3Dmain", "limit=5&cursor=7",
])  # fmt: skip
def test_rows_and_runs_are_those_of_the_folder(client, folder, query):
    of_folder = site["client_of"](folder)
    for name in ("rows", "bundles"):
        found, expected = (one.get(f"/api/v1/{name}?{query}") for one in (client, of_folder))
        assert found.status_code == expected.status_code == 200
        assert found.json() == expected.json()


def test_lists_lead_to_their_runs(client):
    lists = {address: client.get(address).text for address in ("/runs", "/rows", "/rows?q=coalesced")}
    assert lists["/runs"].count('<a href="/run/') == RUNS
    assert "24 of 24 rows are shown." in lists["/rows"]
    assert "12 of 12 rows are shown." in lists["/rows?q=coalesced"]
    run = next(one for one in site["links"](lists["/runs"]) if one.startswith("/run/"))
    assert client.get(run).status_code == 200
    assert client.get(run[:-40]).status_code == 200, "the begin of an id"
    assert client.get("/run/" + "0" * 64).status_code == 404
    assert client.get("/run/%25").status_code == 404


@pytest.mark.parametrize("name", ["runs", "rows"])
def test_pages_of_a_list(client, monkeypatch, name):
    monkeypatch.setattr(f"aiperf_analysis.dashboard.pages.{name}.LIMIT", 5)
    count = {"runs": RUNS, "rows": 2 * RUNS}[name]
    pages = [client.get(f"/{name}?page={number}").text for number in range(1, -(-count // 5) + 2)]
    shown = [len({one for one in site["links"](page) if one.startswith(("/run/", "/samples/"))}) for page in pages]
    assert f"page 2 of {-(-count // 5)}" in pages[1]
    assert pages[-1] == pages[-2]
    assert all(shown)


def test_the_first_page_reads_the_same_number_of_rows_of_any_store(store, url, folder, monkeypatch):
    """The statements of the overview and of the lists, and the rows that they give, of 4 runs and of 12."""
    monkeypatch.setattr(source, "LOOK_S", 3600.0)  # a slow page looks at the store again
    some = sorted(folder.iterdir())[:4]
    with opened(url) as database:
        list(adding.add_all(database, some))

    def asked(place, address):
        client, statements = site["client_of"](place), []
        hear = lambda *given: statements.append(given[2])  # noqa: E731
        sa.event.listen(sa.Engine, "before_cursor_execute", hear)
        try:
            assert client.get(address).status_code == 200
        finally:
            sa.event.remove(sa.Engine, "before_cursor_execute", hear)
        return len(statements)

    for address in ("/", "/runs", "/rows", "/rows?q=coalesced", "/rows?target=ch07.*"):
        assert asked(url, address) == asked(store, address) < 48


def test_an_analysis_reads_the_newest_results_and_says_so(store, monkeypatch):
    monkeypatch.setattr(source, "MOST_RESULTS", 4)
    text = site["client_of"](store).get("/history").text
    assert "8 older runs" in text
    assert "only the newest 4 runs of this store are read here; narrow the filters, or use the command" in text


def test_a_run_whose_folder_is_gone_says_so_and_shows_its_rows(url, engine, folder, tmp_path):
    runs = Path(shutil.copytree(folder, tmp_path / "runs"))
    client = site["client_of"](filled(url, runs))
    (run,) = {one for one in site["links"](client.get("/rows?q=coalesced").text) if one.startswith("/run/")} and [
        next(one for one in site["links"](client.get("/runs").text) if one.startswith("/run/"))
    ]
    shutil.rmtree(runs)
    text = client.get(run).text
    assert "coalesced" in text
    if engine.name == "sqlite":
        assert "is gone, or holds another run now; the lists of the dashboard and the series have its figures" in text
        samples = next(one for one in site["links"](text) if one.startswith("/samples/"))
        assert client.get(samples).status_code == 404
        assert "is gone, or holds another run now" in client.get(samples).text
    assert client.get("/").status_code == client.get("/rows").status_code == 200
    series = next(one for one in site["links"](client.get("/rows").text) if one.startswith("/series/"))
    assert client.get(series).status_code == 200


def test_rows_that_are_not_trusted_or_did_not_run_are_on_the_overview(url, tmp_path):
    runpy.run_path(str(HERE / "dashboard_bundles.py"))["whole"](tmp_path / "runs", 1)
    text = site["client_of"](filled(url, tmp_path / "runs")).get("/").text
    wrong = [row for row in example.rows() if row.verdict.is_distrusted]
    assert len(wrong) == 2
    assert f"Not trusted in the newest results: {len(wrong)}" in text
    for row in wrong:
        assert f">{row.name}</a>" in text
    assert ">tensor_memory</a>" not in text
    assert "1 row of the newest results did not run, because their machines cannot run them." in text


def test_a_series_of_a_store_has_the_steps_of_the_folder(client, folder):
    of_folder = site["client_of"](folder)
    listed = of_folder.get("/api/v1/series").json()["tables"][0]["records"]
    key = next(one["cells"]["key"] for one in listed if one["cells"]["row"] == "coalesced")
    answers = [one.get(f"/api/v1/series/{key}").json() for one in (client, of_folder)]
    assert answers[0] == answers[1]
    assert [one["cells"]["at"] for one in answers[0]["tables"][1]["records"]] == []
