"""Views: results that commands and pages show, made by pure functions of bundles and lists of runs."""

import json
from collections.abc import Iterable, Sequence
from pathlib import PurePath

from aiperf_core import units
from aiperf_core.report import drawings
from aiperf_core.report.metrics import STORED, SUMMARY, bound_name, of_goal
from aiperf_core.report.result import (
    Cell,
    Column,
    Drawing,
    Figure,
    LeftOut,
    Origin,
    Record,
    Result,
    Source,
    Table,
)
from aiperf_core.report.text import sizes
from aiperf_core.report.verdict_counts import causes
from aiperf_core.results.hardware import hardware_key
from aiperf_core.results.listing import Run, Unreadable
from aiperf_core.results.models import Manifest, Row, SkippedTarget, TargetResult


def rows(run: Source, manifest: Manifest, results: Sequence[TargetResult | SkippedTarget]) -> Result:
    """The implementations of a run with every metric that one of them has, and the gains as a picture."""
    measured = [result for result in results if isinstance(result, TargetResult)]
    skipped = [result for result in results if isinstance(result, SkippedTarget)]
    of_run = {"run": PurePath(run.path).name, "commit": manifest.git, "created": manifest.created}
    records = []
    for result in measured:
        for row in result.rows:
            cells: dict[str, Cell] = {
                "target": result.target,
                "row": row.name,
                "role": row.role,
                "verdict": row.verdict.value,
                **{metric.key: metric.of(result, row) for metric in STORED.values()},
                "bound": bound_name(result, row) or None,
                "sizes": json.dumps(sizes(result.problem)),
                "machine": hardware_key(manifest.machine, result.device, result.problem.params),
                **of_run,
            }
            records.append(Record(cells, [Origin(run.id, result.target, row.name)]))
    shown = [metric for metric in STORED.values() if any(_has_value(record.cells[metric.key]) for record in records)]
    columns = [
        Column("target", "target"),
        Column("row", "implementation"),
        Column("role", "role"),
        Column("verdict", "verdict", "verdict"),
        *(Column(metric.key, metric.title, "figure") for metric in shown),
        *([Column("bound", "bound")] if any(record.cells["bound"] for record in records) else []),
        Column("sizes", "sizes"),
        Column("run", "run"),
        Column("commit", "commit"),
        Column("machine", "machine"),
        Column("created", "started"),
    ]
    left_out = [LeftOut(target.target, target.verdict.value, target.reason) for target in skipped] + [
        LeftOut(f"{result.target}:{row.name}", row.verdict.value, row.reason or "", Origin(run.id, result.target))
        for result in measured
        for row in result.rows
        if not row.is_believed
    ]
    counts = [units.plural("target", len(measured)), units.plural("implementation", len(records)), causes(left_out)]
    return Result(
        analysis="run",
        title=run.path,
        summary=[
            ", ".join(filter(None, counts)),
            f"run {units.moment(manifest.created)} on {machine_name(manifest)}",
        ],
        tables=[Table("rows", "Implementations", columns, records)] if records else [],
        drawings=_gains(run, measured),
        left_out=left_out,
        sources=[run],
    )


def figures(result: TargetResult, row: Row) -> Table:
    """The figures of a row: every metric that it has, and why it lacks one of a summary."""
    cells: dict[str, Cell] = {metric.key: metric.of(result, row) for metric in STORED.values()}
    shown = [metric for metric in STORED.values() if metric in SUMMARY or _has_value(cells[metric.key])]
    return Table("figures", "Figures", [Column(one.key, one.title, "figure") for one in shown], [Record(cells)])


def _has_value(cell: Cell) -> bool:
    return isinstance(cell, Figure) and cell.value is not None


def _gains(run: Source, results: Iterable[TargetResult]) -> list[Drawing]:
    """The gains of the variants over their baselines, by time or by memory as their goals say."""
    gains = [
        (Origin(run.id, result.target, row.name), gain, row.verdict.value)
        for result in results
        for row in result.rows
        if row.role == "variant" and (gain := of_goal(result).of(result, row)).value
    ]
    if not gains:
        return []
    message = f"The gains of {units.plural('variant', len(gains))} over their baselines."
    title, axis = "Gains over the baselines", "gain over the baseline (above 1: better)"
    return [drawings.of_ratios("gains", title, message, axis, gains)]


def runs(listed: Iterable[Run | Unreadable]) -> Result:
    """The bundles of a folder, newest first. One that cannot be read says why in place of its command."""
    columns = [
        Column("bundle", "bundle"),
        Column("targets", "targets", "figure"),
        Column("created", "started"),
        Column("ended", "ended"),
        Column("device", "device"),
        Column("command", "command"),
    ]
    records = []
    for bundle in listed:
        cells: dict[str, Cell] = {"bundle": bundle.name}
        if isinstance(bundle, Run):
            manifest = bundle.manifest
            cells |= {
                "targets": len(bundle.targets),
                "created": units.moment(manifest.created),
                "ended": _ending(manifest),
                "device": machine_name(manifest),
                "command": " ".join(manifest.command),
            }
        else:
            cells |= {"targets": 0, "ended": "unreadable", "command": bundle.problem}
        records.append(Record(cells))
    return Result(
        analysis="runs",
        title="Runs",
        summary=[units.plural("bundle", len(records))],
        tables=[Table("runs", "Runs", columns, records)],
    )


def machine_name(manifest: Manifest) -> str:
    """The GPUs of a run, or its processor."""
    names = [str(gpu.get("name")) for gpu in manifest.machine.gpus if gpu.get("name")]
    return f"{len(names)} x {names[0]}" if len(names) > 1 else names[0] if names else manifest.machine.cpu


def _ending(manifest: Manifest) -> str:
    """How a run ended."""
    if manifest.exit_code is None:
        return "still running or killed"
    ended = "complete" if manifest.complete else "interrupted"
    return f"{ended}, exit {manifest.exit_code}" if manifest.exit_code else ended
