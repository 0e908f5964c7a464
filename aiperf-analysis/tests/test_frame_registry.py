"""Every installed analysis gives a text, a JSON document, CSV, a page and a picture, of real bundles and of examples."""

import csv
import io
import json
import re
from pathlib import Path

import jsonschema
import pytest

from aiperf_analysis import schema
from aiperf_core.analysis_options import of_files
from aiperf_core.plugins import load_plugins

# What an analysis needs beside bundles, by name: arguments of its command, with {tmp} for a folder of the test.
NEEDS = {"targets": ("--file", "{tmp}/targets.toml")}
TARGETS = """
[[target]]
name = "*"
metric = "time_s"
at_most = 10.0
source = "a wish"
date = 2026-11-01
"""
ANALYSES = load_plugins().analyses
NAMES = sorted(ANALYSES)
OF_BUNDLES = [name for name in NAMES if not of_files(ANALYSES[name].record.resolve())]
# What a refusal may end with: nothing to compute from, a wrong use, a distrusted bundle, an open conclusion.
REFUSED = (1, 2, 3, 5)


def arguments(name, tmp_path):
    (tmp_path / "targets.toml").write_text(TARGETS)
    return [one.format(tmp=tmp_path) for one in NEEDS.get(name, ())]


def refused(told):
    """Whether an analysis said in one paragraph why there is no result."""
    if told.code == 0 or told.out:
        return False
    assert told.code in REFUSED
    assert re.fullmatch(r"aiperf: [^\n]{30,}\n", told.err), told.err
    return True


@pytest.mark.parametrize("name", OF_BUNDLES)
def test_a_changed_bundle_ends_with_3(name, example_runs, aiperf, tmp_path):
    """Whether the analysis has a result of the other bundles or not."""
    file = example_runs / "example" / "targets" / "ch07.memory_access.json"
    file.write_bytes(file.read_bytes().replace(b'"speed"', b'"latency"'))
    told = aiperf("analyze", name, "--in", example_runs, *arguments(name, tmp_path), "--json")
    assert told.code == 3, told.err
    assert not told.out or json.loads(told.out)["status"] == "distrusted"
    assert told.err.count("was changed after its run ended") == 1
    alone = aiperf("analyze", name, example_runs / "example", *arguments(name, tmp_path))
    assert alone.code == 3
    assert alone.err.count("was changed after its run ended") == 1


@pytest.mark.parametrize("command", ["explain", "checklist"])
def test_advice_of_a_changed_bundle_ends_with_3(command, example_runs, aiperf):
    file = example_runs / "example" / "targets" / "ch07.memory_access.json"
    file.write_bytes(file.read_bytes().replace(b'"speed"', b'"latency"'))
    told = aiperf(command, example_runs)
    assert told.code == 3
    assert "was changed after its run ended" in told.err
    assert aiperf(command, example_runs / "whole").code == 0


@pytest.mark.parametrize("runs", ["real_bundles", "example_runs"])
@pytest.mark.parametrize("name", NAMES)
def test_each_form_of_an_analysis(name, runs, request, aiperf, tmp_path):
    line = ["analyze", name, "--in", request.getfixturevalue(runs), *arguments(name, tmp_path)]
    told = aiperf(*line, columns=100)
    if refused(told):
        return
    assert not told.err
    assert told.out.strip()

    document = json.loads(aiperf(*line, "--json").out)
    jsonschema.Draft202012Validator(schema.generate()).validate(document)
    assert document["analysis"] == name
    assert document["sources"]

    assert aiperf(*line, "--out", tmp_path / "x.csv").code == told.code
    read = list(csv.reader(io.StringIO((tmp_path / "x.csv").read_text())))
    assert len(read) > 1 or not document["tables"] or not document["tables"][0]["records"]

    assert aiperf(*line, "--out", tmp_path / "x.html").code == told.code
    page = (tmp_path / "x.html").read_text()
    assert page.startswith("<!doctype html>")
    assert page.count('<div class="picture">') == len(document["drawings"])
    assert not re.search(r"(src|href)=|<script|@import|url\(", page), "a page brings all that it shows"

    drawn = aiperf(*line, "--out", tmp_path / "x.svg")
    if not document["drawings"]:
        assert (drawn.code, (tmp_path / "x.svg").exists()) == (1, False)
        assert drawn.err == f"aiperf: '{name}' made no picture here; choose .json, .csv or .html.\n"
        return
    text = (tmp_path / "x.svg").read_text()
    assert text.startswith("<svg ")
    assert not re.search(r"\b(nan|inf)\b", re.sub(r"<(title|desc|text)[^>]*>[^<]*", "", text))
    assert aiperf(*line, "--out", tmp_path / "x.png").code == told.code
    assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("name", NAMES)
def test_rows_that_are_not_believed_are_in_no_figure(name, example_runs, aiperf, tmp_path):
    told = aiperf("analyze", name, "--in", example_runs, *arguments(name, tmp_path), "--json")
    if refused(told):
        return
    document = json.loads(told.out)
    for table in document["tables"]:
        for record in table["records"]:
            named = [one["row"] for one in record["origins"] if one["row"] in ("remembered", "swizzled")]
            values = [one["value"] for one in record["cells"].values() if isinstance(one, dict)]
            assert not named or not any(value is not None for value in values), table["name"]
    for drawing in document["drawings"]:
        for series in drawing["series"]:
            for point in series["points"]:
                assert (point["origin"] or {}).get("row") not in ("remembered", "swizzled")


@pytest.mark.parametrize("name", NAMES)
def test_the_help_of_an_analysis(name, aiperf):
    told = aiperf("analyze", name, "--help")
    assert told.code == 0
    of_bundles = (
        () if of_files(load_plugins().analyses[name].record.resolve()) else ("--in", "--db", "--class", "--target")
    )
    for option in (*of_bundles, "--out", "--json"):
        assert option in told.out
    own = told.out.partition("Options:")[0]
    assert len(own.split()) > 20, "its docstring says what it computes"


def test_the_analyses_are_listed_with_their_summaries(aiperf):
    told = aiperf("analyze", "--help", columns=200)
    for name, installed in load_plugins().analyses.items():
        assert re.search(rf"^  {name} +{re.escape(installed.record.summary)}$", told.out, re.MULTILINE), name


def test_results_do_not_change_from_call_to_call(example_runs, aiperf):
    line = ("analyze", "pareto", "--in", example_runs, "--json")
    assert aiperf(*line).out == aiperf(*line).out


def test_no_bundle_is_changed(example_runs, aiperf, tmp_path):
    def seen(folder: Path):
        return {path: path.stat().st_mtime_ns for path in folder.rglob("*")}

    before = seen(example_runs)
    for name in NAMES:
        aiperf("analyze", name, "--in", example_runs, *arguments(name, tmp_path))
    assert seen(example_runs) == before
