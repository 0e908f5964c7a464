"""What `benchmarks/trust.py` says of runs, on made-up lines."""

import importlib.util
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from attrs import evolve

from aiperf_core.measurements import Samples
from aiperf_core.results import example

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "trust.py"


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("trust_script", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


trust = load()

Write = Callable[..., Path]


def estimate(value: float, half: float = 0.01) -> dict[str, float]:
    return {"value": value, "low": value * (1 - half), "high": value * (1 + half)}


def row(verdict: str, time_s: float, *, role: str = "variant", speedup: float = 1.0) -> dict[str, Any]:
    return {
        "role": role,
        "verdict": verdict,
        "reason": None,
        "time_s": estimate(time_s),
        "speedup": None if role == "baseline" else estimate(speedup),
        "findings": [],
    }


def run(
    number: int, *, a: str = "SAME", slower: str = "SLOWER", time_s: float = 0.001, series: str = "one", **other: Any
) -> dict[str, Any]:
    """A line of a run."""
    rows = {
        "plain": row("MEASURED", time_s, role="baseline"),
        "same_a": row(a, 0.001),
        "same_b": row("SAME", 0.001),
        "slower": row(slower, 0.00105, speedup=0.95),
        "plain again": row("MEASURED", 0.001, role="control"),
    }
    return {
        "run": number,
        "series": series,
        "device": "cpu",
        "processor": "a made-up one",
        "tier": "standard",
        "budget_s": 30.0,
        "floor": 0.01,
        "started": "2026-01-01T00:00:00+00:00",
        "wall_s": 12.5,
        "stopped": "intervals narrow enough",
        "rows": rows,
        **other,
    }


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write runs (or lines as they are) into a file: `write(*lines, name="a.jsonl")`."""

    def into(*lines: dict[str, Any] | str, name: str = "a.jsonl") -> Path:
        path = tmp_path / name
        path.write_text("".join(f"{one if isinstance(one, str) else json.dumps(one)}\n" for one in lines))
        return path

    return into


def stated(path: Path, *others: Path) -> list[Any]:
    claims = trust.claims(trust.merged([path, *others]))
    assert isinstance(claims, list)
    return claims


def reported(capsys: pytest.CaptureFixture[str], *paths: Path) -> tuple[int, str]:
    code = trust.main(["--report", *map(str, paths)])
    done = capsys.readouterr()
    return code, done.out + done.err


# --- proportions


@pytest.mark.parametrize(("hits", "of"), [(0, 200), (10, 200), (95, 100), (1, 3), (50, 50)])
def test_the_interval_of_a_proportion(hits: int, of: int) -> None:
    low, high = trust.wilson(hits, of)
    assert 0 <= low <= hits / of <= high <= 1
    # By definition, from an end that is not 0 or 1 the count lies 1.96 standard deviations away.
    for end in {low, high} - {0.0, 1.0}:
        assert abs(hits - of * end) == pytest.approx(1.959964 * (of * end * (1 - end)) ** 0.5, rel=1e-6)


def test_nothing_says_nothing_of_a_proportion() -> None:
    assert trust.wilson(0, 0) == (0.0, 1.0)
    assert trust.proportion(0, 0) == "0 of 0"


# --- claims


def test_claims_that_are_just_met(write: Write) -> None:
    # Ten of the 200 comparisons, five of the 100 runs.
    lines = [run(n, a="FASTER" if n < 10 else "SAME", slower="SAME" if n < 5 else "SLOWER") for n in range(100)]
    honest, power, speedups, times = stated(write(*lines))
    assert (honest.hits, honest.of, honest.met) == (10, 200, True)
    assert (power.hits, power.of, power.met) == (95, 100, True)
    assert (speedups.hits, speedups.of, speedups.repetitions, speedups.met) == (297, 297, 99, True)
    assert (times.hits, times.of, times.repetitions, times.met) == (396, 396, 99, True)


def test_claims_that_are_just_missed(write: Write) -> None:
    lines = [run(n, a="SLOWER" if n < 11 else "SAME", slower="INCONCLUSIVE" if n < 6 else "SLOWER") for n in range(100)]
    honest, power, speedups, times = stated(write(*lines))
    assert (honest.hits, honest.met) == (11, False)
    assert (power.hits, power.met) == (94, False)
    assert speedups.met
    assert times.met


def test_a_time_that_jumps_is_not_reproducible(write: Write) -> None:
    # Every time of the baseline lies 5 % from the next; those of the three variants repeat.
    *_, speedups, times = stated(write(*[run(n, time_s=0.001 * (1 + 0.05 * (n % 2))) for n in range(100)]))
    assert (times.hits, times.of, times.met) == (297, 396, False)
    assert speedups.met


def test_a_speedup_that_jumps_is_not_reproducible(write: Write) -> None:
    lines = [run(n) for n in range(100)]
    for line in lines[::2]:
        line["rows"]["slower"]["speedup"] = estimate(0.85)
    *_, speedups, times = stated(write(*lines))
    assert (speedups.hits, speedups.of, speedups.met) == (198, 297, False)
    assert times.met


def test_few_runs_prove_nothing(write: Write) -> None:
    honest, power, speedups, times = stated(write(*[run(n) for n in range(10)]))
    assert [honest.met, power.met, speedups.met, times.met] == [False, False, False, False]
    assert str(power) == (
        "power, the slowdown found: 10 of 10 = 100.0 % (95 % interval 72.2 % to 100.0 %); wanted: at least 95%: "
        "NOT MET, for want of repetitions: 10 of 100"
    )


def test_what_was_refused_is_no_comparison_and_no_slowdown_found(write: Write) -> None:
    honest, power, *_ = stated(write(run(0, a="INVALID", slower="FAILED"), run(1)))
    assert (honest.hits, honest.of) == (0, 3)
    assert (power.hits, power.of) == (1, 2)


def test_a_run_is_repeated_by_the_next_of_its_process(write: Write) -> None:
    lines = [run(0), run(1), run(2, series="two"), run(3, series="two"), run(5, series="two")]
    *_, reproducible = stated(write(*lines))
    assert reproducible.repetitions == 2


def test_a_time_without_an_interval_is_no_repetition(write: Write) -> None:
    failed = run(1)
    failed["rows"]["plain"]["time_s"] = None
    *_, reproducible = stated(write(run(0), failed))
    assert (reproducible.hits, reproducible.of) == (3, 3)


def test_the_control_is_no_implementation(write: Write) -> None:
    assert trust.timed(trust.merged([write(run(0))])) == ["plain", "same_a", "same_b", "slower"]


# --- files


def test_the_runs_of_several_processes_are_put_together(write: Write) -> None:
    parts = [
        write(*[run(n, series=str(first)) for n in range(first, first + 25)], name=f"{first}.jsonl")
        for first in (75, 0, 50, 25)
    ]
    honest, power, *reproducible = stated(*parts)
    assert (honest.of, power.of, *(one.repetitions for one in reproducible)) == (200, 100, 96, 96)
    assert [line.run for line in trust.merged(parts)] == list(range(100))


def test_the_report_and_its_exit_code(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    good = [run(n) for n in range(100)]
    code, text = reported(capsys, write(*good))
    assert code == 0
    assert text.startswith(
        "100 runs: cpu (a made-up one), standard, 30 s of sampling, floor 1.0%; median 12.5 s a run\n"
        "  sampling ended with 'intervals narrow enough': 100\n"
    )
    assert "\nsame_a: SAME 100\n" in text
    assert text.count(": met\n") == 4
    code, text = reported(capsys, write(*good[:99]))
    assert code == 1
    assert text.count(": met\n") == 2


def test_a_number_that_is_there_twice(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    one, other = write(run(0), run(7), name="a.jsonl"), write(run(7), name="b.jsonl")
    assert reported(capsys, one, other) == (
        2,
        f"error: run 7 is there twice, in '{one}' and in '{other}'. Give every process its own numbers: "
        "--first 0 --runs 25, --first 25 --runs 25, …\n",
    )


def test_runs_of_several_kinds(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(run(0), run(1, tier="quick", budget_s=3.0))
    assert reported(capsys, path) == (
        2,
        "error: these are runs of several kinds: cpu (a made-up one), quick, 3 s of sampling, floor 1.0%; "
        "cpu (a made-up one), standard, 30 s of sampling, floor 1.0%. Report each kind by itself.\n",
    )


def without(key: str) -> str:
    line = run(1)
    del line[key]
    return json.dumps(line)


@pytest.mark.parametrize(
    ("line", "what"),
    [
        (json.dumps(run(1))[:40], "no JSON: Unterminated string starting at: line 1 column 39 (char 38)"),
        ("", "no JSON: Expecting value: line 1 column 1 (char 0)"),
        (without("tier"), "required field missing @ $.tier"),
        (json.dumps(run(1, guess=1)), "extra fields found (guess) @ $"),
        (json.dumps(run("one")), "invalid value for type, expected int @ $.run"),  # type: ignore[arg-type]
        (json.dumps(run(1, a="QUICKER")), "invalid value for type, expected Verdict @ $.rows['same_a'].verdict"),
        ("[1, 2]", "found '[1, 2]', accepted is an object"),
        ("7", "found '7', accepted is an object"),
    ],
)
def test_a_line_that_is_no_run(write: Write, capsys: pytest.CaptureFixture[str], line: str, what: str) -> None:
    path = write(run(0), line)
    assert reported(capsys, path) == (
        2,
        f"error: '{path}' line 2 is not a run: {what}. Take the line out; the run can be made again.\n",
    )


def test_a_file_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "none.jsonl"
    assert reported(capsys, path) == (
        2,
        f"error: '{path}' cannot be read: [Errno 2] No such file or directory: '{path}'. Make it with: --device cpu "
        f"--out {path}\n",
    )


def test_an_empty_file(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    assert reported(capsys, write()) == (
        2,
        "error: there is no run in these files. Make some with: --device cpu --out FILE\n",
    )


@pytest.mark.parametrize("command", [[], ["--device", "tpu"], ["--device", "cpu", "--report", "a.jsonl"]])
def test_a_command_that_says_not_what_to_do(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        trust.main(command)
    assert caught.value.code == 2
    assert "usage:" in capsys.readouterr().err


# --- making runs


def test_only_the_runs_that_are_missing_are_made(
    write: Write, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made: list[int] = []

    def line_of(result: str, number: int, *_: object) -> Any:
        assert result == "a result"
        made.append(number)
        return trust.cattrs.structure(run(number), trust.RunLine)

    monkeypatch.setattr(trust, "results", lambda *_, **__: iter(["a result"] * 9))
    monkeypatch.setattr(trust, "line_of", line_of)
    path = write(run(25), run(27), run(99))
    assert trust.main(["--device", "cpu", "--first", "25", "--runs", "5", "--out", str(path)]) == 0
    assert made == [26, 28, 29]
    assert sorted(line.run for line in trust.read_lines(path)) == [25, 26, 27, 28, 29, 99]
    assert capsys.readouterr().out.splitlines()[0] == (
        "run 26: 12.5 s, intervals narrow enough; plain 1000 us ± 1.00%, same_a SAME 1.0000 ± 1.00%, "
        "same_b SAME 1.0000 ± 1.00%, slower SLOWER 0.9500 ± 1.00%, plain again 1.0000 ± 1.00%"
    )


def test_samples_are_kept_as_times_of_a_call_without_the_clocks_cost() -> None:
    taken = Samples(
        round=[0, 0, 1, 1],
        block=[2, 2, 5, 5],
        device_s=[4.0002e-4, None, 5.0000000004e-4, None],
        wall_s=[None, 1e-3, None, 1e-3],
        calls=[4, 1, 4, 1],
    )
    result = example.result()
    one, other = (
        evolve(row, name=name, samples=taken) for row, name in zip(result.rows, ("one", "other"), strict=False)
    )
    result = evolve(result, rows=[one, other], clock="device", clock_overhead_s=2e-8)
    line = trust.line_of(result, 3, "series", "a made-up one", 30.0)
    kept = json.loads(json.dumps(trust.recording(result, line)))
    # (4.0002e-4 - 2e-8) / 4 and (5.0000000004e-4 - 2e-8) / 4; of two rows, blocks 2 and 5 are of passes 1 and 2.
    expected = {"seconds": [1e-4, 1.24995e-4], "passes": [1, 2], "rounds": [0, 1]}
    assert kept["samples"] == {"one": expected, "other": expected}
    assert trust.cattrs.structure(kept["line"], trust.RunLine) == line
    assert (line.run, line.series, line.rows["one"].time_s) == (3, "series", one.time_s)
