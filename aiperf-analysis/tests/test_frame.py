"""The result as a document, options, the selection, and the command `aiperf analyze`."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import click
import jsonschema
import pytest
from attrs import evolve, frozen

from aiperf_analysis import plugin, schema
from aiperf_analysis.selection import fits, required, select
from aiperf_core.analysis import Analysis
from aiperf_core.analysis_options import from_texts, option
from aiperf_core.cli import result_screen
from aiperf_core.errors import AiperfError, UsageError
from aiperf_core.measurements import Estimate
from aiperf_core.report.result import Column, Figure, LeftOut, Record, Result, Table, counted, document, figure
from aiperf_core.results import example, jsontext

NEWER, NEWEST = "2026-11-22T00:00:00+00:00", "2026-11-23T00:00:00+00:00"


# --- the document of a result


def test_the_shipped_schema_is_that_of_the_records():
    assert jsontext.loads(schema.FILE.read_bytes()) == schema.generate()
    jsonschema.Draft202012Validator.check_schema(schema.generate())


def test_a_result_keeps_to_the_schema():
    found = Result(analysis="a", title="A", summary=["b"], options={"file": Path("x"), "names": ("p", "q")})
    made = json.loads(jsontext.dumps(document(found)))
    assert made["options"] == {"file": "x", "names": ["p", "q"]}
    jsonschema.Draft202012Validator(schema.generate()).validate(made)


@pytest.mark.parametrize(
    "wrong",
    [
        {"summary": []},
        {"status": "fine"},
        {"left_out": [LeftOut("x", "INVALID", "")]},
        {"tables": [Table("t", "T", [], [])]},
    ],
)
def test_the_schema_refuses(wrong):
    made = document(evolve(Result(analysis="a", title="A", summary=["b"]), **wrong))
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(schema.generate()).validate(json.loads(jsontext.dumps(made)))


def test_a_figure_without_a_value_has_a_reason():
    rule = {"$ref": "#/$defs/Figure", "$defs": schema.generate()["$defs"]}
    validator = jsonschema.Draft202012Validator(rule)
    good = {"value": None, "low": None, "high": None, "unit": "s", "certainty": "measured", "reason": "no clock"}
    validator.validate(good)
    for wrong in ({"reason": None}, {"reason": ""}, {"low": 1.0}, {"unit": ""}):
        with pytest.raises(jsonschema.ValidationError):
            validator.validate({**good, **wrong})


def test_a_figure_beyond_the_range_of_numbers_has_no_value():
    beyond = "beyond the range of numbers"
    assert figure(Estimate(float("inf"), 1, 2), "s") == Figure(value=None, unit="s", reason=beyond)
    assert counted(float("nan"), "B") == Figure(value=None, unit="B", certainty="counted", reason=beyond)
    assert counted(None).reason == "not measured"
    assert counted(3.0) == Figure(value=3.0, certainty="counted")


# --- options


@frozen
class Options:
    """Of no analysis."""

    names: tuple[str, ...] = option(("a", "b"), "Names.", choices=("a", "b", "c"))
    count: int = option(3, "A count.")
    limit: float | None = option(None, "A limit.")
    file: Path | None = option(None, "A file.")
    long: bool = option(False, "Whether it is long.")
    size: int = option(0, "A size.", convert=lambda text: int(text.removesuffix("K")) * 1000)


def test_options_from_texts():
    found = from_texts(Options, {"names": "c, a", "count": "4", "limit": "1e3", "long": "", "size": "2K"})
    assert found == Options(("c", "a"), 4, 1000.0, None, True, 2000)
    assert from_texts(Options, {"names": ["a", "b,c"]}).names == ("a", "b", "c")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"cout": "4"},
            "'cout' is no option here. Did you mean 'count'? Accepted: names, count, limit, long, size.",
        ),
        ({"file": "x/y"}, "'file' is no option here. Accepted: names, count, limit, long, size."),
        ({"names": "a,d"}, "--names got 'd'. Accepted: a, b, c."),
        ({"count": "four"}, "--count got 'four'; it takes a whole number."),
        ({"limit": "inf"}, "--limit got 'inf'; it takes a number."),
        ({"limit": "\x1b[31mred"}, "--limit got 'red'; it takes a number."),
        ({"long": "maybe"}, "--long got 'maybe'; it takes true or false."),
    ],
)
def test_options_that_are_refused(given, message):
    with pytest.raises(UsageError) as caught:
        from_texts(Options, given)
    assert str(caught.value) == message


# --- the selection


def test_rows_of_one_key_are_a_series_and_others_are_not(made):
    base = made.result({"plain": 2e-3, "tiled": 1e-3})
    made.bundle("one", base)
    made.bundle("two", base, created=NEWER)
    others = [
        evolve(base, clock="wall"),
        evolve(base, cache="warm"),
        evolve(base, problem=evolve(base.problem, params={"n": 7})),
        evolve(base, problem=evolve(base.problem, precision="bf16")),
    ]
    for index, other in enumerate(others):
        made.bundle(f"other{index}", other, created=NEWEST)
    gpu = {**example.manifest().machine.gpus[0], "name": "NVIDIA A100"}
    made.bundle("machine", base, machine=evolve(example.manifest().machine, gpus=[gpu]))
    series = select([str(made.folder)]).series()
    lengths = sorted(len(entries) for key, entries in series.items() if key.implementation == "tiled")
    assert lengths == [1, 1, 1, 1, 1, 2]
    assert len({key.digest for key in series}) == len(series)
    (pair,) = (entries for entries in series.values() if len(entries) == 2 and entries[0].row.name == "tiled")
    assert [Path(one.run.path).name for one in pair] == ["one", "two"]


def test_the_newest_is_taken_not_the_best(made):
    made.bundle("fast", made.result({"plain": 2e-3, "tiled": 1e-3}))
    made.bundle("slow", made.result({"plain": 2e-3, "tiled": 1.9e-3}), created=NEWER)
    newest = select([str(made.folder)]).latest()
    assert [Path(run.path).name for run in newest.runs] == ["slow"]


def test_rows_that_are_not_believed_are_left_out(made):
    made.bundle("example")
    found = select([str(made.folder)])
    assert [one.row.name for one in found.entries] == ["strided", "coalesced", "wide", "prefetched", "memcpy"]
    left = {one.what: (one.verdict, one.reason) for one in found.left_out}
    assert left["ch07.memory_access:remembered"] == (
        "INVALID", "sample 17 does not match the reference of its own seed",
    )  # fmt: skip
    assert left["ch10.warp_specialized_gemm"] == ("SKIPPED", "needs sm_90a (this machine has no CUDA GPU)")


def test_damaged_bundles_are_left_out_and_named(made):
    good = made.bundle("good")
    cut, changed, other = (made.bundle(name, made.result({"a": 1e-3})) for name in ("cut", "changed", "other"))
    (cut / "manifest.json").write_text('{"half": ')
    file = changed / "targets" / "ch07.memory_access.json"
    file.write_text(file.read_text().replace('"goal": "speed"', '"goal": "latency"'))
    (other / "manifest.json").write_text("[]")
    found = select([str(made.folder)])
    assert [Path(run.path) for run in found.runs] == [good]
    left = {one.what: one.reason for one in found.unreadable}
    assert set(left) == {"cut", "changed", "other"}
    assert "was changed after its run ended: targets/ch07.memory_access.json has other content" in left["changed"]


def test_a_selection_can_be_narrowed(made):
    made.bundle("one", made.result({"a": 1e-3, "b": 2e-3}), made.result({"a": 1e-3}, target="ch08.x"))
    made.bundle("two", made.result({"a": 1e-3}), labels={"branch": "main"}, created=NEWER)
    folder = str(made.folder)
    assert {one.result.target for one in select([folder], targets=["ch08.*"]).entries} == {"ch08.x"}
    assert len(select([folder], labels={"branch": "main"}).runs) == 1
    assert select([folder], hardware="amd-*").entries == []
    assert select([folder], device="cpu").entries == []
    assert [one.name for one in select([f"{folder}/one:ch07.memory_access:b"]).entries] == ["ch07.memory_access:b"]
    both = select([f"{folder}/one:ch08.x", f"{folder}/one:ch07.memory_access:b", f"{folder}/one:ch08.x"])
    assert (len(both.runs), len(both.every)) == (1, 2)


@pytest.mark.parametrize(
    ("patterns", "expected"),
    [
        ((), True),
        (("practice.softmax",), True),
        (("practice.*",), True),
        (("practice.matmul", "*softmax"), True),
        (("practice.softmax@rows=64",), True),
        (("practice.softmax@rows=65",), False),
        (("practice.soft",), False),
    ],
)
def test_a_pattern_takes_the_sizes_of_a_sweep(patterns, expected):
    assert fits("practice.softmax@rows=64", patterns) is expected


def test_a_copy_of_a_bundle_is_no_second_run(made, tmp_path):
    path = made.bundle("one", made.result({"a": 1e-3}))
    shutil.copytree(path, tmp_path / "copy")
    found = select([str(made.folder), str(tmp_path / "copy")])
    assert (len(found.runs), len(found.every)) == (1, 1)


def test_a_text_that_names_nothing_is_refused(made, tmp_path):
    path = made.bundle("one")
    with pytest.raises(UsageError, match=r"has no result of 'ch99.x'\. There are: ch07.memory_access"):
        select([f"{path}:ch99.x"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="holds no bundles. Name a bundle or a folder of bundles, or make one"):
        select([str(tmp_path / "empty")])
    with pytest.raises(UsageError, match="does not exist, so there are no results yet. Make some: aiperf run PATTERN"):
        select([], folder=tmp_path / "missing")


def test_nothing_to_compute_from_says_why(made):
    made.bundle("one", made.result({"a": 1e-3}, row={"a": {"verdict": example.Verdict.FAILED, "reason": "signal 11"}}),
                skipped=[])  # fmt: skip
    found = select([str(made.folder)])
    with pytest.raises(AiperfError) as caught:
        required(found.entries, found)
    assert str(caught.value) == (
        "there is no believed row in 1 bundle. Left out: FAILED: signal 11. Run more targets: aiperf run PATTERN"
    )


def test_the_samples_of_an_entry_are_read_when_asked_for(made):
    made.bundle("one", made.result({"a": 1e-3, "b": 2e-3}))
    first, second = select([str(made.folder)]).entries
    assert len(first.blocks().times) == 48
    assert first.blocks("b").times.mean() == pytest.approx(second.blocks().times.mean())
    assert first.blocks("missing") is None


# --- the command


def test_without_a_name_it_is_the_overview(aiperf, made):
    made.bundle("one")
    told = aiperf("analyze", "--in", made.folder)
    assert (told.code, told.err) == (0, "")
    assert told.out.startswith("Overview\n")
    assert aiperf("analyze", "overview", made.folder).out == told.out
    assert aiperf("analyze", made.folder).out == told.out


def test_an_unknown_analysis_is_refused(aiperf):
    told = aiperf("analyze", "overvew")
    assert told.code == 2
    assert told.err.startswith(
        "aiperf: 'overvew' is neither an analysis nor a folder. Did you mean 'overview'? Analyses: "
    )


def test_unknown_options_and_endings_are_refused_before_anything_is_read(aiperf, made, tmp_path):
    made.bundle("one")
    told = aiperf("analyze", "overview", "--objectiv", "x", "--in", made.folder)
    assert (told.code, "No such option" in told.err) == (2, True)
    told = aiperf("analyze", "overview", "--in", made.folder, "--out", tmp_path / "x.pdx")
    assert told.code == 2
    assert told.err.endswith(
        "has no known ending; --out takes a name that ends in .json, .csv, .html, .md, .parquet, .svg, .png, .pdf.\n"
    )
    told = aiperf("analyze", "overview", "--in", made.folder, "--out", tmp_path / "no" / "x.csv")
    assert (told.code, "Make it, or choose another --out." in told.err) == (2, True)
    told = aiperf("analyze", "overview", "--in", made.folder, "--label", "main")
    assert (told.code, told.err) == (2, "aiperf: --label takes NAME=VALUE, such as --label branch=main; got 'main'.\n")


def test_json_goes_to_standard_output_and_keeps_to_the_schema(aiperf, made):
    made.bundle("one")
    told = aiperf("analyze", "overview", "--in", made.folder, "--json")
    jsonschema.Draft202012Validator(schema.generate()).validate(json.loads(told.out))


def test_a_column_without_entries_is_left_out(capsys):
    columns = [Column("name", "name"), Column("note", "note"), Column("time", "time", "figure")]
    cells = ({"name": "a", "note": None, "time": Figure(value=None, unit="s", reason="no clock")}, {"name": "b"})
    result_screen.show_table(Table("t", "T", columns, [Record(one) for one in cells]))
    assert capsys.readouterr().out.split() == [
        "T",
        "name",
        "a",
        "b",
        "without",
        "a",
        "figure",
        "(1",
        "x):",
        "no",
        "clock",
    ]


def test_aliases_are_commands_of_installed_analyses(monkeypatch):
    records = [Analysis("cost", "What it costs", "aiperf_analysis.analyses.overview:analyze"),
               Analysis("other", "Other", "aiperf_analysis.analyses.overview:analyze")]  # fmt: skip
    monkeypatch.setattr(plugin, "aiperf_analyses", lambda: records)
    (_, alias) = [one for one in plugin.aiperf_commands() if one.name in ("analyze", *plugin.ALIASES)]
    assert (alias.name, alias.summary, alias.section) == ("cost", "What it costs", "Look at results")
    command = alias.resolve()
    assert command.name == "cost"
    assert any(one.name == "bundles" for one in command.get_params(click.Context(command)))


def test_help_imports_nothing_heavy():
    code = (
        "import sys; from aiperf_core.plugins import load_plugins; load_plugins();"
        "import aiperf_analysis.plugin, aiperf_analysis.cli.analyze;"
        "print(sorted({'numpy', 'sqlalchemy', 'torch', 'aiperf_analysis.selection'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.quiet
def test_a_hundred_bundles_take_three_seconds(made):
    results = [made.result({"a": 1e-3, "b": 2e-3}, target=f"ch07.t{index}") for index in range(3)]
    for index in range(100):
        made.bundle(f"run{index:03}", *results, created=f"2026-11-22T00:{index // 60:02}:{index % 60:02}+00:00")
    command = [sys.executable, "-m", "aiperf_core", "analyze", "--in", str(made.folder)]
    before = os.times()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    after = os.times()
    assert done.returncode == 0, done.stderr
    assert "3 targets in 1 bundle:" in done.stdout
    assert after.children_user + after.children_system - before.children_user - before.children_system <= 3.0


def test_skipped_targets_that_were_not_asked_for_are_not_left_out(made):
    path = made.bundle("one", made.result({"plain": 1.0, "fast": 0.5}, target="ch07.a"))
    name = "ch10.warp_specialized_gemm"
    assert [one.what for one in select([str(path)]).left_out] == [name]
    assert select([f"{path}:ch07.a"]).left_out == []
    assert select([str(path)], targets=["ch07.*"]).left_out == []
    assert [one.what for one in select([str(path)], targets=["ch10.*"]).left_out] == [name]
