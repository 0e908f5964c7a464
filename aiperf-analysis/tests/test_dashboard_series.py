"""The page of a series: ranges as addresses, and at most two steps from any point to its raw samples."""

import html
import runpy
from pathlib import Path
from urllib.parse import parse_qs, urlparse

import pytest
from attrs import evolve

from aiperf_analysis.dashboard.pages.series import MOST_SINGLE
from aiperf_analysis.selection import Selection, SeriesKey
from aiperf_analysis.sources.courses import RunCourse
from aiperf_analysis.sources.source import StoreSource
from aiperf_analysis.store import adding
from aiperf_analysis.store.database import opened
from aiperf_core.measurements import Estimate

HERE = Path(__file__).parent
site = runpy.run_path(str(HERE / "dashboard_site.py"))
run = runpy.run_path(str(HERE / "history_bundles.py"))["run"]
RUNS, OUTLIER = 10_000, 4_321
KEY = SeriesKey(
    target="t<1>", implementation="a&b", device="cpu", hardware="cpu-x1", params=(), clock="wall", cache="warm",
    precision="fp64",
)  # fmt: skip


def course(runs=RUNS, **figures):
    """A series of this length with an outlier."""
    times = [1e-3 + (number * 37 % 100) * 1e-7 for number in range(runs)]
    if runs > OUTLIER:
        times[OUTLIER] = 5e-3
    nothing = [None] * runs
    return RunCourse(
        key=KEY,
        bundle=[f"{number:064x}" for number in range(runs)],
        created=[f"2026-{1 + number * 12 // RUNS:02}-01T00:00:00+00:00" for number in range(runs)],
        git=nothing,
        verdict=["FASTER"] * runs,
        floor=0.01,
        figures={
            "time": [Estimate(one, one * 0.99, one * 1.01) for one in times],
            **dict.fromkeys(("speedup", "memory", "energy"), nothing),
        }
        | figures,
    )


class OneSeries:
    """A source that has one series."""

    name, arguments = "one series", ("--in", "folder")

    def __init__(self, found):
        self.found = found

    def state(self):
        return "the same"

    def selection(self, filters=None):
        return Selection([], [])

    def contents(self):
        return frozenset()

    def series(self, digest):
        return self.found if digest == KEY.digest else None


@pytest.fixture(scope="module")
def client():
    return site["client_of"](OneSeries(course()))


def links(client, query=""):
    """The links of the page of a range."""
    answer = client.get(f"/series/{KEY.digest}{query}")
    assert answer.status_code == 200
    return site["links"](answer.text)


def samples(addresses):
    """The numbers of the runs whose samples are linked."""
    found = [urlparse(one) for one in addresses if one.startswith("/samples/")]
    assert all(parse_qs(one.query) == {"of": ["t<1>"], "row": ["a&b"]} for one in found)
    return {int(one.path.removeprefix("/samples/"), 16) for one in found}


def test_every_run_of_10_000_is_at_most_two_steps_from_the_picture(client):
    first = links(client)
    assert OUTLIER in samples(first), "the extreme is a point of the whole picture"
    parts = [one for one in dict.fromkeys(first) if one.startswith(f"/series/{KEY.digest}?from=") and "move" not in one]
    ranges = {tuple(int(parse_qs(urlparse(one).query)[name][0]) for name in ("from", "to")) for one in parts}
    single = sorted(one for one in ranges if one[1] - one[0] < MOST_SINGLE)
    assert single == [(at, at + MOST_SINGLE - 1) for at in range(1, RUNS, MOST_SINGLE)]
    begin, end = single[21]
    found = links(client, f"?from={begin}&to={end}")
    assert samples(found) == set(range(begin - 1, end))
    picture = client.get(f"/series/{KEY.digest}?from={begin}&to={end}").text.partition("<table")[0]
    assert samples(site["links"](picture)) == set(range(begin - 1, end)), (
        "the picture has all of them, not the table alone"
    )


def test_steps_are_links_and_stay_within_the_series(client):
    text = client.get(f"/series/{KEY.digest}?from=9901&to=10000").text
    here = f"/series/{KEY.digest}"
    for move, address in (
        ("in", f"{here}?from=9926&to=9975"),
        ("out", f"{here}?from=9801&to=10000"),
        ("earlier", f"{here}?from=9851&to=9950"),
        ("all", here),
    ):
        assert f'<a href="{html.escape(address)}" data-move="{move}">' in text
    assert 'data-move="later"' not in text
    assert "Runs 9,901 to 10,000 of 10,000, 2026-12-01 to 2026-12-01: time from 1.00 ms to 1.01 ms" in text


@pytest.mark.parametrize(
    ("query", "status", "message"),
    [
        ("?from=x", 400, "from takes a whole number up to 100,000,000; got &#39;x&#39;."),
        ("?from=9&to=3", 400, "from must not be greater than to; got 9 and 3 of 10,000 runs."),
        ("?from=20000", 400, "from must not be greater than to; got 20,000 and 10,000 of 10,000 runs."),
        ("?metric=speed", 400, "metric takes one of time, speedup, memory, energy; got &#39;speed&#39;."),
        ("?metric=energy", 200, "No run of this series has the figure &#39;energy&#39;."),
        ("?from=0&to=999999", 200, "Runs 1 to 10,000 of 10,000"),
    ],
)
def test_ranges_that_are_not_there(client, query, status, message):
    answer = client.get(f"/series/{KEY.digest}{query}")
    assert answer.status_code == status
    assert message in answer.text


def test_an_unknown_series(client):
    answer = client.get("/series/nope")
    assert answer.status_code == 404
    assert "&#39;nope&#39; is the key of no series here. The series: /api/v1/series" in answer.text


def test_one_run_and_the_api():
    client = site["client_of"](OneSeries(course(1)))
    text = client.get(f"/series/{KEY.digest}").text
    assert samples(site["links"](text)) == {0}
    assert "data-move" not in text
    table = client.get(f"/api/v1/series/{KEY.digest}").json()["tables"][0]
    assert [one["origins"][0]["bundle"] for one in table["records"]] == [f"{0:064x}"]


def test_a_folder_and_a_store_have_the_same_series(url, tmp_path):
    folder = tmp_path / "runs"
    times = [(1e-3 if number < 10 else 1.3e-3) * (1 + number % 3 * 1e-3) for number in range(20)]
    paths = [run(folder, number, time_s).path for number, time_s in enumerate(times)]
    with opened(url) as database:
        assert [one.ending for one in adding.add_all(database, paths)] == ["added"] * len(paths)
    clients = [site["client_of"](one) for one in (folder, StoreSource(url))]
    series = clients[0].get("/api/v1/series?limit=50").json()["tables"][0]["records"]
    key = next(one["cells"]["key"] for one in series if one["cells"]["row"] == "coalesced")
    answers = [one.get(f"/api/v1/series/{key}").json() for one in clients]
    assert answers[0] == answers[1]
    assert [one["cells"]["at"] for one in answers[0]["tables"][1]["records"]] == [11]
    pictures = [one.get(f"/series/{key}").text.partition("<figure")[2].partition("</figure>")[0] for one in clients]
    assert pictures[0] == pictures[1]
    assert len({one for one in site["links"](pictures[0]) if one.startswith("/samples/")}) == 20


def test_only_runs_with_the_figure_count():
    found = course(5, speedup=[None, Estimate(2.0, 1.9, 2.1), None, Estimate(3.0, 2.9, 3.1), None])
    client = site["client_of"](OneSeries(evolve(found, git=["a"] * 5)))
    text = client.get(f"/series/{KEY.digest}?metric=speedup").text
    assert "Runs 1 to 2 of 2" in text
    assert samples(site["links"](text)) == {1, 3}


def stepped(*levels):
    """Times of runs in parts: the number of runs and the level of each."""
    times = [level * (1 + (number % 3 - 1) * 1e-3) for runs, level in levels for number in range(runs)]
    return [Estimate(one, one * 0.999, one * 1.001) for one in times]


def of_times(times):
    return site["client_of"](OneSeries(course(len(times), time=times)))


def test_a_step_is_marked_in_the_picture_and_in_words():
    client = of_times(stepped((12, 1e-3), (12, 1.5e-3), (12, 1.2e-3)))
    text = client.get(f"/series/{KEY.digest}").text
    assert "2 steps: -20 % [" in text
    assert "at run 25, BETTER; +50 % [" in text
    assert "at run 13, WORSE." in text
    picture = text.partition("<figure")[2].partition("</figure>")[0]
    assert picture.count("<title>+50 % at run 13</title>") == 2, "in both layouts"
    assert "2 steps within." in picture
    records = client.get(f"/api/v1/series/{KEY.digest}").json()["tables"][1]["records"]
    assert [one["cells"]["at"] for one in records] == [25, 13]
    assert [one["bundle"] for one in records[1]["origins"]] == [f"{number:064x}" for number in (11, 12)]
    change = records[1]["cells"]["change"]
    assert change["low"] < 50 < change["high"]
    later = client.get(f"/series/{KEY.digest}?from=20&to=36").text.partition("<figure")[2].partition("</figure>")[0]
    assert "+50 % at run 13" not in later
    assert "-20 % at run 25" in later


def test_a_step_leads_to_the_runs_around_it():
    client = of_times(stepped((60, 1e-3), (60, 1.5e-3)))
    text = client.get(f"/series/{KEY.digest}").text.partition(">Steps</h2>")[2]
    assert site["links"](text)[0] == f"/series/{KEY.digest}?from=41&to=81"
    assert samples(site["links"](text.partition("</table>")[0])) == {59, 60}


def test_an_uncertain_place_is_a_band():
    noisy = [1e-3 * (1 + 0.05 * ((number * 37 % 11) / 10 - 0.5)) for number in range(40)]
    times = [one * (1.03 if number >= 20 else 1) for number, one in enumerate(noisy)]
    client = of_times([Estimate(one, one * 0.99, one * 1.01) for one in times])
    text = client.get(f"/series/{KEY.digest}").text
    found = client.get(f"/api/v1/series/{KEY.digest}").json()["tables"][1]["records"]
    (step,) = found
    first, last = (int(one) for one in step["cells"]["range"].split(" to "))
    assert first < last
    assert f'lies between runs {first} and {last} with 95 %</title><path class="floor"' in text


@pytest.mark.parametrize(
    ("levels", "told"),
    [
        (((5, 1e-3),), "Steps need 8 runs with this figure: 5 runs of 8: 3 more needed."),
        (((20, 1e-3),), "No step of 1 % or more."),
        (((1100, 1e-3),), "No step of 1 % or more. Steps were sought among the newest 1,000 runs."),
    ],
)
def test_a_series_without_a_step_says_so(levels, told):
    client = of_times(stepped(*levels))
    text = client.get(f"/series/{KEY.digest}").text
    assert told in text
    assert ">Steps</h2>" not in text
    assert client.get(f"/api/v1/series/{KEY.digest}").json()["summary"][1] == told


def test_steps_of_another_figure():
    speedup = [Estimate(one.value * 2e3, one.low * 2e3, one.high * 2e3) for one in stepped((12, 1e-3), (12, 1.5e-3))]
    client = site["client_of"](OneSeries(course(24, speedup=speedup)))
    assert "+50 %" not in client.get(f"/series/{KEY.digest}").text
    assert "at run 13, BETTER." in client.get(f"/series/{KEY.digest}?metric=speedup").text
    answer = client.get(f"/api/v1/series/{KEY.digest}?metric=speedup").json()
    assert answer["options"]["metric"] == "speedup"
    assert [one["cells"]["direction"] for one in answer["tables"][1]["records"]] == ["BETTER"]
    assert client.get(f"/api/v1/series/{KEY.digest}?metric=size").status_code == 400
