"""Results of other tools. The files are those of the tools, with what they printed beside; nvbench's is written by hand
after its format, as it needs a GPU.
"""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aiperf_analysis.foreign.model import Figure, ForeignError
from aiperf_analysis.foreign.reading import read

FILES = Path(__file__).parent / "foreign_files"
ASV = FILES / "asv" / "box" / "2e5ddfe0-existing-python3.json"
BY_TOOL = {
    "pytest-benchmark": FILES / "pytest-benchmark.json",
    "asv": ASV,
    "google-benchmark": FILES / "google-benchmark.json",
    "hyperfine": FILES / "hyperfine.json",
    "nvbench": FILES / "nvbench.json",
}
UNITS = {"ns": 1e9, "us": 1e6, "ms": 1e3, "s": 1.0}


def figures(tool: str) -> dict[str, Figure]:
    return {figure.title: figure for figure in read(BY_TOOL[tool]).figures}


def printed(tool: str) -> str:
    return (FILES / f"{tool}.txt").read_text()


def test_pytest_benchmark_as_printed() -> None:
    found, rows = figures("pytest-benchmark"), re.findall(r"^(test_\S+) (.*)$", printed("pytest-benchmark"), re.M)
    assert len(rows) == len(found) == 3
    for name, row in rows:
        figure = next(one for title, one in found.items() if title.endswith(f"::{name}"))
        shown = [text.replace(",", "") for text in re.findall(r"([\d.,]+) +\(", row)]
        values = [figure.statistics[key] for key in ("min", "max", "mean", "stddev", "median", "iqr")]
        assert [f"{1e9 * value:.4f}" for value in values] == shown[:6]
        assert len(figure.samples) == 5


def test_hyperfine_as_printed() -> None:
    found = figures("hyperfine")
    assert [*found] == ["sleep 0.01 [n=0.01]", "sleep 0.02 [n=0.02]"]
    shown = re.findall(
        r"±[^:]*:\s+([\d.]+) ms ± +([\d.]+) ms.*\n.*:\s+([\d.]+) ms … +([\d.]+) ms", printed("hyperfine")
    )
    for figure, texts in zip(found.values(), shown, strict=True):
        keys = ("mean", "stddev", "min", "max")
        assert [f"{1e3 * figure.statistics[key]:.1f}" for key in keys] == list(texts)


def test_google_benchmark_as_printed() -> None:
    found = figures("google-benchmark")
    rows = re.findall(r"^(\S+)_(mean|median|stddev) +([\d.]+) (\w+) +([\d.]+) (\w+)", printed("google-benchmark"), re.M)
    assert len(rows) == 12
    for name, statistic, time, unit, cpu_time, cpu_unit in rows:
        for title, text, scale in ((name, time, UNITS[unit]), (f"{name} (CPU time)", cpu_time, UNITS[cpu_unit])):
            digits = len(text.partition(".")[2])
            assert f"{scale * found[title].statistics[statistic]:.{digits}f}" == text
    assert read(BY_TOOL["google-benchmark"]).skipped == {"skipped": "no such device"}


def test_asv_as_printed() -> None:
    found, text = figures("asv"), printed("asv")
    for parameter, value, unit in re.findall(r"^ +(\d+) +([\d.]+)±0(.)s", text, re.M):
        figure = found[f"bench.Sorting.time_sorted({parameter})"]
        digits = len(value.partition(".")[2])
        assert (f"{1e6 * figure.statistics['median']:.{digits}f}", unit) == (value, "μ")
    tracked, memory = found["bench.track_count (value)"], found["bench.peakmem_list (peak memory)"]
    assert (tracked.statistics, tracked.unit) == ({"value": 42.0}, "items")
    assert f"{memory.statistics['value'] / 1e6:.1f}M" == "31.2M"
    assert "31.2M" in text
    assert [*read(ASV).skipped] == ["bench.time_fails"]


def test_nvbench() -> None:
    results = read(BY_TOOL["nvbench"])
    found = {figure.title: figure.statistics for figure in results.figures}
    assert found["copy T=I32 Elements=1048576"] == {"mean": 4.25e-06}
    assert found["copy T=I32 Elements=16777216 (batch time)"] == {"mean": pytest.approx(4.95e-05)}
    assert results.skipped == {"copy T=I32 Elements=1099511627776": "not enough memory"}
    assert results.machine == "NVIDIA H200"


def test_asv_without_its_other_file_knows_no_unit_of_a_tracked_value(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    path.write_bytes(ASV.read_bytes())
    units = {figure.name: figure.unit for figure in read(path).figures}
    assert units["bench.track_count"] == ""
    assert units["bench.Sorting.time_sorted(10)"] == "s"


# --- files that are wrong


def changed(tool: str, tmp_path: Path, change: Callable[[Any], Any]) -> Path:
    data = json.loads(BY_TOOL[tool].read_text())
    change(data)
    path = tmp_path / f"{tool}.json"
    path.write_text(json.dumps(data))
    return path


@pytest.mark.parametrize(
    ("tool", "change", "message"),
    [
        ("pytest-benchmark", lambda it: it.update(version="6.0.0"), "pytest-benchmark has version '6.0.0'; this aiperf reads 3 to 5"),
        ("pytest-benchmark", lambda it: it["benchmarks"][0].pop("stats"), "benchmarks[0] has no 'stats'"),
        ("pytest-benchmark", lambda it: it["benchmarks"][0]["stats"].update(mean="fast"), "benchmarks[0].stats.mean is no number"),
        ("pytest-benchmark", lambda it: it.update(datetime="yesterday"), "'yesterday' is no time"),
        ("asv", lambda it: it.update(version=3), "the format of asv has version 3; this aiperf reads version 2"),
        ("asv", lambda it: it["results"]["bench.track_count"][0].append(1), "does not have a result for each of 1 combinations"),
        ("asv", lambda it: it.update(date="now"), "date is no number"),
        ("google-benchmark", lambda it: it["context"].update(json_schema_version=2), "the format of google-benchmark has version 2"),
        ("google-benchmark", lambda it: it["benchmarks"][0].update(time_unit="h"), "has the unit 'h'; accepted are ns, us, ms, s"),
        ("nvbench", lambda it: it["meta"]["version"]["json"].update(major=2), "the format of nvbench has version 2"),
        ("nvbench", lambda it: it.update(benchmarks={}), "benchmarks is no list"),
        ("hyperfine", lambda it: it["results"][0].update(times=3), "results[0].times is no list"),
    ],
)  # fmt: skip
def test_another_version_or_form_is_refused(tool, change, message, tmp_path) -> None:
    path = changed(tool, tmp_path, change)
    with pytest.raises(ForeignError, match=re.escape(message)) as caught:
        read(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("content", "message"), [("{", "is no JSON"), ("[]", "is no result of pytest-benchmark, asv,")]
)
def test_a_file_of_no_tool(tmp_path: Path, content, message) -> None:
    path = tmp_path / "some.json"
    path.write_text(content)
    with pytest.raises(ForeignError, match=re.escape(message)):
        read(path)


@pytest.mark.parametrize(
    ("tool", "change", "problem"),
    [
        ("pytest-benchmark", lambda it: it["benchmarks"][0]["stats"].update(rounds=0), "'test_b.py::test_sum' has no iterations"),
        ("pytest-benchmark", lambda it: it["benchmarks"].append(it["benchmarks"][0]), "'test_b.py::test_sum' stands 2 times"),
        ("pytest-benchmark", lambda it: it["benchmarks"][0]["stats"].update(median=0), "a median of 0 s, which no run takes"),
        ("google-benchmark", lambda it: [one.update(iterations=0) for one in it["benchmarks"][:1]], "'sum_million' has no iterations"),
        ("google-benchmark", lambda it: it["benchmarks"].append(it["benchmarks"][0]), "'sum_million' stands 2 times"),
        ("hyperfine", lambda it: it["results"][0].update(median=float("nan")), "'sleep 0.01 [n=0.01]' has a median of nan"),
        ("nvbench", lambda it: it["benchmarks"][0]["states"][0]["summaries"][0]["data"][0].update(value="0"), "has no samples"),
    ],
)  # fmt: skip
def test_one_benchmark_that_cannot_be_used(tool, change, problem, tmp_path) -> None:
    whole, results = read(BY_TOOL[tool]), read(changed(tool, tmp_path, change))
    assert any(problem in one for one in results.problems), results.problems
    assert 0 < len({one.name for one in results.figures}) <= len({one.name for one in whole.figures})


def test_runs_of_hyperfine_that_failed_are_no_results(tmp_path: Path) -> None:
    path = changed("hyperfine", tmp_path, lambda it: it["results"][0]["exit_codes"].__setitem__(0, 3))
    assert read(path).skipped == {"sleep 0.01 [n=0.01]": "runs ended with exit code 3"}


# --- in a store, and over time


def test_a_store_keeps_them_once(aiperf, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    aiperf("db", "init", "--db", "s.db")
    paths = [str(path) for path in BY_TOOL.values()]
    assert aiperf("db", "add", *paths, "--db", "s.db").out == "sqlite:///s.db: 5 added\n"
    again = aiperf("db", "add", paths[0], "--db", "s.db")
    assert (again.code, again.out) == (0, "sqlite:///s.db: 0 added, 1 there already\n")
    shown = json.loads(aiperf("history", "--db", "s.db", "--json").out)
    by_files = json.loads(aiperf("history", *paths, "--json").out)
    assert sorted(map(json.dumps, shown["tables"][0]["records"])) == sorted(
        map(json.dumps, by_files["tables"][0]["records"])
    )


def test_what_a_store_does_not_take(aiperf, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    aiperf("db", "init", "--db", "s.db")
    (tmp_path / "bad.json").write_text("{}")
    twice = changed("hyperfine", tmp_path, lambda it: it["results"].append(it["results"][0]))
    ended = aiperf("db", "add", "bad.json", str(twice), "gone.json", "--db", "s.db")
    assert ended.code == 1
    assert ended.out == "sqlite:///s.db: 1 added, 2 refused\n"
    assert "refused: 'bad.json' is no result of" in ended.err
    assert "stands 2 times" in ended.err
    assert "cannot read 'gone.json': No such file" in ended.err


def series_of(tmp_path: Path, medians: list[float]) -> list[str]:
    """Files of pytest-benchmark on days that follow each other."""
    paths = []
    for day, median in enumerate(medians, 1):
        path = tmp_path / f"{day:02}.json"
        stats = dict.fromkeys(("mean", "median", "min", "max"), median) | {"stddev": 0.0}
        benchmarks = [{"fullname": "test_it", "stats": stats | {"rounds": 5, "iterations": 1}}]
        if day == 1:
            benchmarks.append({**benchmarks[0], "fullname": "test_gone"})
        path.write_text(json.dumps({"version": "5.0.0", "machine_info": {"node": "a"}, "commit_info": {"id": f"c{day}"},
                                    "datetime": f"2026-01-{day:02}", "benchmarks": benchmarks}))  # fmt: skip
        paths.append(str(path))
    return paths


@pytest.mark.parametrize(("last", "code", "word"), [(1.0, 0, "FINE"), (1.3, 4, "REGRESSION"), (0.7, 0, "IMPROVED")])
def test_the_newest_is_held_to_those_before(aiperf, tmp_path: Path, last, code, word) -> None:
    medians = [1.0, 1.001, 0.999, 1.002, 0.998, 1.0, 1.001, 0.999, 1.0, last, last]
    ended = aiperf("history", *series_of(tmp_path, medians), "--json")
    assert ended.code == code
    found = json.loads(ended.out)
    cells = found["tables"][0]["records"][0]["cells"]
    assert (cells["name"], cells["verdict"], cells["runs"]) == ("test_it", word, 11)
    assert cells["value"] == {
        "value": last,
        "low": None,
        "high": None,
        "unit": "s",
        "certainty": "counted",
        "reason": None,
    }
    assert {"what": "test_gone", "verdict": "", "origin": None,
            "reason": "not in the results of 2026-01-02T00:00:00+00:00, but in those before"} in found["left_out"]  # fmt: skip


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--name", "no*"], "no benchmark is named 'no*'. There are: test_gone, test_it."),
        (["--statistic", "p99"], "'test_it' has no 'p99'; it has min, max, mean, stddev, median."),
    ],
)
def test_names_that_are_not_there(aiperf, tmp_path: Path, options, message) -> None:
    ended = aiperf("history", *series_of(tmp_path, [1.0, 1.0]), *options)
    assert (ended.code, ended.err) == (2, f"aiperf: {message}\n")
