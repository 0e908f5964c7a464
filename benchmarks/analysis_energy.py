"""How often the interval of a call's energy contains the figure of a repeated run.

    python benchmarks/analysis_energy.py [--repeats 1000] [--seed 1] [--out FILE.json]

A device with a known power and a known time of a call is simulated: processes differ in speed, samples are noisy, and
the energy counter moves in steps that a poll sees late. The harness's own functions turn the steps into a figure, and
the analysis makes its interval. An interval of aiperf predicts a repeated run, so that is what must lie in it in 92 to
98 % of the cases, but where a case says that its interval is cautious. Beside it stands how often the true figure lies
in it, which is more often. Ends with 1 where a case misses the bar in 1,000 repeats or more.
"""

import argparse
import sys
from pathlib import Path

import numpy as np
from attrs import asdict, frozen

from aiperf_analysis.analyses.energy import log_energy, time_error
from aiperf_core import atomic
from aiperf_core.devices.energy import Slope, Step, per_call, power_between
from aiperf_core.harness.run.conditions import EnergyPlan
from aiperf_core.measurements import Energy
from aiperf_core.results import jsontext
from aiperf_core.stats.intervals import Blocks

LOW, HIGH = 0.92, 0.98
WATTS, IDLE_W, CALL_S = 600.0, 90.0, 1e-3
READ_S = 1e-4  # of the counter
PASSES, SAMPLES = 40, 5  # of a round
NOISE = 0.02  # of a sample, relative
PLAN = EnergyPlan()  # as a run has it


@frozen(kw_only=True)
class Case:
    """A device and a run.

    update_s: the time between two steps of the counter. poll_s: between two looks at it.
    process: the relative spread of the times of processes.
    rounds: fresh processes of a run.
    plan: how long the energy is measured.
    cautious: processes differ less than the medians of their noisy samples do. The interval, which takes all of that
        spread for a difference of processes, is too wide, and may hold more than 98 % of repeats.
    """

    name: str
    update_s: float
    poll_s: float
    process: float
    rounds: int
    plan: EnergyPlan = PLAN
    cautious: bool = False


CASES = (
    Case(name="GPU, tier standard", update_s=0.1, poll_s=0.002, process=0.01, rounds=3),
    Case(name="GPU, tier audit", update_s=0.1, poll_s=0.002, process=0.01, rounds=10),
    Case(name="GPU, polled late", update_s=0.1, poll_s=0.02, process=0.001, rounds=10),
    Case(name="GPU, both errors alike", update_s=0.1, poll_s=0.02, process=0.006, rounds=10),
    Case(name="processor, tier standard", update_s=0.001, poll_s=0.002, process=0.01, rounds=3),
    Case(name="processor, like processes", update_s=0.001, poll_s=0.002, process=0.001, rounds=3, cautious=True),
)


def steps(case: Case, watts: float, seconds: float, rng: np.random.Generator) -> list[Step]:
    """What a poll sees of a counter, from a moment before the load to its end."""
    begins = np.cumsum(case.poll_s * rng.uniform(0.9, 1.3, int(seconds / case.poll_s / 0.9) + 2)) - case.poll_s
    begins = begins[begins < seconds]
    updates = rng.uniform(0, case.update_s) + case.update_s * np.arange(int(seconds / case.update_s) + 2)
    updates += rng.normal(0, 0.02 * case.update_s, len(updates))
    # A read sees the last update before its end.
    last = np.searchsorted(updates, begins + READ_S) - 1
    seen = [Step(float(begins[0] + READ_S), watts * float(updates[max(last[0], 0)]))]
    for number in range(1, len(begins)):
        if last[number] > last[number - 1] and last[number] >= 0:
            at = float(begins[number] + READ_S)
            seen.append(Step(at, watts * float(updates[last[number]]), at - float(begins[number - 1])))
    return seen


def slope(case: Case, watts: float, seconds: float, rng: np.random.Generator) -> Slope:
    """The power as the harness finds it."""
    found = power_between(steps(case, watts, seconds + 0.2, rng), 0.1, seconds + 0.2)
    assert found is not None
    return found


def run(case: Case, rng: np.random.Generator) -> tuple[Energy, Blocks]:
    """A run: its energy, which the last process measures, and the times of all rounds."""
    speeds = CALL_S * np.exp(case.process * rng.standard_normal(case.rounds))
    each = PASSES * SAMPLES
    times = np.repeat(speeds, each) * np.exp(NOISE * rng.standard_normal(case.rounds * each))
    rounds = np.repeat(np.arange(case.rounds), each)
    passes = np.repeat(np.arange(case.rounds * PASSES), SAMPLES)
    seconds = max(case.plan.run_s, (case.plan.updates + 2) * case.update_s + 0.2)
    # The energy is measured by another process of the same kind.
    call_s = CALL_S * float(np.exp(case.process * rng.standard_normal()))
    calls = round(seconds / call_s)
    load, idle = slope(case, WATTS, seconds, rng), slope(case, IDLE_W, 0.5 + 6 * case.update_s, rng)
    return per_call(load, idle, calls, calls * call_s), Blocks.of(times.tolist(), passes.tolist(), rounds.tolist())


@frozen(kw_only=True)
class Outcome:
    """Shares of the repeats, and the median half width of the interval."""

    name: str
    gross_repeat: float
    net_repeat: float
    gross_truth: float
    half_width: float
    cautious: bool

    @property
    def met(self) -> bool:
        """Whether repeated runs lie in the interval as often as promised."""
        most = 1.0 if self.cautious else HIGH
        return all(LOW <= share <= most for share in (self.gross_repeat, self.net_repeat))

    @property
    def told(self) -> str:
        """A word for the table."""
        return ("wide" if self.cautious else "met") if self.met else "MISSED"


def outcome(case: Case, repeats: int, seed: int) -> Outcome:
    """How often a case's intervals hold."""
    rng = np.random.default_rng(seed)
    held = {"gross": 0, "net": 0, "truth": 0}
    widths = []
    for _ in range(repeats):
        (energy, blocks), (again, _) = run(case, rng), run(case, rng)
        error = time_error(blocks, None, case.rounds)
        gross, net = log_energy(energy, error), log_energy(energy, error, net=True)
        assert gross is not None
        assert net is not None
        widths.append(gross.half_width)
        held["gross"] += abs(np.log(again.joules_per_call / gross.joules)) <= gross.half_width
        held["net"] += abs(np.log(again.net_joules_per_call / net.joules)) <= net.half_width
        held["truth"] += abs(np.log(WATTS * CALL_S / gross.joules)) <= gross.half_width
    return Outcome(
        name=case.name, gross_repeat=held["gross"] / repeats, net_repeat=held["net"] / repeats,
        gross_truth=held["truth"] / repeats, half_width=float(np.median(widths)), cautious=case.cautious,
    )  # fmt: skip


def main(arguments: list[str] | None = None) -> int:
    """Run all cases and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args(arguments)
    found = [outcome(case, options.repeats, options.seed) for case in CASES]
    print(f"| case, {options.repeats} repeats | repeated run in J/op | in net J/op | truth in J/op | half width | |")
    print("| --- | --: | --: | --: | --: | --- |")
    for one in found:
        shares = (f"{100 * share:.1f} %" for share in (one.gross_repeat, one.net_repeat, one.gross_truth))
        print(f"| {one.name} | {' | '.join(shares)} | {100 * one.half_width:.2f} % | {one.told} |")
    if options.out:
        atomic.write(options.out, jsontext.dumps({"repeats": options.repeats, "cases": [asdict(one) for one in found]})
                     .encode())  # fmt: skip
    return 0 if options.repeats < 1000 or all(one.met for one in found) else 1


if __name__ == "__main__":
    sys.exit(main())
