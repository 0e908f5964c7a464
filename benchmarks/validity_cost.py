"""What it costs to be believed: runs with all guards of validity, beside the same runs without them.

    python benchmarks/validity_cost.py [TARGET ...] [--device cpu|cuda] [--tier standard] [--runs 3] [--out FILE.json]

Switched off are new values, judging, fingerprints, poison, the looks at processes and their state, repeated values, the
comparison of clocks and CUPTI's audit, and every check at the end. What a time needs to be a time at all stays on: own
processes, taking turns, cold caches, warm-up, all streams. Runs with and without take turns. Wanted: with all guards a
run takes at most 1.5 times as long. A run ends when its intervals are narrow enough, or its budget is spent; so the
time of a sample, all that belongs to the run included, stands beside. Ends with 1 where it costs more than wanted.
"""

import argparse
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

from attrs import asdict, evolve, frozen

from aiperf_core import atomic
from aiperf_core.errors import AiperfError, UsageError
from aiperf_core.harness.run.from_python import Silent
from aiperf_core.harness.run.options import TIERS, Options
from aiperf_core.harness.run.planner import Planner
from aiperf_core.harness.run.setup import Plan
from aiperf_core.plugins import load_plugins
from aiperf_core.results import jsontext, structure
from aiperf_core.results.machine import machine
from aiperf_core.results.models import TargetResult, Verdict

TARGETS = ("ch07.memory_access", "ch01.batched_gemm")
WANTED = 1.5
LOOP = ("fresh_values", "judged_output", "inputs_intact", "late_write", "poison", "seeds")
AFTER: tuple[str, ...] = (
    "clocks_agree",
    "faster_than_light",
    "cupti_ledger",
    "aliasing",
    "global_state",
    "process_census",
    "machine",
)
AFTER += ("conditions", "versions", "self_check", "repeat_against_fresh", "ranks")


@frozen
class Cost:
    """A target's medians over its runs: seconds of a run, and of one of its samples, with all guards and without."""

    target: str
    with_s: float
    without_s: float
    sample_with_s: float
    sample_without_s: float

    @property
    def ratio(self) -> float:
        """How many times longer a run takes with all guards."""
        return self.with_s / self.without_s


def measure(target: str, options: Options, runs: int) -> Cost:
    """Run a target with and without guards in turns. Raises `AiperfError` where a run is not to be had."""
    bare = evolve(options, off=frozenset(LOOP + AFTER), at_end=evolve(options.at_end, audit=False))
    found: dict[bool, list[tuple[float, float]]] = {True: [], False: []}
    with tempfile.TemporaryDirectory(prefix="aiperf-cost-") as folder, Planner(options, Path(folder)) as planner:
        plans, skipped = planner.plan(load_plugins().select([target]))
        if skipped:
            raise UsageError(skipped[0].reason)
        for number in range(runs):
            for guarded in (True, False) if number % 2 == 0 else (False, True):
                planner.options = options if guarded else bare
                found[guarded].append(_run(planner, plans[0], Path(folder)))
    whole, sample = ([median(one[part] for one in found[guarded]) for guarded in (True, False)] for part in (0, 1))
    return Cost(target, whole[0], whole[1], sample[0], sample[1])


def _run(planner: Planner, plan: Plan, folder: Path) -> tuple[float, float]:
    result = planner.run_whole(plan, lambda _, name: folder / f"{name}.log", Silent())
    if not isinstance(result, TargetResult):
        raise AiperfError(f"{plan.name} was not measured: {result.reason}")
    bad = [f"{row.name}: {row.reason}" for row in result.rows if row.verdict in (Verdict.INVALID, Verdict.FAILED)]
    if bad:
        raise AiperfError(f"{plan.name} was not measured whole: {'; '.join(bad)}")
    return result.wall_s, result.wall_s / max(1, result.overhead.samples)


HEAD = f"{'target':24}{'with':>9}{'without':>9}{'ratio':>7}{'a sample with':>16}{'without':>10}"


def line(one: Cost) -> str:
    """A target's line under `HEAD`."""
    return (
        f"{one.target:24}{one.with_s:>7.1f} s{one.without_s:>7.1f} s{one.ratio:>6.2f}x"
        f"{one.sample_with_s * 1e3:>13.1f} ms{one.sample_without_s * 1e3:>7.1f} ms"
    )


def main() -> int:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="*", default=list(TARGETS), metavar="TARGET")
    parser.add_argument("--device", choices=("cpu", "cuda"))
    parser.add_argument("--tier", choices=sorted(TIERS), default="standard")
    parser.add_argument("--budget", type=float, metavar="SECONDS", help="sampling time of a run (the tier's)")
    parser.add_argument("--runs", type=int, default=3, help="runs of each kind (3)")
    parser.add_argument("--out", type=Path, help="write the figures there as JSON")
    asked = parser.parse_args()
    options = Options(device=asked.device, tier=asked.tier, budget_s=asked.budget)
    costs = []
    print(HEAD, flush=True)
    try:
        for target in asked.targets:
            costs.append(measure(target, options, asked.runs))
            print(line(costs[-1]), flush=True)
    except AiperfError as error:
        print(f"error: {error}", file=sys.stderr)
        return int(error.exit_code)
    except KeyboardInterrupt:
        return 130
    if asked.out:
        document: dict[str, Any] = {
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            "tier": asked.tier,
            "machine": structure.document(machine()),
            "costs": [asdict(one) for one in costs],
        }
        atomic.write(asked.out, jsontext.to_bytes(document))
    return int(any(one.ratio > WANTED for one in costs))


if __name__ == "__main__":
    sys.exit(main())
