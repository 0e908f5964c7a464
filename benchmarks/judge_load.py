"""From which share of samples that lost a processor a difference by the wall clock says more of the load than the code.

    python benchmarks/judge_load.py [--loads 0,1,2,4] [--count 12] [--budget 3] [--seconds 600] [--out judge-load.jsonl]
    python benchmarks/judge_load.py --report judge-load.jsonl

Judges two candidates through `aiperf judge --serve`, beside several numbers of busy processes: the baseline's code,
whose verdict FASTER or SLOWER is false, and code that also computes the first `--more` rows a second time (a fifth).
Of each judgement it keeps the verdict that the interval alone allows, the verdict that the fastest samples alone allow,
and the larger share of samples that lost a processor (`involuntary_switches`) of the two sides.

The report applies the rule of `aiperf_core.stats.verdicts` with several thresholds to these judgements: from that share
on, the fastest samples must agree. A line counts the false verdicts that remain (SAME of longer code too), and the
right ones, SLOWER of longer code. Each judgement is
a line that is appended to the file; the same command continues with those that are missing, and `--seconds` starts none
after so long.
"""

import argparse
import math
import os
import re
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any

from judge_client import Service, append, other_work, read_lines
from judge_honest import BODIES, candidate

from aiperf_core.errors import AiperfError
from aiperf_core.measurements import Estimate
from aiperf_core.results import Row, TargetResult, open_bundle
from aiperf_core.stats.intervals import verdict
from aiperf_core.stats.observations import blocks

IDENTICAL, LONGER = "identical", "longer"
THRESHOLDS = (0.0, 0.1, 0.25, 0.5, 0.75, math.inf)
DIFFERENT = ("FASTER", "SLOWER")


def longer(target: str, more: float) -> str:
    """The code of a target's baseline, which computes the first part of the rows once more."""
    names, body = BODIES[target]
    first = names.partition(",")[0]
    part = re.sub(rf"\b{first}\b", f"{first}[: int({more} * len({first}))]", body)
    code = candidate(target)
    return code.replace(f"        return {body}\n", f"        {part}\n        return {body}\n")


def seen(result: TargetResult) -> dict[str, Any]:
    """What the rule looks at: two verdicts, and the larger share of samples that lost a processor."""
    baseline, one = result.rows
    fastest = [float(blocks(result, row, None).times.min()) for row in (baseline, one)]
    ratio = fastest[0] / fastest[1]
    assert one.speedup is not None
    return {
        "interval": str(verdict(one.speedup, result.floor)),
        "fastest": str(verdict(Estimate(ratio, ratio, ratio), result.floor)),
        "speedup": one.speedup.value,
        "fastest_ratio": ratio,
        "interrupted": max(map(interrupted, (baseline, one))),
    }


def interrupted(row: Row) -> float:
    """The share of a row's samples in which a thread lost its processor."""
    switches = row.samples.involuntary_switches
    return sum(count > 0 for count in switches) / len(switches)


def missing(asked: argparse.Namespace, lines: list[dict[str, Any]]) -> list[tuple[int, str]]:
    """The load and the candidate of each judgement that the file does not have, in turns."""
    done = [(one["load"], one["candidate"]) for one in lines if one["target"] == asked.target]
    wanted = [(load, name) for load in asked.loads for name in (IDENTICAL, LONGER)]
    counts = {one: done.count(one) for one in wanted}
    return [one for number in range(asked.count) for one in wanted if counts[one] <= number]


def judge(asked: argparse.Namespace) -> None:
    """Make the judgements that are missing. Raises `AiperfError` where the service fails."""
    until = time.monotonic() + asked.seconds
    codes = {IDENTICAL: candidate(asked.target), LONGER: longer(asked.target, asked.more)}
    with ExitStack() as running:
        service = None
        for load, name in missing(asked, read_lines(asked.out)):
            if time.monotonic() >= until:
                return
            if service is None:
                service = running.enter_context(
                    Service(asked.target, asked.out.with_suffix(".cache"), "--device", "cpu", *_options(asked))
                )
                service.judge(codes[IDENTICAL])  # measures the ceilings of this machine, if nothing has yet
            with other_work(load):
                answer = service.judge(codes[name])
            told = {"target": asked.target, "load": load, "candidate": name, "load_average": os.getloadavg()[0]}
            line = {**told, **{key: answer.get(key) for key in ("verdict", "reason", "error", "seconds")}}
            if answer.get("speedup"):
                line |= seen(next(iter(open_bundle(answer["bundle"]).targets.values())))
            append(asked.out, line)
            print(f"load {load} {name:10} {answer['verdict']!s:13} {line.get('interrupted', math.nan):.0%}", flush=True)


def report(lines: list[dict[str, Any]]) -> int:
    """Print the shares, the verdicts, and what each threshold makes of them; the exit code."""
    known = [one for one in lines if "interval" in one]
    print(f"{len(lines)} judgements, {len(lines) - len(known)} without a speedup")
    for load in sorted({one["load"] for one in known}):
        here = [one for one in known if one["load"] == load]
        shares = sorted(one["interrupted"] for one in here)
        print(
            f"load {load}: {len(here)} judgements; samples that lost a processor: median {median(shares):.0%}, "
            f"from {shares[0]:.0%} to {shares[-1]:.0%}"
        )
    for what, told in (("false", [*filter(is_false, known)]), ("right", [*filter(is_right, known)])):
        agree = sum(one["fastest"] == one["interval"] for one in told)
        print(f"{len(told)} of {len(known)} are {what} by the interval; the fastest samples agree in {agree}")
        for threshold in THRESHOLDS:
            left = sum(not is_open(one, threshold) for one in told)
            rule = "without the rule" if threshold == math.inf else f"from a share of {threshold:.0%}"
            print(f"  {rule:22} {left:3} {what}")
    return int(not known)


def is_false(one: dict[str, Any]) -> bool:
    """Whether the interval says what is not so."""
    return one["interval"] in (DIFFERENT if one["candidate"] == IDENTICAL else ("FASTER", "SAME"))


def is_right(one: dict[str, Any]) -> bool:
    """Whether the interval finds a difference that there is."""
    return bool(one["candidate"] == LONGER and one["interval"] == "SLOWER")


def is_open(one: dict[str, Any], threshold: float) -> bool:
    """Whether the rule with this threshold leaves a judgement open."""
    return bool(one["interrupted"] >= threshold and one["fastest"] != one["interval"])


def _options(asked: argparse.Namespace) -> Sequence[str]:
    return "--size", asked.size, "--budget", str(asked.budget)


def _loads(text: str) -> Sequence[int]:
    return [int(one) for one in text.split(",")]


def main() -> int:
    """Judge, or report; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", default="practice.softmax", choices=sorted(BODIES))
    parser.add_argument("--loads", type=_loads, default=[0, 1, 2, 4], help="numbers of busy processes (0,1,2,4)")
    parser.add_argument("--count", type=int, default=12, help="judgements of each candidate at each load (12)")
    parser.add_argument("--more", type=float, default=0.2, help="the part that longer code computes again (0.2)")
    parser.add_argument("--seconds", type=float, default=math.inf, help="start no judgement after so long")
    parser.add_argument("--budget", type=float, default=3.0, help="sampling budget of a judgement in seconds (3)")
    parser.add_argument("--size", default="cpu", help="size of the target (cpu)")
    parser.add_argument("--out", type=Path, default=Path("judge-load.jsonl"), metavar="FILE")
    parser.add_argument("--report", type=Path, metavar="FILE", help="judge nothing, and print what such a file has")
    asked = parser.parse_args()
    if asked.report is None:
        try:
            judge(asked)
        except AiperfError as error:
            print(f"error: {error}", file=sys.stderr)
            return int(error.exit_code)
    return report(read_lines(asked.report or asked.out))


if __name__ == "__main__":
    raise SystemExit(main())
