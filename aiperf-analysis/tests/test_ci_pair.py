"""Benchmarks of two commits in pairs of processes: the verdicts by simulation, and a repository with a program."""

import json
import math
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from aiperf_analysis.ci.paired import Pairs, changes, interval, suspects
from aiperf_analysis.foreign.model import Figure, Results

FLOOR, PAIRS = 0.01, 10
Draw = Callable[[random.Random], float]


def of(*figures: Figure) -> Results:
    return Results(tool="hyperfine", created="2026-01-01", figures=list(figures))


def drawn(draw: Draw, rng: random.Random, change: float = 1.0, pairs: int = PAIRS) -> Pairs:
    sides = [
        [of(Figure(name="b", statistics={"median": draw(rng) * scale})) for _ in range(pairs)] for scale in (1, change)
    ]
    return Pairs(*sides)


def word(draw: Draw, rng: random.Random, change: float = 1.0) -> str:
    first = drawn(draw, rng, change)
    second = drawn(draw, rng, change) if suspects(first, None, FLOOR) else Pairs()
    return changes(first, second, None, FLOOR)[0].word


def two_modes(rng: random.Random) -> float:
    return rng.choice((1.0, 1.12)) * (1 + 0.003 * rng.gauss(0, 1))


def rare_mode(rng: random.Random) -> float:
    return (1.12 if rng.random() < 0.1 else 1.0) * (1 + 0.003 * rng.gauss(0, 1))


def noisy(rng: random.Random) -> float:
    return math.exp(0.1 * rng.gauss(0, 1))


def quiet(rng: random.Random) -> float:
    return 1 + 0.005 * rng.gauss(0, 1)


@pytest.mark.parametrize("draw", [two_modes, rare_mode, noisy, quiet])
def test_no_alarm_in_300_pairs_of_one_code(draw: Draw) -> None:
    rng = random.Random(draw.__name__)
    found = Counter(word(draw, rng) for _ in range(300))
    assert not found["REGRESSION"] + found["IMPROVED"], found


@pytest.mark.parametrize(("change", "told"), [(1.02, "REGRESSION"), (1 / 1.02, "IMPROVED")])
def test_2_percent_of_a_quiet_benchmark_are_found(change: float, told: str) -> None:
    rng = random.Random(told)
    assert sum(word(quiet, rng, change) == told for _ in range(100)) >= 95


def test_two_modes_widen_the_interval() -> None:
    rng = random.Random(3)
    widths = {}
    for draw in (two_modes, quiet):
        found = interval(drawn(draw, rng).ratios("b", None), 0.05)
        widths[draw] = found.high / found.low - 1
    assert widths[two_modes] > 5 * widths[quiet]


def test_a_suspect_that_new_pairs_do_not_confirm_is_no_regression() -> None:
    rng = random.Random(4)
    first, second = drawn(quiet, rng, 1.05), drawn(quiet, rng)
    (found,) = changes(first, second, None, FLOOR)
    assert (found.word, found.reason, found.pairs) == ("SUSPECT", "new pairs did not confirm it", 2 * PAIRS)


def test_benchmarks_that_appear_vanish_or_measure_nothing() -> None:
    one, other, zero = (
        Figure(name=name, quantity="value", statistics={"value": value})
        for name, value in (("one", 1), ("other", 1), ("zero", 0))
    )
    found = changes(Pairs([of(one, zero)] * 5, [of(other, zero)] * 5), Pairs(), None, FLOOR)
    assert {(each.name, each.word, each.reason) for each in found} == {
        ("one (value)", "INCONCLUSIVE", "the head does not have it any more"),
        ("other (value)", "NEW", "only the head has it"),
        ("zero (value)", "INCONCLUSIVE", "fewer than 2 pairs have a figure above 0"),
    }


# --- a repository

BENCH = """
import json, os, random, sys
names = {names}
def values(): return [{scale} * (1 + 0.001 * random.gauss(0, 1)) for _ in range(3)]
rows = []
for name in names:
    times = values()
    rows.append({{"command": name, "median": sorted(times)[1], "mean": sum(times) / 3, "times": times, "exit_codes": [0] * 3}})
json.dump({{"results": rows}}, open(sys.argv[1], "w"))
"""  # fmt: skip


def git(*arguments: str) -> str:
    settings = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "init.defaultBranch=main"]
    return subprocess.run(["git", *settings, *arguments], check=True, capture_output=True, text=True).stdout


def commit(tag: str, names: list[str], scale: float) -> None:
    Path("bench.py").write_text(BENCH.format(names=names, scale=scale))
    git("add", "bench.py")
    git("commit", "--quiet", "--allow-empty", "-m", tag)
    git("tag", tag)


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with a base, a slow commit, one that lost a benchmark, and one that does not run."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", None)
    git("init", "--quiet")
    commit("base", ["sort", "copy"], 1.0)
    commit("slow", ["sort", "copy"], 1.1)
    commit("gone", ["sort", "find"], 1.0)
    Path("bench.py").write_text("raise SystemExit('it is broken')")
    git("commit", "--quiet", "-am", "broken")
    git("tag", "broken")
    return tmp_path


def pair(aiperf, base: str, head: str, *options: str, command=(sys.executable, "bench.py", "{out}")):
    return aiperf("ci", "pair", "--base", base, "--head", head, "--pairs", "5", *options, "--", *command)


def assert_clean(repository: Path) -> None:
    """No worktree is left, and no folder."""
    assert len(git("worktree", "list").splitlines()) == 1
    assert not list((repository / "temporary").glob("aiperf-pair-*"))


def test_a_regression_and_its_summary(aiperf, repository: Path) -> None:
    ended = pair(aiperf, "base", "slow", "--out", "pair.md")
    assert ended.code == 4, ended.err
    text = Path("pair.md").read_text()
    commits = [git("rev-parse", tag).strip()[:12] for tag in ("base", "slow")]
    assert f"{commits[1]} against {commits[0]}: 2 regression" in text
    repeat = text.index(f"Repeat it: aiperf ci pair --base {commits[0]} --head {commits[1]} --pairs 5 --floor 0.01 -- ")
    assert repeat < text.index("Tool and machine are the same on both sides.") < text.index("The results of all runs:")
    assert "REGRESSION" in text
    folder = repository / "artifacts" / "ci" / f"pair-{commits[0]}-{commits[1]}"
    assert len(list(folder.glob("*.json"))) == 2 * 2 * 5  # base and head, at first and to confirm
    assert "suspect: sort, copy; running 5 pairs again" in ended.err
    assert_clean(repository)


def test_no_change_and_what_is_gone(aiperf, repository: Path) -> None:
    ended = pair(aiperf, "base", "gone", "--json")
    assert ended.code == 0
    found = {one["cells"]["name"]: one["cells"] for one in json.loads(ended.out)["tables"][0]["records"]}
    assert {name: cells["verdict"] for name, cells in found.items()} == {
        "sort": "FINE",
        "copy": "INCONCLUSIVE",
        "find": "NEW",
    }
    assert found["sort"]["base"]["unit"] == "s"
    assert pair(aiperf, "base", "gone", "--require-conclusive").code == 5
    assert len(list((repository / "artifacts" / "ci").glob("pair-*"))) == 2
    assert_clean(repository)


@pytest.mark.parametrize(
    ("head", "options", "command", "code", "message"),
    [
        ("none", (), ("x", "{out}"), 2, "'none' is no commit of this repository"),
        ("slow", (), ("x",), 2, "the command does not say where its results go: give {out} as the file"),
        ("slow", (), ("no-such-program", "{out}"), 1, "cannot start 'no-such-program': No such file"),
        ("broken", (), (sys.executable, "bench.py", "{out}"), 1, "the command ended with 1. Its output: "),
        ("slow", (), ("true", "{out}"), 1, "the command wrote no results to "),
        ("slow", (), ("cp", "bench.py", "{out}"), 1, "is no JSON"),
        ("slow", ("--build", "no-such-program"), ("x", "{out}"), 1, "cannot start --build 'no-such-program' in base: No such"),
        ("slow", ("--build", "git show no-such"), ("x", "{out}"), 1, "--build 'git show no-such' in base ended with 128"),
        ("slow", ("--statistic", "p99"), (sys.executable, "bench.py", "{out}"), 2, "'sort' has no 'p99'; it has mean, median."),
    ],
)  # fmt: skip
def test_what_cannot_be_compared_leaves_no_worktree(aiperf, repository, head, options, command, code, message) -> None:
    ended = pair(aiperf, "base", head, *options, command=command)
    assert (ended.code, message in ended.err) == (code, True), ended.err
    assert_clean(repository)


def test_a_build_runs_once_in_each_side(aiperf, repository: Path) -> None:
    build = f"{sys.executable} -c \"open('{repository}/built', 'a').write('x')\""
    assert pair(aiperf, "base", "base", "--build", build).code == 0
    assert Path("built").read_text() == "xx"
    assert_clean(repository)


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_comparison_leaves_no_worktree(repository: Path, sent: signal.Signals) -> None:
    Path("wait.py").write_text(f"open({str(repository / 'began')!r}, 'w').close(); import time; time.sleep(60)")
    command = [sys.executable, "-m", "aiperf_core", "ci", "pair", "--base", "base", "--head", "slow"]
    process = subprocess.Popen(
        [*command, "--", sys.executable, str(repository / "wait.py"), "{out}"],
        env=dict(os.environ), stderr=subprocess.PIPE,
    )  # fmt: skip
    end = time.monotonic() + 60
    while not (repository / "began").exists() and time.monotonic() < end:
        time.sleep(0.05)
    process.send_signal(sent)
    _, errors = process.communicate(timeout=60)
    assert process.returncode in (130, 128 + sent, -sent), errors
    assert_clean(repository)
