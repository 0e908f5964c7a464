"""What `benchmarks/dashboard_trust.py` says of runs, on made-up lines."""

import importlib.util
import json
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def script():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(SCRIPTS))
        spec = importlib.util.spec_from_file_location("dashboard_trust", SCRIPTS / "dashboard_trust.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        yield module
        sys.modules.pop("trust", None)


def line(number, *, events=None, verdict="SAME"):
    estimate = {"value": 1.0, "low": 0.99, "high": 1.01}
    row = {"role": "variant", "reason": None, "time_s": estimate, "speedup": estimate, "findings": []}
    rows = {"same_a": {**row, "verdict": verdict}, "same_b": {**row, "verdict": "SAME"}}
    run = {
        "run": number, "series": "", "device": "cpu", "processor": "p", "tier": "quick", "budget_s": 1.0, "floor": 0.01,
        "started": "2026-11-22T10:00:00+00:00", "wall_s": 1.0, "stopped": "sampling budget spent", "rows": rows,
    }  # fmt: skip
    return {"repetition": number, "events": events, "run": run}


@pytest.fixture
def told(script, tmp_path, capsys, monkeypatch):
    """The exit code and the output of the report of lines."""

    def report(lines, runs):
        file = tmp_path / "lines.jsonl"
        file.write_text("".join(one if isinstance(one, str) else json.dumps(one) + "\n" for one in lines))
        monkeypatch.setattr(sys, "argv", ["x", "--report", str(file), "--runs", str(runs)])
        code = script.main()
        said = capsys.readouterr()
        return code, said.out.replace(str(tmp_path), ""), said.err.replace(str(tmp_path), "")

    return report


def both(count, *, false_with=0, false_without=0):
    return [
        line(number, events=events, verdict="FASTER" if number < false else "SAME")
        for events, false in ((12, false_with), (None, false_without))
        for number in range(count)
    ]


def test_the_interval_is_that_of_the_article(script):
    # Newcombe 1998, Statistics in Medicine 17, pages 873 to 890, table II, method 10, the first two examples.
    for sides, low, high in ((((56, 70), (48, 80)), 0.0524, 0.3339), (((9, 10), (3, 10)), 0.1705, 0.8090)):
        _, *found = script.difference(*sides)
        assert found == pytest.approx([low, high], abs=5e-5)


def test_equal_rates_are_honest(told):
    code, out, _ = told(both(100, false_with=3, false_without=4), 100)
    assert (code, out) == (
        0,
        "with the dashboard: 100 runs; false verdicts 3 of 200 = 1.5 % (95 % interval 0.5 % to 4.3 %); median half "
        "width 1.00%\n"
        "without: 100 runs; false verdicts 4 of 200 = 2.0 % (95 % interval 0.8 % to 5.0 %); median half width 1.00%\n"
        "difference -0.50 % (95 % interval -3.69 % to +2.57 %)\n",
    )


def test_more_false_verdicts_with_the_dashboard_are_told(told):
    code, out, _ = told(both(1000, false_with=90, false_without=40), 1000)
    assert (code, out.splitlines()[-1]) == (1, "difference +2.50 % (95 % interval +1.41 % to +3.63 %)")


def test_too_many_false_verdicts_are_told_on_either_side(told):
    assert told(both(100, false_with=11, false_without=11), 100)[0] == 1
    assert told(both(100, false_with=10, false_without=10), 100)[0] == 0


def test_too_few_runs_are_told(told):
    code, out, _ = told(both(10), 11)
    assert (code, out.splitlines()[-1]) == (1, "too few runs: 11 of each kind are wanted")


def test_a_damaged_file_is_told(told):
    code, _, err = told([line(0), "{\n"], 1)
    assert (code, err) == (
        2,
        "error: '/lines.jsonl' holds a line that is not a run: Expecting property name enclosed in double quotes: line "
        "1 column 2 (char 1). Take it out; it can be made again.\n",
    )
    assert told([line(0), "[]\n"], 1)[0] == 2


def test_runs_that_a_file_has_are_not_made_again(script, tmp_path, monkeypatch):
    file, made = tmp_path / "lines.jsonl", []
    done = [line(0, events=5), line(0), line(1)]
    file.write_text("".join(json.dumps(one) + "\n" for one in done))

    class Started(Exception):
        pass

    def results(options, logs, reporter):
        made.append(options)
        raise Started
        yield

    monkeypatch.setattr(script.trust, "results", results)
    options = script.Options(device="cpu", tier="quick", budget_s=1.0)
    script.make_runs(script.Options(device="cpu", tier="quick", budget_s=1.0), 1, file)
    assert made == []
    monkeypatch.setattr(script, "dashboard", lambda _: pytest.MonkeyPatch.context())
    with pytest.raises(Started):
        script.make_runs(options, 2, file)
    assert len(made) == 1
