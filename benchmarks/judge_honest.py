"""How often `aiperf judge` accuses identical code while other work runs on the machine.

    python benchmarks/judge_honest.py --count 500 --load 2 [--jobs 3] [--seconds 600] [--out honest.jsonl]
    python benchmarks/judge_honest.py --report honest.jsonl

The candidates are the baselines of the three practice targets, as often each, judged against themselves, so no verdict
may be INVALID or UNTRUSTED, and FASTER or SLOWER is false. `--load` is the number of busy processes beside the judges,
and `--jobs` that of judges at the same time, which are work on the machine for each other. Each judgement is a line
that is appended to the file; the same command continues with those that are missing, and `--seconds` starts none after
so long. It ends with 1 if a judgement accused the code or failed.
"""

import argparse
import math
import os
import sys
import threading
import time
from collections import Counter, deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from judge_client import Service, append, other_work, read_lines

from aiperf_core.errors import AiperfError

BODIES = {
    "practice.matmul": ("a, b", "a @ b"),
    "practice.softmax": ("x", "torch.softmax(x, -1)"),
    "practice.sum_rows": ("x", "x.sum(-1)"),
}
COMPARED = ("FASTER", "SLOWER", "SAME", "INCONCLUSIVE")


def candidate(target: str) -> str:
    """The code of a target's baseline, as a candidate."""
    names, body = BODIES[target]
    return f"import torch\n\n\nclass Implementation:\n    def run(self, {names}):\n        return {body}\n"


def missing(count: int, load: int, lines: list[dict[str, Any]]) -> list[str]:
    """The targets of the judgements that the file does not have, in turns."""
    done = Counter(one["target"] for one in lines if one["load"] == load)
    names = sorted(BODIES)
    wanted = Counter(names[number % len(names)] for number in range(count))
    rounds = range(max(wanted.values(), default=0))
    return [name for number in rounds for name in names if done[name] <= number < wanted[name]]


class Judges:
    """Judges that share a list of targets, and append their judgements to a file."""

    def __init__(self, asked: argparse.Namespace) -> None:
        self._asked, self._until = asked, time.monotonic() + asked.seconds
        self._open = deque(missing(asked.count, asked.load, read_lines(asked.out)))
        self._alone = threading.Lock()

    def run(self) -> None:
        """Make the judgements that are missing. Raises `AiperfError` where a service fails."""
        jobs = min(self._asked.jobs, len(self._open))
        if not jobs:
            return
        with other_work(self._asked.load), ThreadPoolExecutor(jobs) as pool:
            for one in [pool.submit(self._judge) for _ in range(jobs)]:
                one.result()

    def _judge(self) -> None:
        """Judge with services of this thread's own until nothing is left or the time is up."""
        services: dict[str, Service] = {}
        options = ("--device", "cpu", "--size", self._asked.size)
        try:
            with ExitStack() as running:
                while (target := self._next()) is not None:
                    if target not in services:
                        service = Service(target, self._asked.out.with_suffix(".cache"), *options)
                        services[target] = running.enter_context(service)
                    self._keep(target, services[target].judge(candidate(target)))
        except AiperfError:
            self._open.clear()  # ends the others too
            raise

    def _next(self) -> str | None:
        try:
            return self._open.popleft() if time.monotonic() < self._until else None
        except IndexError:
            return None

    def _keep(self, target: str, answer: dict[str, Any]) -> None:
        findings = [
            f"{one['issue']}: {one['message']}" for one in answer.get("findings") or () if one["severity"] != "note"
        ]
        kept = {name: answer.get(name) for name in ("verdict", "reason", "error", "seconds")}
        speedup = (answer.get("speedup") or {}).get("value")
        told = {"target": target, "load": self._asked.load, "jobs": self._asked.jobs}
        line = {**told, "load_average": os.getloadavg()[0], "speedup": speedup, **kept, "findings": findings}
        with self._alone:
            append(self._asked.out, line)
            print(
                f"{len(self._open):4} left {target:18} {answer['verdict']!s:13} {answer['seconds']:.2f} s", flush=True
            )


def report(lines: list[dict[str, Any]]) -> int:
    """Print the counts of each load; the exit code."""
    failed = 0
    for load in sorted({one["load"] for one in lines}):
        here = [one for one in lines if one["load"] == load]
        told = Counter(str(one["verdict"]) for one in here)
        accused = [one for one in here if one["verdict"] not in COMPARED]
        failed += len(accused)
        print(f"load {load}: {len(here)} judgements of identical code; {len(accused)} accused or failed")
        print("  " + ", ".join(f"{verdict} {count}" for verdict, count in told.most_common()))
        for one in accused:
            print(f"  {one['target']}: {one['verdict']}: {one['reason'] or one['error']}")
    return int(failed > 0)


def main() -> int:
    """Judge, or report; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=500, help="how many judgements (500)")
    parser.add_argument("--load", type=int, default=2, help="busy processes beside the judge (2)")
    parser.add_argument("--jobs", type=int, default=1, choices=range(1, 33), metavar="N", help="judges at a time (1)")
    parser.add_argument("--seconds", type=float, default=math.inf, help="start no judgement after so long")
    parser.add_argument("--size", default="smoke", help="size of the targets (smoke)")
    parser.add_argument("--out", type=Path, default=Path("judge-honest.jsonl"), metavar="FILE")
    parser.add_argument("--report", type=Path, metavar="FILE", help="judge nothing, and print what such a file has")
    asked = parser.parse_args()
    if asked.report is None:
        try:
            Judges(asked).run()
        except AiperfError as error:
            print(f"error: {error}", file=sys.stderr)
            return int(error.exit_code)
    return report(read_lines(asked.report or asked.out))


if __name__ == "__main__":
    raise SystemExit(main())
