"""The pages: on good, empty, damaged and hostile folders, and on a store."""

import json
import re
import runpy
import shutil
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from attrs import evolve

from aiperf_analysis.filters import Filters
from aiperf_analysis.sources import source
from aiperf_analysis.store import adding, database
from aiperf_core.analysis import Analysis
from aiperf_core.errors import UsageError
from aiperf_core.report.result import counted
from aiperf_core.results import example
from aiperf_core.results.bundle import Bundle
from aiperf_core.results.filenames import MANIFEST
from aiperf_core.results.models import Document
from aiperf_learn.glossary.terms import terms
from aiperf_traces.example import Job, write

HERE = Path(__file__).parent
SITE = runpy.run_path(str(HERE / "dashboard_site.py"))
HISTORY = runpy.run_path(str(HERE / "history_bundles.py"))
NEWEST = datetime(2026, 11, 23, tzinfo=UTC)
client_of, crawled, links = SITE["client_of"], SITE["crawled"], SITE["links"]


@pytest.fixture(scope="module")
def unchanged(unchanged_runs, tmp_path_factory):
    """Bundles with all figures, and a history whose newest runs are slower. To be read only."""
    runs = shutil.copytree(unchanged_runs, tmp_path_factory.mktemp("pages") / "runs")
    usual = next(row.time_s.value for row in example.rows() if row.name == "coalesced")
    for number in range(12):
        time_s = usual if number < 9 else 1.3 * usual
        HISTORY["run"](runs, number, time_s, created=NEWEST + timedelta(hours=number))
    return runs


@pytest.fixture
def folder(unchanged, made):
    """A copy of these bundles for one test, in the folder of `made`."""
    return shutil.copytree(unchanged, made.folder)


@pytest.fixture(scope="module")
def client(unchanged, plugins, tmp_path_factory):
    """A client of the bundles that no test changes."""
    with pytest.MonkeyPatch.context() as patch:
        # No runs of other tests: they end meanwhile, and their results lie elsewhere.
        patch.setenv("XDG_RUNTIME_DIR", str(tmp_path_factory.mktemp("runtime")))
        yield client_of(unchanged, plugins)


def address_of(client, name):
    return next(one for one in client.app.state.site.pages if one.name == name).path


def text_of(answer):
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", answer.text))


def test_every_address_of_every_page_answers(client):
    found = crawled(client)
    wrong = {address: answer.status_code for address, answer in found.items() if answer.status_code >= 500}
    assert not wrong
    pages = {address: one for address, one in found.items() if not address.startswith("/api/")}
    assert {address: one.status_code for address, one in pages.items() if one.status_code != 200} == {}
    reached = {
        page.name
        for page in client.app.state.site.pages
        for address in pages
        if re.fullmatch(re.sub(r"{[^}]*}", "[^/]+", page.path), address.partition("?")[0])
    }
    assert reached >= {"overview", "runs", "run", "samples", "target", "rows", "machine", "roofline", "compare"}


def test_pages_say_their_question_the_command_and_the_addresses_of_their_data(client):
    for page in client.app.state.site.pages:
        if "{" in page.path:
            continue
        answer = client.get(page.path)
        assert page.question in text_of(answer).replace("&#39;", "'"), page.name
        assert "<h1>" in answer.text
        if page.analysis:
            assert f'href="/api/v1/analyses/{page.analysis}' in answer.text
            assert f"aiperf analyze {page.analysis} --in " in answer.text


def test_the_filters_of_an_address_are_those_of_the_command(client, unchanged):
    answer = client.get("/pareto?target=ch09.*&objective=time,energy&class=nvidia-*&across=true&device=")
    assert answer.status_code == 200
    assert (
        f"aiperf analyze pareto --in {unchanged} --target &#39;ch09.*&#39; --class &#39;nvidia-*&#39; "
        "--objective time,energy --across</pre>" in answer.text
    )
    assert 'value="time,energy"' in answer.text


def test_wrong_options_are_told_on_the_page_with_the_form(client):
    answer = client.get("/pareto?objective=speed-of-light-years")
    assert answer.status_code == 400
    assert "<form" in answer.text
    assert "speed-of-light-years" in answer.text
    answer = client.get("/pareto?objectiv=time")
    assert "&#39;objectiv&#39; is no option here. Did you mean &#39;objective&#39;?" in answer.text


def navigation(client):
    """The titles of the navigation, and those behind "More"."""
    text = client.get("/").text.partition("</nav>")[0]
    shown, _, more = text.partition(">More</summary>")
    return tuple(re.findall(r'title="[^"]*">([^<]*)</a>', part) for part in (shown, more))


def test_the_navigation_has_what_has_content(made, plugins, monkeypatch):
    monkeypatch.setenv("AIPERF_PRICES", str(made.folder / "prices.toml"))
    monkeypatch.setattr("aiperf_analysis.sources.source.LOOK_S", 0.0)
    quick = made.result({"plain": 2e-3, "tiled": 1e-3}, tier="quick")
    made.bundle("quick", quick)
    client = client_of(made.folder, plugins)
    shown, more = navigation(client)
    documents = {"Profiles", "Loads", "Fleets", "Glossary"}
    assert set(more) == {"Leaderboard", "Power", "Cost", "Goals", "Traces"} | documents
    assert {"Overview", "Live", "Runs", "Compare", "Pareto", "What-if", "Machines"} <= set(shown)
    assert '<details class="more" open>' in client.get("/power").text
    made.bundle("whole", made.result({"plain": 2e-3, "tiled": 1e-3}, tier="standard", joules={"tiled": 0.1}))
    write(made.folder / "job.json", Job())
    (made.folder / "prices.toml").write_text("")
    assert set(navigation(client)[1]) == {"Goals"} | documents
    with_goals = client_of(made.folder, plugins, given={"targets": {"file": "goals.toml"}})
    assert set(navigation(with_goals)[1]) == documents


def test_the_glossary_has_each_term_and_headings_of_figures_lead_to_it(client):
    page = client.get("/glossary").text
    anchors = re.findall(r'<dt id="([^"]*)"', page)
    assert anchors == [term.slug for term in terms()]
    assert {*re.findall(r'href="/glossary#([^"]*)"', page)} <= {*anchors}
    headings = re.findall(
        r'<th scope="col"[^>]*>([^<]*)<a class="term" href="/glossary#([^"]*)"', client.get("/rows").text
    )
    assert ("median", "median") in headings
    assert "run" not in dict(headings), "a term, and here no figure"
    table = client.get("/api/v1/glossary").json()["tables"][0]
    assert table["records"][0]["cells"]["term"] == "median"


def test_the_page_of_an_error_asks_the_source_nothing(made, plugins, monkeypatch):
    made.bundle("one")

    def broken(source):
        raise RuntimeError("a bug")

    monkeypatch.setattr("aiperf_analysis.sources.source.FolderSource.contents", broken)
    answer = client_of(made.folder, plugins).get("/runs")
    assert answer.status_code == 500
    assert "<h1>" in answer.text
    assert 'href="/power"' in answer.text


def test_a_page_that_is_opened_without_a_question_proposes_some(client, monkeypatch, tmp_path):
    monkeypatch.setenv("AIPERF_PRICES", str(tmp_path / "none.toml"))
    for address in ("/whatif", "/cost"):
        answer = client.get(f"{address}?target=ch09.*")
        assert answer.status_code == 200
        box = re.search(r'<div class="box"><p>.*?</div>', answer.text, re.S)[0]
        presets = links(box)
        assert len(presets) >= 3
        for preset in presets:
            assert preset.startswith(f"{address}?target=ch09.%2A&")
            assert client.get(preset).status_code == 200, preset
            assert 'class="box warn"' not in client.get(preset).text, preset
        assert "box warn" not in answer.text
    text = client.get("/targets").text
    assert "--set targets.file=goals.toml" in text
    assert "box warn" not in text


def test_the_history_of_a_thousand_runs_of_many_series_has_short_pages(client, monkeypatch):
    site = client.app.state.site
    found = site.result("history", Filters(), {})
    (drawing, *_), (series, *_) = found.drawings, found.tables
    (runs, *levels), record = drawing.series, series.records[0]
    points = [evolve(runs.points[0], x=counted(number, "count"), y=counted(1e-3 + number % 7 * 1e-5, "s"))
              for number in range(1, 1001)]  # fmt: skip
    long = evolve(drawing, series=[evolve(runs, points=points), *levels])
    table = evolve(series, records=[evolve(record, cells={**record.cells, "series": f"s{n:04}"}) for n in range(1000)])
    many = evolve(found, drawings=[long] * 8, tables=[table])
    monkeypatch.setattr(site, "result", lambda *_: many)
    first = client.get("/history?metric=time")
    assert len(first.text) < 2_000_000
    assert first.text.count("<figure") == 8
    assert "page 1 of 13" in first.text
    seen = set()
    for page in range(1, 14):
        answer = client.get(f"/history?metric=time&page={page}")
        seen |= set(re.findall(r"\bs\d{4}\b", answer.text))
        assert (f'href="/history?metric=time&amp;page={page + 1}"' in answer.text) == (page < 13)
        assert answer.text.count("<figure") == (8 if page == 1 else 0)
    assert len(seen) == 1000


def test_from_a_picture_to_raw_samples_in_two_steps(client):
    answer = client.get("/target/ch09.matmul")
    samples = [one for one in links(answer.text) if one.startswith("/samples/")]
    assert samples
    answer = client.get(samples[0])
    assert answer.status_code == 200
    assert answer.text.count("<svg ") >= 2
    assert "<table" in answer.text
    csv = [one for one in links(answer.text) if one.endswith("format=csv")]
    assert len(client.get(csv[0]).text.splitlines()) == 12 * 4 + 1


def test_a_target_has_its_figures_first_and_what_rows_share_once(made, plugins):
    sized = evolve(example.result().problem, params={"n": 4096})
    for number in range(7):
        one = made.result({"plain": 2e-3, "tiled": 1e-3}, problem=sized, seed=number)
        made.bundle(f"run-{number}", one, created=f"2026-11-0{number + 1}T10:00:00+00:00")
    text = client_of(made.folder, plugins).get("/target/ch07.memory_access").text
    table = text[text.index('<section class="table" aria-label="Newest results">') :].partition("</section>")[0]
    heads = [re.sub("<.*?>", "", one) for one in re.findall(r"<th scope=\"col\".*?</th>", table)]
    assert heads[:4] == ["implementation", "median", "speedup", "verdict"]
    assert "target" not in heads
    assert table.count("n=4,096") == 1
    assert 'title="a baseline has none">-' in table
    assert 'aria-label="series"' not in text
    assert 'aria-label="steps"' not in text
    made.bundle("run-7", made.result({"plain": 2e-3, "tiled": 1e-3}, problem=sized, seed=7), created="2026-11-08")
    text = client_of(made.folder, plugins).get("/target/ch07.memory_access").text
    assert 'aria-label="series"' in text
    assert "7 more needed" not in text


def test_a_target_of_one_run_names_no_sources_and_no_series(made, plugins):
    made.bundle("run", made.result({"plain": 2e-3, "tiled": 1e-3}))
    text = client_of(made.folder, plugins).get("/target/ch07.memory_access").text
    for absent in ("Sources: 1", "more needed", ">series</h2>", ">steps</h2>"):
        assert absent not in text


def test_a_target_that_is_installed_leads_to_its_lesson(made, plugins):
    made.bundle("run", made.result({"plain": 2e-3, "tiled": 1e-3}))
    made.bundle("other", evolve(made.result({"plain": 2e-3, "tiled": 1e-3}), target="acme.nothing"))
    client = client_of(made.folder, plugins)
    assert 'href="/lesson/ch07.memory_access"' in client.get("/target/ch07.memory_access").text
    assert "/lesson/" not in client.get("/target/acme.nothing").text
    text = client.get("/lesson/ch07.memory_access").text
    for part in ("<h2>Mechanism</h2>", "<h2>Code</h2>", "<h2>Exercise</h2>", "coalesced", 'class="add"'):
        assert part in text
    assert 'href="/target/ch07.memory_access"' in text
    assert client.get("/lesson/acme.nothing").status_code == 404
    shared = client_of(made.folder, plugins, token="t" * 20)
    shared.headers["authorization"] = f"Bearer {'t' * 20}"
    assert "/lesson/" not in shared.get("/target/ch07.memory_access").text
    assert shared.get("/lesson/ch07.memory_access").status_code == 404
    assert ".lesson pre" in client.get(re.search(r"/static/style.css[^\"]*", text)[0]).text


def test_samples_have_pages(made, plugins):
    result = made.result({"plain": 2e-3, "tiled": 1e-3}, passes=200)
    made.bundle("one", result)
    client = client_of(made.folder, plugins)
    run = client.get("/api/v1/bundles").json()["tables"][0]["records"][0]["cells"]["id"]
    place = f"/samples/{run}?of=ch07.memory_access&row=tiled"
    first, second = client.get(place), client.get(f"{place}&page=2")
    assert "page 1 of 2" in text_of(first)
    assert first.text.count("<tr>") == 501 + 2  # the table of its figures has two
    assert second.text.count("<tr>") == 301 + 2
    assert client.get(f"{place}&page=99").text == second.text
    assert client.get(f"{place}&page=x").status_code == 400


def test_what_got_worse_is_on_the_first_page(client):
    answer = client.get("/")
    assert "REGRESSION" in answer.text
    assert "What got worse" in answer.text


def test_a_server_that_still_reads_says_how_far_it_is(made, plugins, monkeypatch):
    names, original, go_on = ("one", "two", "three"), source._read, threading.Event()
    for day, name in enumerate(names, 1):
        made.bundle(name, created=f"2026-11-0{day}T00:00:00+00:00")

    def read(path):
        assert path.name == "one" or go_on.wait(60)
        return original(path)

    monkeypatch.setattr(source, "_read", read)
    monkeypatch.setattr(source, "bundles", lambda folder, read: [read(folder / name) for name in names])
    client = client_of(made.folder, plugins, patience_s=1)
    answer = client.get("/runs")
    assert (answer.status_code, answer.headers["refresh"]) == (200, "1")
    assert f"1 of 3 bundles in {made.folder} are read." in text_of(answer)
    go_on.set()
    assert len(client.get("/api/v1/bundles").json()["tables"][0]["records"]) == 3, "a program waits"
    whole = client.get("/runs")
    assert "refresh" not in whole.headers
    assert "are read" not in whole.text


def test_the_overview_comes_before_the_history(made, plugins, monkeypatch):
    made.bundle("one")
    asked, go_on = [], threading.Event()

    def slow(*given):
        asked.append(given)
        assert go_on.wait(60)
        return None, ["The history is there."]

    monkeypatch.setattr("aiperf_analysis.dashboard.pages.overview.worse_of", slow)
    client = client_of(made.folder, plugins, patience_s=0.05)
    client.get("/api/v1/bundles")
    for _ in range(2):
        answer = client.get("/")
        assert answer.headers["refresh"] == "2"
        assert "At a glance" in answer.text
        assert "The history of all runs is being computed." in answer.text
    go_on.set()
    deadline = time.monotonic() + 60
    while "refresh" in (answer := client.get("/")).headers and time.monotonic() < deadline:
        time.sleep(0.01)
    assert "The history is there." in answer.text
    assert len(asked) == 1, "pages wait for the same history"


def test_what_fails_is_computed_again(made, plugins):
    site = client_of(made.folder, plugins).app.state.site
    made.bundle("one")

    def broken():
        raise UsageError("no")

    for keep in (site.kept, site.soon):
        with pytest.raises(UsageError, match="no"):
            keep(("name",), broken)
    assert site.kept(("name",), lambda: 1) == site.soon(("name",), broken) == 1


def many_targets(made, name="many", **manifest):
    """A bundle of three targets of two chapters."""
    results = [
        evolve(example.result(), target=target) for target in ("ch07.memory_access", "ch07.transpose", "labs.ladder")
    ]
    return made.bundle(name, *results, **manifest)


def test_the_overview_begins_with_the_best_variant_of_each_target(made, plugins):
    many_targets(made)
    many_targets(made, "later", created="2026-11-25T00:00:00+00:00")
    text = client_of(made.folder, plugins).get("/").text
    assert text.index("At a glance") < text.index("What got worse")
    picture = text[text.index("At a glance") : text.index("What got worse")]
    wide = picture[: picture.index("</svg>")]
    names = [one for one in re.findall(r">([^<]*)</text>", wide) if re.fullmatch("[a-z][a-z_0-9]+", one)]
    assert names == ["ch07", "memory_access", "transpose", "labs", "ladder"]
    assert len(re.findall(r'href="/samples/[^"]*row=wide"', wide)) == 3
    assert 'class="chips"' not in text


def test_a_run_is_a_summary_and_a_folded_section_for_each_target(made, plugins):
    many_targets(made)
    client = client_of(made.folder, plugins)
    text = client.get(next(one for one in links(client.get("/runs").text) if one.startswith("/run/"))).text
    assert text.index("At a glance") < text.index("Targets: 3") < text.index("<details id=")
    sections = re.findall(r'<details id="([^"]*)" class="target"( open)?>', text)
    assert sections == [("ch07.memory_access", ""), ("ch07.transpose", ""), ("labs.ladder", "")]
    index = text[text.index("Targets: 3") :].partition("</nav>")[0]
    assert re.findall(r'href="#([^"]*)"', index) == [name for name, _ in sections]
    assert '<h2>ch07.transpose</h2> wide <b>8.67x</b> <span class="verdict v-FASTER">' in text


def test_a_comparison_says_what_differs_first(client):
    runs = [one["cells"]["id"] for one in client.get("/api/v1/bundles").json()["tables"][0]["records"]]
    whole = client.get("/api/v1/bundles?target=ch09.*").json()["tables"][0]["records"][0]["cells"]["id"]
    answer = client.get(f"/compare?a={whole}&b={runs[0]}")
    assert answer.status_code == 200
    assert "no target in common" in answer.text
    answer = client.get(f"/compare?a={runs[5]}&b={runs[0]}")
    assert answer.text.index("What differs") < answer.text.index("Ratios")
    assert "SLOWER" in answer.text
    same = client.get(f"/compare?a={runs[0][:12]}&b={runs[0]}")
    assert same.status_code == 200
    assert "the same" in same.text


def test_a_recheck_needs_the_cookie_and_changes_nothing(client, unchanged):
    run = next(one for one in links(client.get("/runs").text) if one.startswith("/run/"))
    before = {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in unchanged.rglob("*") if path.is_file()}
    answer = client.post(f"{run}/recheck", headers={"origin": SITE["HOST"]})
    assert answer.status_code == 200
    assert re.search("It holds|It does not hold", answer.text)
    assert {
        path: (path.stat().st_mtime_ns, path.read_bytes()) for path in unchanged.rglob("*") if path.is_file()
    } == before
    assert client.get(f"{run}/recheck").status_code == 405


def test_a_recheck_finds_a_changed_sample(folder, plugins):
    samples = next((folder / "whole" / "targets").glob("*.npz"))
    data = bytearray(samples.read_bytes())
    data[len(data) // 2] ^= 1
    samples.write_bytes(data)
    client = client_of(folder, plugins)
    run = next(one for one in links(client.get("/runs?target=ch09.*").text) if one.startswith("/run/"))
    answer = client.post(f"{run}/recheck", headers={"origin": SITE["HOST"]})
    assert "It does not hold" in answer.text
    assert samples.name in answer.text


def test_an_empty_folder(tmp_path, plugins):
    client = client_of(tmp_path, plugins)
    found = crawled(client)
    assert {address: one.status_code for address, one in found.items() if one.status_code >= 500} == {}
    assert "There are no results here yet" in client.get("/").text
    assert client.get("/target/x").status_code == 404
    assert client.get("/run/0").status_code == 404


def test_a_folder_that_vanishes_and_comes_back(folder, plugins, monkeypatch):
    monkeypatch.setattr("aiperf_analysis.sources.source.LOOK_S", 0.0)
    client = client_of(folder, plugins)
    assert client.get("/").status_code == 200
    away = folder.with_name("away")
    folder.rename(away)
    for address in ("/", "/pareto", "/runs", "/api/v1/rows", "/machines"):
        answer = client.get(address)
        assert answer.status_code == 503, address
        assert "cannot be read" in answer.text
        assert "Restore it, or start with another folder." in answer.text
    away.rename(folder)
    assert client.get("/").status_code == 200


def test_new_and_changed_bundles_are_seen(folder, plugins, monkeypatch):
    monkeypatch.setattr("aiperf_analysis.sources.source.LOOK_S", 0.0)
    client = client_of(folder, plugins)
    before = client.get("/api/v1/bundles?limit=1").json()["details"]["total"]
    HISTORY["run"](folder, 50, 1e-3)
    assert client.get("/api/v1/bundles?limit=1").json()["details"]["total"] == before + 1
    shutil.rmtree(folder / "run-050")
    assert client.get("/api/v1/bundles?limit=1").json()["details"]["total"] == before


def test_a_result_of_a_run_that_goes_on_is_seen(made, plugins, monkeypatch):
    monkeypatch.setattr("aiperf_analysis.sources.source.LOOK_S", 0.0)
    bundle = Bundle.create_at(made.folder / "on")
    bundle.write_manifest(evolve(example.manifest(), exit_code=None, complete=False, hashes={}))
    bundle.write_target(made.result({"plain": 2e-3, "tiled": 1e-3}, target="ch01.first"))
    client = client_of(made.folder, plugins)
    assert "not complete" in client.get("/runs").text
    assert client.get("/target/ch01.second").status_code == 404
    bundle.write_target(made.result({"plain": 2e-3, "tiled": 1e-3}, target="ch01.second"))
    assert client.get("/target/ch01.second").status_code == 200
    before = client.get("/target/ch01.second").text
    bundle.write_target(made.result({"plain": 2e-3, "tiled": 1.7e-3}, target="ch01.second", seed=3))
    assert client.get("/target/ch01.second").text != before
    place = next(one for one in links(client.get("/target/ch01.second").text) if one.startswith("/samples/open-"))
    assert client.get(place).status_code == 200


def test_a_bundle_is_read_once(folder, plugins, monkeypatch):
    from aiperf_analysis.sources import source

    read = []
    monkeypatch.setattr(source, "LOOK_S", 0.0)
    monkeypatch.setattr(source, "read_bundle", lambda path, real=source.read_bundle: read.append(path) or real(path))
    client = client_of(folder, plugins)
    for _ in range(3):
        client.get("/runs")
    assert len(read) == len(set(read)) == 14


HARMS = (
    lambda bundle: (bundle / MANIFEST).write_text("{"),
    lambda bundle: (bundle / MANIFEST).write_bytes(b"\xff\xfe" * 50),
    lambda bundle: (bundle / MANIFEST).write_text("[" * 100_000),
    lambda bundle: (bundle / MANIFEST).write_text(json.dumps({"schema_version": 99})),
    lambda bundle: next((bundle / "targets").glob("*.json")).write_text('{"rows": 1e999}'),
    lambda bundle: next((bundle / "targets").glob("*.json")).unlink(),
    lambda bundle: shutil.rmtree(bundle / "targets"),
    lambda bundle: next((bundle / "targets").glob("*.npz")).write_bytes(b"PK"),
)


def test_damaged_bundles_are_named_and_the_rest_is_shown(folder, made, plugins):
    for number, harm in enumerate(HARMS):
        harm(made.bundle(f"harmed-{number}", labels={"number": str(number)}))
    client = client_of(folder, plugins)
    found = crawled(client, ["/", "/runs", "/rows", "/validity", "/machines", "/overview", "/history"], most=200)
    assert {address: one.status_code for address, one in found.items() if one.status_code >= 500} == {}
    runs = client.get("/runs").text
    assert all(name in runs for name in ("run-003", *(f"harmed-{number}" for number in range(len(HARMS)))))


def test_hostile_names_are_text(made, plugins):
    long = "x" * 200
    manifest = example.manifest()
    for number, name in enumerate((*SITE["HOSTILE"], long)):
        result = made.result({f"plain{number}": 2e-3, name: 1e-3}, target=f"ch01.t{number}")
        result = evolve(result, summary=name * 50, target=name if number != 5 else result.target)
        machine = evolve(manifest.machine, hostname=name, cpu=name)
        made.bundle(
            f"run {number}",
            result,
            machine=machine,
            labels={name: name},
            command=[name],
            created=f"2026-11-22T10:{number:02}:00+00:00",
        )
    client = client_of(made.folder, plugins)
    found = crawled(client, most=700)
    assert {address: one.status_code for address, one in found.items() if one.status_code >= 500} == {}
    for address, answer in found.items():
        if answer.headers["content-type"].startswith("text/html"):
            assert "<script>alert" not in answer.text, address
            assert "<img" not in answer.text, address
            assert not re.search("[\u202a-\u202e\u2066-\u2069\x00\x1b]", answer.text), address
            assert "{{ 7 * 7 }}" in answer.text or "49{%" not in answer.text
    assert any("&lt;script&gt;" in answer.text for answer in found.values())


def test_a_link_is_never_followed(folder, plugins, tmp_path):
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "manifest.json").write_text("{}")
    (secret / "trace.json").write_text('{"traceEvents": []}')
    (folder / "linked").symlink_to(secret)
    (folder / "run-000" / "profiles").symlink_to(secret)
    (folder / "trace.json").symlink_to(secret / "trace.json")
    client = client_of(folder, plugins)
    assert "linked" not in client.get("/runs").text
    assert client.get("/api/v1/traces").json()["tables"][0]["records"] == []


@pytest.mark.parametrize(
    "text",
    ["%2e%2e%2fetc%2fpasswd", "..%2f..", "0" * 64, "x" * 3000, "%00", "%ff", "open-", "a b", "<script>"],
)
def test_ids_are_looked_up_and_never_paths(client, text):
    for place in ("/run/{}", "/samples/{}?of=a&row=b", "/machine/{}", "/trace/{}", "/load/{}", "/api/v1/bundles/{}",
                  "/api/v1/traces/{}", "/api/v1/loads/{}", "/api/v1/fleets/{}", "/api/v1/series/{}", "/static/{}"):  # fmt: skip
        answer = client.get(place.format(text))
        assert answer.status_code in (400, 404, 414), place
        assert "root:" not in answer.text


def test_traces_below_the_folder(folder, plugins):
    (folder / "traces").mkdir()
    write(folder / "traces" / "one.json", Job())
    (folder / "traces" / "broken.json").write_text('{"traceEvents": [')
    client = client_of(folder, plugins)
    found = crawled(client, ["/traces"], most=80)
    assert all(one.status_code < 500 for one in found.values())
    ids = {
        one["cells"]["name"]: one["cells"]["id"] for one in client.get("/api/v1/traces").json()["tables"][0]["records"]
    }
    assert set(ids) == {"traces/one.json", "traces/broken.json"}
    assert found.keys() >= {f"/trace/{one}" for one in ids.values()}
    assert client.get(f"/trace/{ids['traces/one.json']}").status_code == 200
    assert client.get(f"/trace/{ids['traces/broken.json']}").status_code == 422
    assert client.get(f"/trace/{ids['traces/one.json']}?export=/tmp/x.json").status_code == 400
    others = {name: one for name, one in plugins.analyses.items() if name != "trace"}
    answer = client_of(folder, evolve(plugins, analyses=others)).get(f"/trace/{ids['traces/one.json']}")
    assert answer.status_code == 422
    assert "The analysis &#39;trace&#39; is not installed. Install it, in a clone of aiperf: pip install" in answer.text


def test_loads_of_bundles(folder, plugins):
    none = client_of(folder, plugins)
    assert "No bundle here holds a load" in none.get("/loads").text
    bundle = Bundle(folder / "run-001")
    manifest = bundle.manifest
    bundle.write_document(Document("load", "chat <b>", "2026-11-22T10:00:00+00:00", {"rate": 3.0, "x": {"y": [1]}}))
    bundle.write_manifest(evolve(manifest, hashes={}))
    client = client_of(folder, plugins)
    place = next(one for one in links(client.get("/loads").text) if one.startswith("/load/"))
    answer = client.get(place)
    assert answer.status_code == 200
    assert "chat &lt;b&gt;" in answer.text
    assert "&#34;rate&#34;: 3.0" in answer.text


def test_an_analysis_of_a_stranger_has_a_page_and_an_endpoint(folder, plugins):
    record = Analysis("newest-name", "Name the newest run.", "aiperf_analysis.analyses.overview:analyze")
    there = evolve(plugins.analyses["overview"], record=record)
    client = client_of(folder, evolve(plugins, analyses={**plugins.analyses, "newest-name": there}))
    assert 'href="/newest-name"' in client.get("/").text
    assert "Name the newest run." in client.get("/newest-name").text
    assert client.get("/api/v1/analyses/newest-name").json()["analysis"] == "overview"
    assert "/api/v1/analyses/newest-name" in client.get("/api/v1/openapi.json").json()["paths"]


def test_a_run_has_the_pictures_of_its_report(tmp_path):
    runpy.run_path(str(HERE / "dashboard_bundles.py"))["whole"](tmp_path, 1)
    client = client_of(tmp_path)
    run = next(one for one in links(client.get("/runs").text) if one.startswith("/run/"))
    text = client.get(run).text
    titles = re.findall(r'<svg class="(?:intervals|strip)"[^>]*><title>([^<]*)</title>', text)
    kinds = ("speedups", "time per call", "distribution of the samples", "time series")
    assert titles == [f"{kind} of ch07.memory_access" for kind in kinds]
    marks = [one for one in re.findall(r'<a href="([^"]*)" tabindex', text) if "row=coalesced" in one]
    assert marks == [f"{run.replace('run', 'samples', 1)}?of=ch07.memory_access&amp;row=coalesced"]


def without(text, begin, end):
    assert begin in text
    return text.partition(begin)[0] + text.partition(begin)[2].partition(end)[2]


def test_a_store_gives_the_pages_of_the_folder(folder, plugins, tmp_path):
    url = f"sqlite:///{tmp_path}/store.db"
    database.made(url)
    with database.opened(url) as store:
        for path in adding.named([str(folder)]):
            assert adding.add(store, path).ending == "added"
    two = [client_of(source, plugins) for source in (folder, url)]
    for address in (
        "/",
        "/runs",
        "/rows",
        "/pareto",
        "/history",
        "/target/ch09.matmul",
        "/machines",
        "/validity",
        "/stacking",
    ):
        ours, theirs = (text_of(one.get(address)) for one in two)
        if address == "/":  # a folder shows what its whole history says, a store what the last runs of each series say
            ours, theirs = (without(text, "What got worse", "Last runs") for text in (ours, theirs))
        names = (str(folder), f"--in {folder}"), (url, f"--db {url}")
        ours = ours.replace("aiperf results list", "aiperf db list")
        for name, option in names:
            ours, theirs = (
                ours.replace(option, "SOURCE").replace(name, "NAME"),
                theirs.replace(option, "SOURCE").replace(name, "NAME"),
            )
        assert ours == theirs, address


def test_a_database_that_goes_away(folder, plugins, tmp_path, monkeypatch):
    monkeypatch.setattr("aiperf_analysis.sources.source.LOOK_S", 0.0)
    url = f"sqlite:///{tmp_path}/store.db"
    database.made(url)
    client = client_of(url, plugins)
    assert client.get("/").status_code == 200
    for file in tmp_path.glob("store.db*"):
        file.unlink()
    for address in ("/", "/pareto", "/api/v1/rows"):
        assert client.get(address).status_code == 503
    (tmp_path / "store.db").write_bytes(b"no database" * 1000)
    assert client.get("/").status_code == 503
