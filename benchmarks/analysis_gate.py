"""Whether `aiperf ci run` stops a real slowdown of 3 %, and lets unchanged code pass.

    python benchmarks/analysis_gate.py --work FOLDER [--slowed 20] [--unchanged 50] [--minutes 60]
    python benchmarks/analysis_gate.py --work FOLDER --report

The target, `gate_targets/reflect.py`, computes for about 10 ms. A slowed try measures a copy of its source with 3 %
more of the same work; an unchanged try measures the source as it is. Both are `aiperf ci run` of one suite, which
confirms a suspect with a second run. Unchanged runs stay in the history, as after a merge; slowed ones leave it, as
after a rejection. Before the first try the history gets 15 unchanged runs.

Wanted: at least 19 of 20 slowed tries stopped (exit code 4), and none of 50 unchanged. A try without a decision (the
machine was busy, a row was distrusted) is shown and repeated. The machine should be quiet; `--busy 1` measures on any.

Each try is a line in FOLDER/tries.jsonl. Given again, the script makes the tries that are missing. It ends with 0 where
both rates are as wanted, 1 where they are not, and 5 where the time was too short for all tries.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from attrs import asdict, frozen

SOURCES = Path(__file__).with_name("gate_targets")
PACKAGE = "gate_targets"
MORE = 0.03
HISTORY = 15
LEAST_STOPPED = 0.95
STOP, PASS = 4, 0
# Tries without a decision before the script gives up.
MOST_VOID = 20

SUITE = """\
name = "gate"
targets = ["gate.reflect"]
device = "cpu"
budget_s = {budget}
timeout_s = 30

[busy]
processors = {busy}
wait_s = 120

[[gates]]
metric = "time"
floor = 0.01
rows = ["steady"]

[[gates]]
metric = "speedup"
floor = 0.01
rows = ["steady"]
"""


@frozen
class Try:
    """A call of `aiperf ci run`: its kind (`history`, `slowed` or `unchanged`), its exit code and what it said."""

    kind: str
    code: int
    seconds: float
    said: str

    @property
    def decided(self) -> bool:
        """Whether the gate came to a decision."""
        return self.code in (STOP, PASS)


Runner = Callable[[bool], Try]


def prepare(work: Path, budget_s: float, busy: float) -> None:
    """Make the suite, and both copies of the target as packages with an entry point."""
    work.mkdir(parents=True, exist_ok=True)
    (work / "suite.toml").write_text(SUITE.format(budget=budget_s, busy=busy))
    for name, more in (("unchanged", 0.0), ("slowed", MORE)):
        folder = work / name
        if folder.exists():
            continue
        shutil.copytree(SOURCES, folder / PACKAGE, ignore=shutil.ignore_patterns("__pycache__"))
        source = folder / PACKAGE / "reflect.py"
        text = source.read_text()
        assert text.count("\nMORE = 0.0\n") == 1
        source.write_text(text.replace("\nMORE = 0.0\n", f"\nMORE = {more}\n"))
        info = folder / "aiperf_gate-0.1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: aiperf-gate\nVersion: 0.1.0\n")
        (info / "entry_points.txt").write_text(f"[aiperf_core]\ngate = {PACKAGE}.plugin\n")


def measured(work: Path, slowed: bool) -> Try:
    """Call `aiperf ci run` with one of the copies. The runs of a slowed one leave the history."""
    runs = work / "artifacts" / "ci" / "gate" / "runs"
    before = set(runs.iterdir()) if runs.is_dir() else set()
    path = os.pathsep.join(
        filter(None, (str(work / ("slowed" if slowed else "unchanged")), os.environ.get("PYTHONPATH")))
    )
    command = [sys.executable, "-m", "aiperf_core", "ci", "run", "suite.toml", "--json"]
    start = time.monotonic()
    done = subprocess.run(
        command, cwd=work, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False
    )
    seconds = time.monotonic() - start
    if slowed or done.returncode not in (STOP, PASS):
        aside = work / "aside"
        aside.mkdir(exist_ok=True)
        for one in set(runs.iterdir() if runs.is_dir() else ()) - before:
            one.rename(aside / f"{time.time_ns()}-{one.name}")
    return Try("slowed" if slowed else "unchanged", done.returncode, seconds, _said(done))


def _said(done: "subprocess.CompletedProcess[str]") -> str:
    """The changes of the report in a line; without a report, the error."""
    try:
        decisions = json.loads(done.stdout)["decisions"]
    except (ValueError, KeyError):
        return " ".join(done.stderr.split())[-300:]
    return "; ".join(_decision(one) for one in decisions)


def _decision(one: Mapping[str, object]) -> str:
    numbers = [one["change_percent"], one["low_percent"], one["high_percent"]]
    shown = " ".join(f"{number:+.2f}" for number in numbers if isinstance(number, float))
    return f"{one['metric'] or one['reason']} {one['word']} {shown}".strip()


def order(slowed: int, unchanged: int) -> list[str]:
    """The kinds of all tries, evenly mixed."""
    places = [((number + 0.5) / slowed, "slowed") for number in range(slowed)]
    places += [((number + 0.5) / unchanged, "unchanged") for number in range(unchanged)]
    return [kind for _, kind in sorted(places)]


def missing(done: Sequence[Try], slowed: int, unchanged: int) -> list[str]:
    """The kinds of the tries that are still to be made, the history first."""
    left = {"slowed": slowed, "unchanged": unchanged}
    for one in done:
        if one.decided and one.kind in left:
            left[one.kind] -= 1
    history = HISTORY - sum(one.kind == "history" and one.decided for one in done)
    kinds = []
    for kind in reversed(order(slowed, unchanged)):
        if left[kind] > 0:
            left[kind] -= 1
            kinds.append(kind)
    return ["history"] * max(0, history) + kinds[::-1]


def read(file: Path) -> list[Try]:
    """The tries of a file; none where it does not exist. A line that a kill cut off is left out."""
    found = []
    for line in file.read_text().splitlines() if file.exists() else []:
        try:
            found.append(Try(**json.loads(line)))
        except (ValueError, TypeError):
            continue
    return found


def make(work: Path, slowed: int, unchanged: int, minutes: float, runner: Runner) -> list[Try]:
    """Make the missing tries while there is time."""
    file = work / "tries.jsonl"
    done, deadline, void = read(file), time.monotonic() + 60 * minutes, 0
    while (kinds := missing(done, slowed, unchanged)) and time.monotonic() < deadline and void < MOST_VOID:
        made = runner(kinds[0] == "slowed")
        one = Try(kinds[0], made.code, round(made.seconds, 1), made.said)
        void += not one.decided
        done.append(one)
        with file.open("a") as lines:
            lines.write(json.dumps(asdict(one)) + "\n")
        print(f"{one.kind:9} code {one.code:>2} {one.seconds:6.1f} s  {one.said}", flush=True)
    return done


def report(done: Sequence[Try], slowed: int, unchanged: int) -> int:
    """Print the rates, and return the exit code."""
    code = 0
    print(f"\n{'tries':12}{'decided':>8}{'stopped':>8}{'wanted':>16}{'  without a decision':>20}")
    for kind, count, wanted in (("slowed", slowed, f">= {LEAST_STOPPED:.0%}"), ("unchanged", unchanged, "0")):
        some = [one for one in done if one.kind == kind]
        decided = [one for one in some if one.decided]
        stopped = sum(one.code == STOP for one in decided)
        met = stopped >= LEAST_STOPPED * len(decided) if kind == "slowed" else stopped == 0
        void, word = len(some) - len(decided), ("met" if met else "NOT MET") if decided else "-"
        print(f"{kind:12}{len(decided):>8}{stopped:>8}{wanted:>16}{void:>20}  {word}")
        code = 1 if not met else code
        code = 5 if code == 0 and len(decided) < count else code
    return code


def main(arguments: Sequence[str] | None = None, runner: Runner | None = None) -> int:
    """Make tries and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True, metavar="FOLDER", help="where the suite and its runs are")
    parser.add_argument("--slowed", type=int, default=20, help="tries with a slowdown (20)")
    parser.add_argument("--unchanged", type=int, default=50, help="tries without (50)")
    parser.add_argument("--minutes", type=float, default=60.0, help="the time for tries (60)")
    parser.add_argument("--budget", type=float, default=4.0, metavar="SECONDS", help="sampling time of a run (4)")
    parser.add_argument(
        "--busy", type=float, default=0.25, metavar="SHARE", help="processors that others may use (0.25)"
    )
    parser.add_argument("--report", action="store_true", help="make no tries; report those that are there")
    asked = parser.parse_args(arguments)
    if min(asked.slowed, asked.unchanged) < 1:
        parser.error("--slowed and --unchanged take a whole number of at least 1")
    work = asked.work.absolute()
    if not asked.report:
        prepare(work, asked.budget, asked.busy)
        make(work, asked.slowed, asked.unchanged, asked.minutes, runner or (lambda slowed: measured(work, slowed)))
    return report(read(work / "tries.jsonl"), asked.slowed, asked.unchanged)


if __name__ == "__main__":
    sys.exit(main())
