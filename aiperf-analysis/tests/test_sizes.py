"""Rows of one implementation at several sizes read differently wherever they are named: in tables, pictures, JSON, CSV."""

import csv
import io
import re
import runpy
from collections import Counter
from pathlib import Path

import pytest
from attrs import evolve

from aiperf_analysis.filters import Filters
from aiperf_analysis.selection import select
from aiperf_analysis.sizes import Sizes, told_apart
from aiperf_analysis.store import adding
from aiperf_analysis.store.database import opened
from aiperf_core.analysis_options import of_files
from aiperf_core.plugins import load_plugins
from aiperf_core.report.result import Column, Record, Result, Table, document
from aiperf_core.results import example
from aiperf_core.results.models import Verdict

site = runpy.run_path(str(Path(__file__).with_name("dashboard_site.py")))
TARGET, SIZES = "ch09.matmul", (64, 4096)
# Those that compute nothing without options.
ASKED = {
    "whatif": {"latency": ["1s"], "vram": ["1GiB"]},
    "cost": {"own-price": ["30000"], "tariff": ["0.3"]},
    "leaderboard": {"trust-figures": ["true"]},
}
UNASKED = ("targets",)  # needs a file of targets
ANALYSES = [
    name for name, one in load_plugins().analyses.items() if name not in UNASKED and not of_files(one.record.resolve())
]
PAGES = ("rows", "overview", "validity", "roofline", "profiles", f"targets/{TARGET}")


def bundles(made):
    """Two sizes of one target, each with every figure, and a row that is not believed."""
    for number, size in enumerate(SIZES):
        names = ("plain", "tiled", "packed", "wrong")
        result = made.result(
            {name: (2e-4 - 1e-5 * place) * size for place, name in enumerate(names)},
            target=TARGET,
            seed=number,
            memory=dict.fromkeys(names, size << 12),
            joules=dict.fromkeys(names, 0.01 * size),
            row={
                "tiled": {"mechanisms": ["tiling"], "builds_on": None},
                "packed": {"mechanisms": ["tiling", "packing"], "builds_on": "tiled"},
                "wrong": {"verdict": Verdict.INVALID},
            },
            tier="standard",
            problem=evolve(example.result().problem, params={"n": size, "batch": 8}),
        )
        made.bundle(f"size-{size}", result, created=f"2026-11-22T1{number}:00:00+00:00", skipped=[], git="a" * 40)
    return made.folder


@pytest.fixture
def folder(made):
    return bundles(made)


def texts_of(record, columns):
    """What a reader sees of a record beside its figures, the time of its run, and links of one wording."""
    hidden = {"created", "key", "id", "date"}
    cells = {one["title"]: record["cells"].get(one["key"]) for one in columns if one["key"] not in hidden}
    # A parameter that has a column of its own tells sizes apart.
    return tuple(str(one) for title, one in cells.items() if title == "n" or not isinstance(one, dict | float | int))


def alike(found_document):
    """The records and points of several sizes that read alike."""
    found = []
    for table in found_document["tables"]:
        if not {"row", "target", "series", "ladder"} & {one["key"] for one in table["columns"]}:
            continue
        seen = Counter(texts_of(one, table["columns"]) for one in table["records"] if one["origins"])
        found += [(table["name"], texts) for texts, count in seen.items() if count > 1]
    titles = Counter(one["title"] for one in found_document["drawings"])
    found += [("titles", title) for title, count in titles.items() if count > 1]
    for drawing in found_document["drawings"]:
        named = [one["label"] for line in drawing["series"] for one in line["points"] if one["label"] and one["origin"]]
        found += [(drawing["name"], label) for label, count in Counter(named).items() if count > 1]
    left = Counter((one["what"], one["verdict"]) for one in found_document["left_out"] if one["origin"])
    return found + [("left out", what) for (what, _), count in left.items() if count > 1]


@pytest.mark.parametrize("name", ANALYSES)
def test_no_analysis_shows_two_sizes_alike(folder, name):
    found = site["site_of"](site["client_of"](folder)).result(name, Filters(), ASKED.get(name, {}))
    assert alike(document(found)) == []


@pytest.mark.parametrize("page", PAGES)
def test_no_page_shows_two_sizes_alike(folder, page):
    answer = site["client_of"](folder).get(f"/api/v1/{page}")
    assert answer.status_code == 200, answer.text
    assert alike(answer.json()) == []


def test_what_reads_alike_is_found(folder):
    plain = site["client_of"](folder).get("/api/v1/rows").json()
    for table in plain["tables"]:
        table["columns"] = [one for one in table["columns"] if one["key"] not in ("size", "series")]

    assert {texts[0] for _, texts in alike(plain)} == {"plain", "tiled", "packed", "wrong"}


def test_the_size_is_in_json_csv_and_page(folder):
    client = site["client_of"](folder)
    sizes = {f"batch=8 n={size:,}" for size in SIZES}
    rows = client.get("/api/v1/rows").json()["tables"][0]["records"]
    assert {one["cells"]["size"] for one in rows} == sizes
    lines = list(csv.DictReader(io.StringIO(client.get("/api/v1/rows?format=csv").text)))
    assert {line["size"] for line in lines if line.get("size")} == sizes
    text = client.get("/rows").text
    assert all(one in text for one in sizes)
    assert client.get("/rows?q=4,096").text.count(">batch=8 n=4,096<") == 4


def test_the_marks_of_a_roofline_lead_to_the_samples_of_their_own_size(folder):
    found = site["client_of"](folder).get("/api/v1/roofline").json()
    runs = {one["id"]: one["path"].rpartition("-")[2] for one in found["sources"]}
    records = found["tables"][0]["records"]
    assert {(one["cells"]["size"], runs[one["origins"][0]["bundle"]]) for one in records} == {
        (f"batch=8 n={size:,}", str(size)) for size in SIZES
    }


def test_a_target_of_one_size_needs_no_size(made):
    made.bundle("one")
    selection = select([str(made.folder)])
    assert not Sizes.among(selection.every).differing
    result = Result(analysis="a", title="", summary=[])
    assert told_apart(result, selection.every) is result


def test_only_what_differs_is_a_part_of_a_name():
    sizes = Sizes.of([("a", {"n": 1, "m": 2}), ("a", {"n": 3, "m": 2}), ("b", {"n": 1}), ("b", {"n": 1})])
    assert sizes.label("a", {"n": 3, "m": 2}) == "n=3"
    assert sizes.label("b", {"n": 1}) == ""


def test_a_record_of_several_sizes_has_none(folder):
    selection = select([str(folder)])
    first, *_, last = selection.every
    origins = [[first.origin, last.origin], [first.origin], [last.origin]]
    table = Table("t", "", [Column("row", "row")], [Record({"row": "r"}, some) for some in origins])
    found = told_apart(Result(analysis="a", title="", summary=[], tables=[table]), selection.every).tables[0]
    assert [one.key for one in found.columns] == ["row", "size"]
    assert [one.cells["size"] for one in found.records] == [None, "batch=8 n=4,096", "batch=8 n=64"]


@pytest.fixture
def stored(folder, url):
    """A client of the same results in a store."""
    with opened(url) as database:
        assert {one.ending for one in adding.add_all(database, sorted(folder.iterdir()))} == {"added"}
    return site["client_of"](url)


def test_a_store_has_the_same_rows_as_a_folder(stored, folder):
    from aiperf_analysis.dashboard.pages.rows import COLUMNS, FOLDED

    rows = site["client_of"](folder).get("/rows").text
    of_store = stored.get("/rows").text
    heads = [one.title for one in COLUMNS if one.key not in FOLDED]
    for text in (rows, of_store):
        left = re.search(r"Not shown: ([^<]*)", text)
        shown = re.sub(r'\s*<a [^>]*href="/glossary[^>]*>.*?</a>', "", text)
        assert all(f">{head}</th>" in shown or (left and head in left[1]) for head in heads)
        assert text.count(">batch=8 n=4,096<") == text.count(">batch=8 n=64<") == 4
        assert text.count(">all runs</a>") == 6, "of the rows that are believed"
    led = [
        {one for one in site["links"](text.partition("<tbody>")[2].partition("</tbody>")[0]) if "/run" not in one}
        for text in (rows, of_store)
    ]
    assert led[0] == led[1]
    assert len(led[0]) == 14, "8 samples and 6 series"


def test_the_overview_of_a_store_names_the_size_of_what_is_not_trusted(stored):
    text = stored.get("/").text.partition("Not trusted")[2]
    assert "n=64" in text
    assert "n=4,096" in text
