"""What the live file of a run costs: a line of it, and whole runs with and without it.

    python benchmarks/live_cost.py [--lines 5000] [--pairs 8] [--out FILE.json]

A line is the time of the observer's hook when it writes. The file starts anew several times on the way, which is part
of it. Wanted: the 99th percentile of a line below 1 ms. Of each pair of runs of `practice.softmax` on the CPU, one
cannot create its live file; who begins changes from pair to pair. The ratios, with the file to without, are of the time
of the baseline's call and of the whole command: medians over the pairs, with exact intervals by order statistics that
cover at least 95 %. Ends with 1 where a line costs more than wanted, or an interval of a ratio lies above 1.
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from itertools import count
from pathlib import Path

from aiperf_analysis.live.observer import LiveObserver
from aiperf_core.events import Progress, RunFinished, RunStarted, TargetFinished, TargetStarted
from aiperf_core.results.bundle import Bundle

LIMIT_S, COVERED, FEWEST_PAIRS = 1e-3, 0.95, 6
RUN = ("run", "practice.softmax", "--device", "cpu", "--size", "smoke", "--budget", "1", "--quiet")
TARGET = "practice.softmax"
TARGETS_EVERY = 100  # lines of a target


def lines(number: int) -> dict[str, float]:
    """Seconds of a line, of this many."""
    ticks = count()
    observer = LiveObserver(clock=lambda: float(next(ticks)))  # a second passes between two lines: each is written
    observer.run_started(RunStarted(targets=("ch07.memory_access",), device="cuda", bundle="/home/a/artifacts/runs/b"))
    taken = []
    for at in range(number):
        if at % TARGETS_EVERY == 0:
            name = f"ch07.memory_access@n={at}"
            observer.target_finished(TargetFinished(name=name, verdicts={"coalesced": "FASTER"}, path=f"/{name}.json"))
            observer.target_started(TargetStarted(name=name, index=1, total=9))
        progress = Progress(
            target=name, phase="sampling", implementation="coalesced", samples=at, seconds_left=12.5, share=0.25,
            undecided="coalesced", interval=(1.9 - 1 / (at + 2), 1.9 + 1 / (at + 2)), wanted=0.01, round=1, rounds=2,
            block=at, clock_hz=1.98e9, temperature_c=54.0, throttled=(),
        )  # fmt: skip
        before = time.perf_counter()
        observer.progress(progress)
        taken.append(time.perf_counter() - before)
    (file,) = Path(os.environ["XDG_RUNTIME_DIR"]).rglob("*.jsonl")
    size = file.stat().st_size
    observer.run_finished(RunFinished(path="b", exit_code=0))
    taken.sort()
    return {
        "lines": number,
        "median_s": statistics.median(taken),
        "p99_s": taken[math.ceil(0.99 * number) - 1],
        "most_s": taken[-1],
        "file_bytes": size,
    }


def run(folder: Path, live: Path) -> tuple[float, float]:
    """Run once with this runtime folder; seconds of the baseline's call and of the command."""
    out = folder / "bundle"
    command = [sys.executable, "-m", "aiperf_core", *RUN, "--out", str(out)]
    before = time.perf_counter()
    done = subprocess.run(
        command, env={**os.environ, "XDG_RUNTIME_DIR": str(live)}, stdout=subprocess.DEVNULL, check=False
    )
    whole = time.perf_counter() - before
    rows = Bundle.open(out).target(TARGET).rows
    if rows[0].time_s is None:
        raise SystemExit(f"{TARGET} was not measured; the command ended with {done.returncode}")
    return rows[0].time_s.value, whole


def pairs(number: int) -> dict[str, object]:
    """The ratios of runs with the live file to runs without it, of this many pairs."""
    calls, commands = [], []
    for pair in range(number):
        found = {}
        for with_file in (True, False) if pair % 2 == 0 else (False, True):
            with tempfile.TemporaryDirectory() as place:
                folder = Path(place)
                (folder / "no folder").write_text("")
                found[with_file] = run(folder, folder / ("live" if with_file else "no folder"))
                assert with_file == any((folder / "live").rglob("*.jsonl"))
        calls.append(found[True][0] / found[False][0])
        commands.append(found[True][1] / found[False][1])
        print(f"pair {pair + 1}: call {calls[-1]:.4f}, command {commands[-1]:.4f}", flush=True)
    return {"pairs": number, "call": median_of(calls), "command": median_of(commands)}


def median_of(ratios: Sequence[float]) -> dict[str, float]:
    """The median with its interval: the narrowest symmetric order statistics that cover enough."""
    ordered, number = sorted(ratios), len(ratios)
    low = 0
    while low + 1 < number / 2 and _covered(low + 1, number) >= COVERED:
        low += 1
    return {
        "median": statistics.median(ordered),
        "low": ordered[low],
        "high": ordered[number - 1 - low],
        "covered": _covered(low, number),
    }


def _covered(low: int, number: int) -> float:
    """How often the median of the truth lies between the order statistics `low` and `number - 1 - low`, from 0."""
    return 1 - 2 * sum(math.comb(number, one) for one in range(low + 1)) / 2**number


def main() -> int:
    """Measure and print; 1 where the file costs more than wanted."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", type=int, default=5000)
    parser.add_argument("--pairs", type=int, default=8, help=f"0 for none, or at least {FEWEST_PAIRS}")
    parser.add_argument("--out", type=Path, help="a JSON file of the figures")
    given = parser.parse_args()
    if given.lines < 1 or 0 < given.pairs < FEWEST_PAIRS:
        parser.error(f"--lines is at least 1, --pairs 0 or at least {FEWEST_PAIRS}")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_RUNTIME_DIR"] = folder
        found: dict[str, object] = {"line": (line := lines(given.lines))}
    print(f"a line: median {1e6 * line['median_s']:.0f} us, 99 % {1e6 * line['p99_s']:.0f} us (limit 1000 us), most "
          f"{1e6 * line['most_s']:.0f} us; the file has {line['file_bytes'] / 1024:.0f} KiB "
          f"after {given.lines} lines")  # fmt: skip
    slower = False
    if given.pairs:
        found["runs"] = compared = pairs(given.pairs)
        for name in ("call", "command"):
            one = compared[name]
            assert isinstance(one, dict)
            slower |= one["low"] > 1
            print(f"{name}, with to without: {one['median']:.4f} [{one['low']:.4f}, {one['high']:.4f}]")
    if given.out:
        given.out.write_text(json.dumps(found, indent=2) + "\n")
    return int(line["p99_s"] > LIMIT_S or slower)


if __name__ == "__main__":
    sys.exit(main())
