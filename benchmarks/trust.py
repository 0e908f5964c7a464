"""What the verdicts are worth: repeated runs of one target whose true answers are known.

    python benchmarks/trust.py --device cpu --runs 100 --out trust.jsonl
    python benchmarks/trust.py --device cpu --target threads --load 2 --tier quick --runs 200 --out load.jsonl
    python benchmarks/trust.py --report trust.jsonl [FILE...]

The targets, `trust_targets/slowdown.py` and `threads.py`, have their baseline twice more as variants, and once with a
known slowdown. `--load` is the number of busy processes beside the runs; no A/A may then be FASTER or SLOWER. Wanted
otherwise:

- honest A/A: a comparison of the baseline with itself says FASTER or SLOWER in at most 5 % of at least 200;
- power: the slowdown (2 % of a kernel of about 100 us on a GPU, 5 % on the CPU) is found in at least 95 % of 100 runs;
- reproducible: the interval in one run covers the median of the next in at least 90 % of 50 repetitions, of speedups
  and of times. Of intervals that hold the true value 95 times in 100, and no more often, 83 do: both medians vary.

The first form makes runs, through the same planner, judge, fresh processes and scoring as `aiperf run`, and appends a
line a run to a file. Given again, it makes those that are missing. Several processes, each with a GPU of its own, share
the work by `--first`: `CUDA_VISIBLE_DEVICES=1 … --first 25 --runs 25 --out second.jsonl`. The second form puts such
files together and ends with 1 where a claim is not met. The comparisons of a run share their baseline, and a run is
compared with both its neighbours, so the intervals given with the proportions are a little too narrow.
"""

import argparse
import contextlib
import json
import os
import secrets
import sys
import tempfile
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

import cattrs
from attrs import evolve, frozen

from aiperf_core.errors import AiperfError, UsageError
from aiperf_core.harness.run.from_python import Silent
from aiperf_core.harness.run.options import TIERS, AtEnd, Options
from aiperf_core.harness.run.planner import Planner
from aiperf_core.harness.run.setup import Reporter
from aiperf_core.measurements import Ceilings, Estimate
from aiperf_core.results.machine import machine
from aiperf_core.results.models import SkippedTarget, TargetResult, Verdict
from aiperf_core.stats.distributions import share_interval
from aiperf_core.stats.intervals import half_width
from aiperf_core.targets import InstalledTarget, Selection

TARGETS = Path(__file__).parent / "trust_targets"
SAME = ("same_a", "same_b")
SLOWER = "slower"
COMPARED = (Verdict.FASTER, Verdict.SLOWER, Verdict.SAME, Verdict.INCONCLUSIVE)


@frozen
class RowLine:
    """What a run said of an implementation. `findings` are ids of issues."""

    role: str
    verdict: Verdict
    reason: str | None
    time_s: Estimate | None
    speedup: Estimate | None
    findings: list[str]


@frozen
class RunLine:
    """A run: a line of a file.

    series: one process's runs, counted by `run`.
    wall_s: the time of the whole run.
    load: busy processes beside it.
    """

    run: int
    series: str
    device: str
    processor: str
    tier: str
    budget_s: float
    floor: float
    started: str
    wall_s: float
    stopped: str
    rows: dict[str, RowLine]
    target: str = "slowdown"
    load: int = 0

    @property
    def kind(self) -> str:
        """What must be alike in runs that are reported together."""
        return (
            f"{self.device} ({self.processor}), {self.tier}, {self.budget_s:g} s of sampling, floor {self.floor:.1%}"
            + (f", {self.target} beside {self.load} busy processes" if self.load else "")
        )


# --- making runs


class TrustSession(Planner):
    """A planner that measures no ceilings of a CPU. A run needs the cost of a GPU's events, kept on disk."""

    def ceilings(self, device: str, again: bool = False, groups: Collection[str] = ()) -> Ceilings | None:
        """The ceilings of a GPU; None for a CPU, whose results then carry no fraction of light."""
        return super().ceilings(device, again, groups) if device == "cuda" else None


def results(
    options: Options, logs: Path, reporter: Reporter | None = None, module: str = "slowdown"
) -> Iterator[TargetResult]:
    """Results of one run after the other, each of fresh processes, without end.

    reporter: hears how each run goes on.
    module: the target's.

    Raises `AiperfError` where this machine cannot run the target, and `KeyboardInterrupt` for a run that was cut short.
    """
    # The processes of the planner import the target's module.
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(TARGETS), os.environ.get("PYTHONPATH"))))
    target = InstalledTarget(
        name=f"trust.{module}",
        module=module,
        summary="A known slowdown",
        goal="speed",
        devices=("cpu", "cuda"),
        tags=(),
        distribution="trust",
        version="0",
    )
    with TrustSession(options, logs) as planner:
        plans, skipped = planner.plan([Selection(target, frozenset())])
        if skipped:
            raise AiperfError(f"{target.name!r}: {skipped[0].reason}")
        while True:
            result = planner.run_whole(plans[0], lambda _, name: logs / f"{name}.log", reporter or Silent())
            if isinstance(result, SkippedTarget):
                raise AiperfError(result.reason)
            baseline = result.rows[0]
            if baseline.verdict is Verdict.SKIPPED:
                raise AiperfError(f"{target.name!r} cannot run here: {baseline.reason}")
            yield result


def line_of(result: TargetResult, run: int, series: str, processor: str, budget_s: float) -> RunLine:
    """What is kept of a result."""
    rows = {
        row.name: RowLine(
            row.role, row.verdict, row.reason, row.time_s, row.speedup, sorted({one.issue for one in row.findings})
        )
        for row in result.rows
    }
    return RunLine(
        run=run,
        series=series,
        device=result.device,
        processor=processor,
        tier=result.tier,
        budget_s=budget_s,
        floor=result.floor,
        started=result.started,
        wall_s=round(result.wall_s, 3),
        stopped=result.stopped,
        rows=rows,
    )


def recording(result: TargetResult, line: RunLine) -> dict[str, Any]:
    """A run with all its samples by the target's clock, in the order taken.

    A time is that of one call in seconds, without what the clock adds to it, rounded to nanoseconds.
    """
    samples, overhead = {}, result.clock_overhead_s or 0.0
    for row in result.rows:
        times = row.samples.device_s if result.clock == "device" else row.samples.wall_s
        taken = [(index, time - overhead) for index, time in enumerate(times) if time is not None]
        samples[row.name] = {
            "seconds": [round(time / row.samples.calls[index], 9) for index, time in taken],
            "passes": [row.samples.block[index] // len(result.rows) for index, _ in taken],
            "rounds": [row.samples.round[index] for index, _ in taken],
        }
    return {
        "how": f"benchmarks/trust.py --device {line.device} --tier {line.tier} "
        f"--budget {line.budget_s:g} --keep-samples",
        "clock": result.clock,
        "line": cattrs.unstructure(line),
        "samples": samples,
    }


def processor_of(device: str) -> str:
    """The processor that runs are made on; of several GPUs the first."""
    here = machine()
    return str(here.gpus[0]["name"]) if device == "cuda" and here.gpus else here.cpu


def beside(load: int) -> contextlib.AbstractContextManager[None]:
    """Keep `load` processes busy meanwhile."""
    if not load:
        return contextlib.nullcontext()
    from judge_client import other_work

    return other_work(load)


def make_runs(
    options: Options, numbers: range, out: Path, keep: Path | None, module: str = "slowdown", load: int = 0
) -> None:
    """Make those runs that `out` does not have yet, and append them to it; with their samples to the folder `keep`."""
    assert options.device is not None
    done = {one.run for one in read_lines(out)} if out.exists() else set()
    missing = [number for number in numbers if number not in done]
    out.parent.mkdir(parents=True, exist_ok=True)
    series, processor = secrets.token_hex(4), processor_of(options.device)
    budget_s = TIERS[options.tier].budget_s if options.budget_s is None else options.budget_s
    with tempfile.TemporaryDirectory(prefix="aiperf-trust-") as logs, out.open("a") as file, beside(load):
        # The numbers first: no run is begun that has none.
        for number, result in zip(missing, results(options, Path(logs), module=module), strict=False):
            line = evolve(line_of(result, number, series, processor, budget_s), target=module, load=load)
            file.write(json.dumps(cattrs.unstructure(line)) + "\n")
            file.flush()
            if keep is not None:
                keep.mkdir(parents=True, exist_ok=True)
                text = json.dumps(recording(result, line), separators=(",", ":"))
                (keep / f"{options.device}-{options.tier}-{number}.json").write_text(text + "\n")
            print(told(line), flush=True)


def told(line: RunLine) -> str:
    """A run in a line."""
    parts = []
    for name, row in line.rows.items():
        text = name if row.verdict is Verdict.MEASURED else f"{name} {row.verdict}"
        if row.speedup is not None:
            text += f" {row.speedup.value:.4f} ± {half_width(row.speedup):.2%}"
        elif row.time_s is not None:
            text += f" {row.time_s.value * 1e6:.4g} us ± {half_width(row.time_s):.2%}"
        elif row.reason is not None:
            text += f" ({row.reason})"
        parts.append(text)
    return f"run {line.run}: {line.wall_s:.1f} s, {line.stopped}; {', '.join(parts)}"


# --- the report


@frozen
class Claim:
    """A proportion and its bar: `hits` of `of`, `at_most` or at least `share`, from at least `least` repetitions."""

    text: str
    hits: int
    of: int
    share: float
    repetitions: int
    least: int
    at_most: bool = False

    @property
    def met(self) -> bool:
        """Whether there were enough repetitions and the proportion keeps to its bar."""
        if self.repetitions < self.least:
            return False
        return self.hits <= self.share * self.of if self.at_most else self.hits >= self.share * self.of

    def __str__(self) -> str:
        bar = f"wanted: at {'most' if self.at_most else 'least'} {self.share:.0%}"
        said = "met" if self.met else "NOT MET"
        if self.repetitions < self.least:
            said += f", for want of repetitions: {self.repetitions} of {self.least}"
        return f"{self.text}: {proportion(self.hits, self.of)}; {bar}: {said}"


def wilson(hits: int, of: int) -> tuple[float, float]:
    """The 95 % interval of a proportion."""
    if of == 0:
        return 0.0, 1.0
    return share_interval(hits / of, of)


def proportion(hits: int, of: int) -> str:
    """`3 of 200 = 1.5 % (95 % interval 0.5 % to 4.3 %)`."""
    if of == 0:
        return "0 of 0"
    low, high = wilson(hits, of)
    return f"{hits} of {of} = {100 * hits / of:.1f} % (95 % interval {100 * low:.1f} % to {100 * high:.1f} %)"


def read_lines(path: Path) -> list[RunLine]:
    """The runs of a file. Raises `UsageError` for a file that cannot be read, or a line that is not a run's."""
    try:
        texts = path.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"'{path}' cannot be read: {error}. Make it with: --device cpu --out {path}") from None
    converter, found = cattrs.Converter(forbid_extra_keys=True), []
    for number, text in enumerate(texts, start=1):
        try:
            found.append(converter.structure(json.loads(text), RunLine))
        except json.JSONDecodeError as error:
            _malformed(path, number, f"no JSON: {error}")
        except cattrs.BaseValidationError as error:
            _malformed(path, number, "; ".join(cattrs.transform_error(error)))
        except (TypeError, AttributeError):
            _malformed(path, number, f"found {text[:40]!r}, accepted is an object")
    return found


def _malformed(path: Path, number: int, what: str) -> None:
    raise UsageError(f"'{path}' line {number} is not a run: {what}. Take the line out; the run can be made again.")


def merged(paths: Iterable[Path]) -> list[RunLine]:
    """The runs of several files, in the order of their numbers.

    Raises `UsageError` for a number that is there twice, for runs of different kinds, and where there are no runs.
    """
    found: dict[int, tuple[Path, RunLine]] = {}
    for path in paths:
        for line in read_lines(path):
            if line.run in found:
                raise UsageError(
                    f"run {line.run} is there twice, in '{found[line.run][0]}' and in '{path}'. Give every process its "
                    "own numbers: --first 0 --runs 25, --first 25 --runs 25, …"
                )
            found[line.run] = path, line
    lines = [found[number][1] for number in sorted(found)]
    kinds = sorted({line.kind for line in lines})
    if len(kinds) > 1:
        raise UsageError(f"these are runs of several kinds: {'; '.join(kinds)}. Report each kind by itself.")
    if not lines:
        raise UsageError("there is no run in these files. Make some with: --device cpu --out FILE")
    return lines


def repetitions(lines: list[RunLine]) -> list[tuple[RunLine, RunLine]]:
    """Each run with the next one of the same process."""
    there = {(line.series, line.run): line for line in lines}
    pairs = ((line, there.get((line.series, line.run + 1))) for line in lines)
    return [(one, after) for one, after in pairs if after is not None]


def covered(pairs: list[tuple[RunLine, RunLine]], name: str, figure: str) -> tuple[int, int]:
    """How often the interval of a row's figure (`time_s`, `speedup`) covers the value of the next run, of how many."""
    hits = of = 0
    for one, after in pairs:
        if name in one.rows and name in after.rows:
            interval, value = getattr(one.rows[name], figure), getattr(after.rows[name], figure)
            if interval is not None and value is not None:
                of += 1
                hits += interval.low <= value.value <= interval.high
    return hits, of


def claims(lines: list[RunLine]) -> list[Claim]:
    """The claims, with what these runs say of them.

    A row without a comparison (it failed, or was refused) is no comparison of A/A, and a slowdown that was not found.
    """
    said = [line.rows[name].verdict for line in lines for name in SAME if name in line.rows]
    said = [one for one in said if one in COMPARED]
    false = sum(one in (Verdict.FASTER, Verdict.SLOWER) for one in said)
    found = sum(SLOWER in line.rows and line.rows[SLOWER].verdict is Verdict.SLOWER for line in lines)
    if lines[0].load:
        return [
            Claim("A/A beside other work, FASTER or SLOWER than itself", false, len(said), 0.0, len(said), 200, True)
        ]
    pairs = repetitions(lines)
    reproduced = {}
    for what in ("speedup", "time_s"):
        counts = [covered(pairs, name, what) for name in timed(lines)]
        reproduced[what] = sum(hits for hits, _ in counts), sum(of for _, of in counts)
    return [
        Claim("honest A/A, FASTER or SLOWER than itself", false, len(said), 0.05, len(said), 200, at_most=True),
        Claim("power, the slowdown found", found, len(lines), 0.95, len(lines), 100),
        *(
            Claim(f"reproducible, a {word}'s interval covers the next run's", *reproduced[what], 0.90, len(pairs), 50)
            for word, what in (("speedup", "speedup"), ("time", "time_s"))
        ),
    ]


def timed(lines: list[RunLine]) -> list[str]:
    """The baseline and the variants, in the order of the target."""
    return list(dict.fromkeys(name for line in lines for name, row in line.rows.items() if row.role != "control"))


def report(lines: list[RunLine]) -> int:
    """Print what the runs say; return the exit code."""
    print(f"{len(lines)} runs: {lines[0].kind}; median {median(line.wall_s for line in lines):.1f} s a run")
    for text, count in Counter(line.stopped for line in lines).most_common():
        print(f"  sampling ended with {text!r}: {count}")
    for issue, count in Counter(i for line in lines for row in line.rows.values() for i in row.findings).most_common():
        print(f"  finding {issue}: {count} rows")
    pairs = repetitions(lines)
    for name in timed(lines):
        rows = [line.rows[name] for line in lines if name in line.rows]
        said = ", ".join(f"{verdict} {count}" for verdict, count in Counter(row.verdict for row in rows).most_common())
        print(f"\n{name}: {said}")
        for figure in ("time_s", "speedup"):
            found = [one for one in (getattr(row, figure) for row in rows) if one is not None]
            if found:
                middle, width = median(one.value for one in found), median(half_width(one) for one in found)
                print(
                    f"  {figure:8} median {middle:.6g}, half width {width:.2%}; "
                    f"covers the next: {proportion(*covered(pairs, name, figure))}"
                )
    print()
    stated = claims(lines)
    for one in stated:
        print(one)
    return int(not all(one.met for one in stated))


# --- the command


def arguments(command: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    assert __doc__
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--device", choices=("cpu", "cuda"), help="make runs there")
    what.add_argument("--report", nargs="+", type=Path, metavar="FILE", help="report the runs of these files")
    parser.add_argument("--runs", type=int, default=100, help="how many (100)")
    parser.add_argument("--first", type=int, default=0, help="number of the first run (0)")
    parser.add_argument("--tier", choices=tuple(TIERS), default="standard")
    parser.add_argument("--budget", type=float, metavar="SECONDS", help="sampling time of a run (the tier's)")
    parser.add_argument("--target", choices=("slowdown", "threads"), default="slowdown", help="(slowdown)")
    parser.add_argument("--load", type=int, default=0, help="busy processes beside the runs (0)")
    parser.add_argument("--out", type=Path, metavar="FILE", help="where runs are appended (trust-DEVICE.jsonl)")
    parser.add_argument("--keep-samples", type=Path, metavar="FOLDER", help="write each run's samples to a file there")
    asked = parser.parse_args(command)
    if asked.runs < 1 or asked.first < 0 or (asked.budget is not None and not asked.budget > 0):
        parser.error("--runs and --budget must be above 0, --first at least 0")
    return asked


def main(command: list[str] | None = None) -> int:
    """Make runs, or report them; return the exit code."""
    asked = arguments(command)
    try:
        if asked.report:
            return report(merged(asked.report))
        at_end = AtEnd(audit=False, energy=False)
        options = Options(device=asked.device, tier=asked.tier, budget_s=asked.budget, at_end=at_end)
        out = asked.out or Path(f"trust-{asked.device}.jsonl")
        make_runs(
            options, range(asked.first, asked.first + asked.runs), out, asked.keep_samples, asked.target, asked.load
        )
    except AiperfError as error:
        print(f"error: {error}", file=sys.stderr)
        return int(error.exit_code)
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
