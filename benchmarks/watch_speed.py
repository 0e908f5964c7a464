"""How fast `aiperf judge --watch` and `--serve` answer, and what a whole quick run costs beside `import torch`.

    python benchmarks/watch_speed.py [--target practice.softmax] [--saves 20] [--out watch-speed.json]
    python benchmarks/watch_speed.py --report watch-speed.json

Wanted on two cores that do nothing else, for a practice target: the median time from a save to its verdict is at most
2 s, so is that of `--serve` from the second candidate on, and the first candidate is answered within 6 s of the start
of the service. A whole quick run takes at most 1.2 times a bare `import torch` plus 5 s. The script ends with 1 where
a figure is missed.
"""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

from judge_client import Service
from judge_honest import BODIES, candidate

from aiperf_core.errors import AiperfError
from aiperf_core.folders import cache_folder

SAVE_S, SERVE_S, FIRST_S, IMPORTS, OWN_S = 2.0, 2.0, 6.0, 1.2, 5.0
RUNS = 3
# The last line of a verdict: its time of day, and how long it took.
_VERDICT = re.compile(rb"^\d\d:\d\d:\d\d .*s\)$")


def saves(target: str, count: int) -> list[float]:
    """Seconds from each save to its verdict, by `aiperf judge --watch`. The first verdict is left out."""
    with tempfile.TemporaryDirectory(prefix="aiperf-watch-speed-") as folder:
        file = Path(folder, "candidate.py")
        file.write_text(candidate(target))
        command = [sys.executable, "-m", "aiperf_core", "judge", str(file), "--watch", "--target", target]
        command += ["--device", "cpu", "--quiet", "--out", str(Path(folder, "kept"))]
        watch = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        assert watch.stdout is not None
        try:
            _verdict(watch.stdout)
            times = []
            for number in range(count):
                time.sleep(0.3)  # the next save comes after the verdict was read
                file.write_text(f"{candidate(target)}# save {number}\n")
                saved = time.perf_counter()
                _verdict(watch.stdout)
                times.append(time.perf_counter() - saved)
                print(f"save {number + 1}: {times[-1]:.2f} s", flush=True)
            return times
        finally:
            watch.send_signal(signal.SIGINT)
            watch.wait()


def _verdict(lines: Iterator[bytes]) -> None:
    """Wait for the last line of a verdict. Raises `AiperfError` where the command ends before."""
    for line in lines:
        if _VERDICT.match(line.strip()):
            return
    raise AiperfError("aiperf judge --watch ended without a verdict")


def served(target: str, count: int) -> list[float]:
    """Seconds from a request to its answer, of candidates in a row; the first counts from the start of the service."""
    began = time.perf_counter()
    times = []
    with Service(target, cache_folder(), "--device", "cpu") as service:
        for number in range(count + 1):
            service.judge(f"{candidate(target)}# candidate {number}\n")
            times.append(time.perf_counter() - began)
            print(f"candidate {number + 1}: {times[-1]:.2f} s", flush=True)
            began = time.perf_counter()
    return times


def commands(target: str) -> tuple[float, float]:
    """The median wall times, in seconds, of a quick run and of a script that imports torch, taken in turns."""
    run = [sys.executable, "-m", "aiperf_core", "run", target, "--device", "cpu", "--quiet", "--out"]
    times: dict[str, list[float]] = {"run": [], "import": []}
    with tempfile.TemporaryDirectory(prefix="aiperf-watch-speed-") as folder:
        for number in range(RUNS):
            both = {"run": [*run, str(Path(folder, str(number)))], "import": [sys.executable, "-c", "import torch"]}
            for name, command in both.items():
                began = time.perf_counter()
                subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                times[name].append(time.perf_counter() - began)
    return median(times["run"]), median(times["import"])


def report(found: dict[str, Any]) -> int:
    """Print the figures with their limits; the exit code."""
    run_s, import_s, later = found["run_s"], found["import_s"], found["served_s"][1:]
    quick_s = IMPORTS * import_s + OWN_S
    figures = (
        (f"a save is answered (median of {len(found['saves_s'])})", median(found["saves_s"]), SAVE_S),
        ("the first candidate of a service is answered, start included", found["served_s"][0], FIRST_S),
        (f"a later candidate is answered (median of {len(later)})", median(later), SERVE_S),
        (f"a quick run, against {IMPORTS:g} x import torch ({import_s:.2f} s) + {OWN_S:g} s", run_s, quick_s),
    )
    print(f"{found['target']}, load average {found['load_before']:.1f} before and {found['load_after']:.1f} after")
    for text, value, limit in figures:
        print(f"{text}: {value:.2f} s; wanted: at most {limit:.2f} s: {'MET' if value <= limit else 'MISSED'}")
    return int(any(value > limit for _, value, limit in figures))


def main() -> int:
    """Measure, or report; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", default="practice.softmax", choices=sorted(BODIES))
    parser.add_argument("--saves", type=int, default=20, help="saves, and candidates after the first (20)")
    parser.add_argument("--out", type=Path, default=Path("watch-speed.json"), metavar="FILE")
    parser.add_argument("--report", type=Path, metavar="FILE", help="measure nothing, and print what such a file has")
    asked = parser.parse_args()
    if asked.report is not None:
        return report(json.loads(asked.report.read_text()))
    before = os.getloadavg()[0]
    try:
        run_s, import_s = commands(asked.target)  # measures the ceilings of this machine, if nothing has yet
        found = {"saves_s": saves(asked.target, asked.saves), "served_s": served(asked.target, asked.saves)}
    except AiperfError as error:
        print(f"error: {error}", file=sys.stderr)
        return int(error.exit_code)
    load = {"load_before": before, "load_after": os.getloadavg()[0]}
    whole = {"target": asked.target, **load, **found, "run_s": run_s, "import_s": import_s}
    asked.out.write_text(json.dumps(whole, indent=1) + "\n")
    return report(whole)


if __name__ == "__main__":
    raise SystemExit(main())
