"""A surprise as a result: what the tool reports beside what aiperf reports of the same code, and the cause."""

import json
import os
import subprocess
import sys
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from attrs import frozen

from aiperf_core.cli.measuring import scratch_planner
from aiperf_core.errors import AiperfError
from aiperf_core.harness.run.options import Options
from aiperf_core.harness.run.planner import RunReporter
from aiperf_core.report import cell_text
from aiperf_core.report.metrics import METRICS
from aiperf_core.report.result import Cell, Column, Figure, Record, Result, Table, counted
from aiperf_core.results.models import Row, SkippedTarget, TargetResult, Verdict
from aiperf_core.targets import InstalledTarget, Selection
from aiperf_learn.surprises.busy import neighbours
from aiperf_learn.surprises.catalogue import Surprise

BUDGET_S = 1.0
# The tool is fooled where it is off by more than this: timings of a few calls differ by less on a quiet machine.
MARGIN = 1.25
TIME, SPEEDUP = METRICS["time_s"], METRICS["speedup"]


@frozen
class Report:
    """The report of a tool.

    source: the sizes, the code of the implementations, and that of the tool.
    cause: a sentence.
    readings: by implementation its seconds, or `right` or `wrong`.
    facts: evidence of the cause: each a name, a unit, and numbers by case.
    """

    source: str
    cause: str
    readings: dict[str, float | str]
    facts: list[tuple[str, str, dict[str, float]]]

    def speedup(self, row: Row, baseline: Row) -> float | None:
        """The speedup of a row by the tool; None of the baseline, and of a tool that reports no times."""
        own, other = self.readings.get(row.name), self.readings.get(baseline.name)
        return other / own if row is not baseline and isinstance(own, float) and isinstance(other, float) else None


def run_tool(surprise: Surprise) -> Report:
    """Run the tool of a surprise in a fresh process. Raises AiperfError where the process fails."""
    command = [sys.executable, "-P", "-m", "aiperf_learn.surprises.tool", surprise.name]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}  # as the targets, which have a thread each
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise AiperfError(f"the tool of {surprise.name!r} ended with exit code {done.returncode}: {reason}")
    return Report(**json.loads(done.stdout))


def measure(surprise: Surprise, reporter: RunReporter) -> TargetResult:
    """Measure the code of a surprise as a target. Raises AiperfError where it cannot be measured."""
    target = InstalledTarget(f"surprise.{surprise.name}", surprise.module, devices=("cpu",))
    options = Options(device="cpu", budget_s=BUDGET_S)
    with TemporaryDirectory(prefix="aiperf-") as logs, scratch_planner(options) as planner:
        plans, skipped = planner.plan([Selection(target)])
        with neighbours() if surprise.beside else nullcontext():
            result = skipped[0] if skipped else planner.run_whole(plans[0], partial(_log, Path(logs)), reporter)
    if isinstance(result, SkippedTarget):
        raise AiperfError(f"aiperf cannot measure {surprise.name!r} here: {result.reason}")
    return result


def _log(folder: Path, target: str, name: str) -> Path:
    return folder / f"{target}.{name}.log"


def compare(surprise: Surprise, report: Report, measured: TargetResult) -> Result:
    """The result: whether the tool was fooled, both reports side by side, and the cause."""
    baseline = next(row for row in measured.rows if row.role == "baseline")
    row = next((row for row in measured.rows if row.role == "variant"), baseline)
    fooled = is_fooled(row, report.readings[row.name], report.speedup(row, baseline))
    warned = any(finding.issue == surprise.issue for finding in row.findings) and row.is_believed
    return Result(
        analysis="surprise",
        title=f"{surprise.name}: {surprise.summary}",
        summary=[
            _sentence(report, measured, row, baseline),
            "The tool was fooled." if fooled else "The tool was not fooled this time: run it again.",
            *([f"aiperf warns of {surprise.issue}."] if warned else []),
            f"The cause: {report.cause}",
            f"How aiperf avoids it: {surprise.avoided} (aiperf validity {surprise.issue}).",
        ],
        status="ok" if fooled else "inconclusive",
        tables=[_side_by_side(surprise, report, measured, baseline), _facts(report)],
        details={"source": report.source},
    )


def is_fooled(row: Row, reading: float | str, speedup: float | None) -> bool:
    """Whether the reading of a tool contradicts the row. `speedup` is the tool's; None where only times compare."""
    if isinstance(reading, str):
        return row.is_believed == (reading == "wrong")
    if row.verdict is Verdict.INVALID:
        return True
    if row.verdict in (Verdict.SAME, Verdict.INCONCLUSIVE):
        return speedup is not None and not 1 / MARGIN <= speedup <= MARGIN
    estimate, value = (row.time_s, reading) if speedup is None else (row.speedup, speedup)
    return estimate is not None and not estimate.low / MARGIN <= value <= estimate.high * MARGIN


def _sentence(report: Report, measured: TargetResult, row: Row, baseline: Row) -> str:
    """Both reports of an implementation in words."""
    reading, speedup = report.readings[row.name], report.speedup(row, baseline)
    if isinstance(reading, str):
        worst = row.judgement.worst if row.judgement else None
        error = "" if worst is None else f": its largest error is {100 * worst:.3g} % of the tolerance"
        return f"The tool says that {row.name} is {reading}. aiperf says {row.verdict.value}{error}."
    if speedup is None:
        own = cell_text.text(Figure(value=reading, unit="s"))
        return f"The tool says that {row.name} takes {own}. aiperf says {cell_text.whole(TIME.of(measured, row))}."
    gain = SPEEDUP.of(measured, row)
    said = (row.reason or "").rstrip(".") if gain.value is None else cell_text.whole(gain)
    claim = f"The tool says that {row.name} is {cell_text.text(Figure(value=speedup))} as fast as {baseline.name}."
    return f"{claim} aiperf says {row.verdict.value}: {said}."


def _side_by_side(surprise: Surprise, report: Report, measured: TargetResult, baseline: Row) -> Table:
    columns = [
        Column("row", "implementation"),
        Column("tool", "tool", "figure"),
        Column("tool_speedup", "speedup", "figure"),
        Column("time_s", "aiperf", "figure"),
        Column("speedup", "speedup", "figure"),
        Column("verdict", "verdict", "verdict"),
    ]
    records = []
    for row in measured.rows:
        reading, speedup = report.readings.get(row.name), report.speedup(row, baseline)
        cells: dict[str, Cell] = {
            "row": row.name,
            "tool": Figure(value=reading, unit="s") if isinstance(reading, float) else reading,
            "tool_speedup": None if speedup is None else Figure(value=speedup),
            # The sentence above the table has the reason of a row without figures.
            "time_s": TIME.of(measured, row) if row.is_believed else None,
            "speedup": SPEEDUP.of(measured, row) if row.is_believed and row is not baseline else None,
            "verdict": row.verdict.value,
        }
        records.append(Record(cells))
    return Table("side_by_side", f"Side by side: {surprise.tool}, and aiperf", columns, records)


def _facts(report: Report) -> Table:
    """The evidence, a column for each case."""
    cases = dict.fromkeys(case for _, _, values in report.facts for case in values)
    columns = [Column("fact", "fact"), *(Column(case, case, "figure") for case in cases)]
    records = [
        Record({"fact": name, **{case: counted(value, unit) for case, value in values.items()}})
        for name, unit, values in report.facts
    ]
    return Table("cause", "The cause", columns, records)
