"""`aiperf analyze history`, on bundles whose truth is known."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest
from attrs import evolve
from click.testing import CliRunner

from aiperf_analysis.analyses.history import Options, analyze
from aiperf_analysis.cli.analyze import Analyses
from aiperf_analysis.selection import select
from aiperf_core.cli import result_screen
from aiperf_core.errors import AiperfError, UsageError
from aiperf_core.report import flat_tables, html
from aiperf_core.report.picture import picture, render_svg
from aiperf_core.report.result import document
from aiperf_core.results import example, jsontext

spec = importlib.util.spec_from_file_location("history_bundles", Path(__file__).with_name("history_bundles.py"))
assert spec is not None and spec.loader is not None  # noqa: PT018
made = importlib.util.module_from_spec(spec)
sys.modules[spec.name] = made
spec.loader.exec_module(made)

NOISE = 0.004


def times(*parts, seed=3):
    """Times of a millisecond with noise; each part is a number of runs and a factor."""
    rng = np.random.default_rng(seed)
    return [
        1e-3 * factor * float(np.exp(NOISE * rng.standard_normal())) for count, factor in parts for _ in range(count)
    ]


def history(folder, values, **more):
    for number, time_s in enumerate(values):
        made.run(folder, number, time_s, **more)
    return select([str(folder)])


def cells(result, table, series="ch07.memory_access:coalesced"):
    (found,) = [one for one in result.tables if one.name == table]
    return [one.cells for one in found.records if one.cells["series"] == series]


def test_a_step_is_found_with_its_place_and_size(tmp_path):
    result = analyze(history(tmp_path, times((12, 1.0), (10, 1.05))), Options())
    (step,) = cells(result, "steps")
    assert step["commit"] == f"{12:012x}"
    assert step["direction"] == "WORSE"
    assert step["change"].low < 5 < step["change"].high
    assert step["range"] == "13 to 13 of 22"
    (series,) = cells(result, "series")
    assert (series["runs"], series["steps"], series["newest"]) == (22, 1, "FINE")
    assert series["level"].low < 1.05e-3 < series["level"].high
    assert result.status == "ok"
    assert result.summary == ["2 series with at least 8 runs: 1 step, 0 drifts."]


def test_a_series_without_a_step_has_none(tmp_path):
    result = analyze(history(tmp_path, times((20, 1.0))), Options())
    assert cells(result, "steps") == []
    assert [one["steps"] for one in cells(result, "series")] == [0]


def test_the_newest_run_is_a_suspect_and_a_second_makes_it_a_regression(tmp_path):
    selection = history(tmp_path, times((15, 1.0), (1, 1.04)))
    result = analyze(selection, Options())
    (series,) = cells(result, "series")
    assert (series["newest"], series["why"]) == ("SUSPECT", "worse than expected; 1 more such run would confirm it")
    assert result.status == "ok"
    made.run(tmp_path, 16, 1.042e-3)
    result = analyze(select([str(tmp_path)]), Options())
    (series,) = cells(result, "series")
    assert (series["newest"], series["why"]) == ("REGRESSION", "2 runs in a row agree")
    assert result.status == "regression"
    assert result.exit_code == 4
    assert result.summary[0].startswith("ch07.memory_access:coalesced on nvidia-h200-x1: REGRESSION, +4")


def test_the_sentences_name_a_few_series_and_count_the_rest(tmp_path, monkeypatch):
    selection = history(tmp_path, times((15, 1.0), (1, 1.04)))
    (sentence, *_) = analyze(selection, Options()).summary
    assert "SUSPECT" in sentence
    monkeypatch.setattr("aiperf_analysis.analyses.history._MOST_TOLD", 0)
    assert analyze(selection, Options()).summary[0] == "And 1 more series, in the table below."


def test_a_faster_run_is_improved_and_no_regression(tmp_path):
    result = analyze(history(tmp_path, times((15, 1.0), (2, 0.95))), Options())
    assert [one["newest"] for one in cells(result, "series")] == ["IMPROVED"]
    assert result.status == "ok"
    speedup = analyze(select([str(tmp_path)]), Options(metric="speedup"))
    assert [one["newest"] for one in cells(speedup, "series")] == ["IMPROVED"]


def test_a_change_of_the_driver_is_the_first_suspect(tmp_path):
    values = times((10, 1.0), (10, 1.05))
    for number, time_s in enumerate(values):
        machine = evolve(example.manifest().machine, driver="570.86.15" if number < 10 else "580.10")
        made.run(tmp_path, number, time_s, machine=machine)
    result = analyze(select([str(tmp_path)]), Options())
    assert [one["suspect"] for one in cells(result, "steps")] == ["driver 570.86.15 -> 580.10"]
    coalesced = next(one for one in result.drawings if "coalesced" in one.title)
    assert coalesced.borders == {"driver 570.86.15 -> 580.10": 10.5}


def test_a_border_without_a_step_is_told(tmp_path):
    for number, time_s in enumerate(times((20, 1.0))):
        packages = {**example.manifest().packages, "torch": "2.13.0" if number < 10 else "2.14.0"}
        made.run(tmp_path, number, time_s, packages=packages)
    result = analyze(select([str(tmp_path)]), Options())
    assert result.assumptions[-1] == (
        "2 borders without a step beside: the runs on both sides were taken as one level."
    )


def test_too_few_runs_say_what_is_missing(tmp_path):
    result = analyze(history(tmp_path, times((5, 1.0))), Options())
    assert result.status == "nothing"
    assert result.summary == [
        "No series has 8 runs yet; the longest has 5. Run the same targets 3 more times: aiperf ci run SUITE, or aiperf run PATTERN."
    ]
    (series,) = cells(result, "series")
    assert series["level"].value is None
    assert series["level"].reason == "5 runs of 8: 3 more needed"


def test_runs_that_are_not_believed_never_enter(tmp_path):
    for number, time_s in enumerate(times((12, 1.0))):
        made.run(tmp_path, number, time_s)
    for number in (12, 13):
        made.run(tmp_path, number, 2e-3, verdict=made.UNTRUSTED)
    result = analyze(select([str(tmp_path)]), Options())
    assert [one["runs"] for one in cells(result, "series")] == [12]
    assert [one["newest"] for one in cells(result, "series")] == ["FINE"]
    assert [(one.what, one.verdict) for one in result.left_out][:2] == [
        ("ch07.memory_access:coalesced", "UNTRUSTED")
    ] * 2


def test_runs_are_ordered_by_commit_or_by_creation(tmp_path):
    from datetime import timedelta

    values = times((10, 1.0), (10, 1.05))
    for number, time_s in enumerate(values):
        # Measured in another order than committed.
        made.run(tmp_path, number, time_s, created=None)
        bundle = select([str(tmp_path / f"run-{number:03d}")]).runs[0]
        assert bundle.manifest.commit_time == (made.START + timedelta(hours=number)).isoformat()
    by_commit = analyze(select([str(tmp_path)]), Options(order="commit"))
    by_time = analyze(select([str(tmp_path)]), Options(order="created"))
    assert cells(by_commit, "steps") == cells(by_time, "steps")


def test_an_unknown_row_names_those_there_are(tmp_path):
    with pytest.raises(UsageError) as raised:
        analyze(history(tmp_path, times((3, 1.0))), Options(row=("nothing",)))
    assert str(raised.value) == "no believed row is named 'nothing'. There are: coalesced, strided."


def test_a_floor_out_of_range_is_refused(tmp_path):
    with pytest.raises(UsageError) as raised:
        analyze(history(tmp_path, times((3, 1.0))), Options(floor=1.5))
    assert str(raised.value) == "--floor takes a share from 0 to less than 1, such as 0.01; got 1.5."


def test_no_believed_row_is_an_error(tmp_path):
    made.run(tmp_path, 0, 1e-3, verdict=made.UNTRUSTED)
    selection = select([str(tmp_path)]).only(lambda entry: entry.row.name == "coalesced")
    with pytest.raises(AiperfError) as raised:
        analyze(selection, Options())
    assert "UNTRUSTED: clocks disagree" in str(raised.value)


def test_runs_of_a_regression_do_not_move_the_level(tmp_path):
    result = analyze(history(tmp_path, times((15, 1.0), (2, 1.05))), Options())
    (series,) = cells(result, "series")
    assert series["level"].value == pytest.approx(1e-3, rel=0.003)
    assert series["spread"].value < 0.8
    drawing = next(one for one in result.drawings if "coalesced" in one.title)
    assert [one.name for one in drawing.series] == ["runs", "level", "predicted range for the latest run"]
    (expected,) = drawing.series[-1].points
    assert expected.y.low < 1e-3 < expected.y.high < 1.05e-3


def test_a_lone_step_among_many_series_may_be_chance():
    from types import SimpleNamespace

    from aiperf_analysis.analyses.history import _discovered

    def told(p, steps):
        found = SimpleNamespace(p=p, steps=steps)
        series = SimpleNamespace(estimates=[example.estimate(1e-3)] * 10, runs=[None] * 10, floor=0.01)
        return evolved(series, found)

    def evolved(series, found):
        from aiperf_analysis.analyses.history import Told
        from aiperf_analysis.history.newest import Standing

        return Told(series, found, Standing("FINE", None, None, 0, 9, ""))

    quiet = [told(0.5, []) for _ in range(19)]
    assert not _discovered([told(0.009, ["step"]), *quiet])[0].course.steps
    assert _discovered([told(0.002, ["step"]), *quiet])[0].course.steps


def test_labels_of_an_axis_differ(tmp_path):
    result = analyze(history(tmp_path, times((10, 1.0))), Options())
    drawn = picture(result.drawings[0])
    labels = [one.content for one in drawn.shapes if getattr(one, "kind", "") == "tick" and "ms" in one.content]
    assert len(labels) == len({*labels}) > 2


def test_every_rendering_shows_it(tmp_path, capsys):
    result = analyze(history(tmp_path, times((12, 1.0), (10, 1.05))), Options())
    result_screen.show(result)
    printed = capsys.readouterr().out
    assert "13 to 13 of 22" in printed
    assert "WORSE" in printed
    jsontext.dumps(document(result))
    assert "13 to 13 of 22" in flat_tables.text(result)
    assert "steps: +5" in html.page(result)
    shapes = render_svg(result.drawings[0])
    assert "coalesced" in shapes


def test_the_command_ends_with_the_code_of_the_status(tmp_path):
    from aiperf_core.plugins import load_plugins

    history(tmp_path, times((15, 1.0), (2, 1.05)))
    done = CliRunner().invoke(
        Analyses("analyze"), ["history", str(tmp_path), "--json"], obj=load_plugins(), standalone_mode=False
    )
    assert done.return_value == 4, done.output
    assert '"status": "regression"' in done.stdout
