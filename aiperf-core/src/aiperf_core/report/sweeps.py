"""The sweeps of a run as a result."""

from collections.abc import Iterator, Sequence

from aiperf_core import units
from aiperf_core.devices.device import CPU
from aiperf_core.names import words
from aiperf_core.report.drawings import at, of_sweep
from aiperf_core.report.machine_notes import is_machine_wide, machine_notes
from aiperf_core.report.result import (
    Cell,
    Column,
    LeftOut,
    Origin,
    Record,
    Result,
    Source,
    Table,
    counted,
    figure,
)
from aiperf_core.report.verdict_counts import tally
from aiperf_core.results.models import Machine, TargetResult
from aiperf_core.results.sweeps import Sweep, SweepRow


def view(stored: Sequence[Sweep], run: Source, machine: Machine) -> Result:
    """A table for each sweep with a row for each point and implementation, and pictures of times and rates."""
    drawn = [sweep for sweep in stored if any(row.time_s for row in sweep.rows)]
    verdicts = [row.verdict for sweep in stored for row in sweep.rows if row.role in ("variant", None)]
    return Result(
        analysis="sweep",
        title=f"Sweep of {', '.join(dict.fromkeys(sweep.target for sweep in stored))}",
        summary=[tally(verdicts) or "nothing was measured", *(note for sweep in stored for note in _notes(sweep))],
        tables=[_table(sweep, run) for sweep in stored],
        drawings=[drawing for sweep in drawn for drawing in of_sweep(sweep, _place(drawn, machine))],
        left_out=[part for sweep in stored for part in _left_out(sweep)],
        sources=[run],
    )


def _place(sweeps: Sequence[Sweep], machine: Machine) -> str:
    """The processor, or the GPUs, on which the sweeps were measured."""
    if all(result.device == CPU.name for sweep in sweeps for result in sweep.results):
        return machine.cpu
    return ", ".join(dict.fromkeys(str(gpu.get("name") or "unnamed GPU") for gpu in machine.gpus))


def _table(sweep: Sweep, run: Source) -> Table:
    columns = [
        *(Column(name, name, "figure") for name in sweep.parameters),
        Column("implementation", "implementation"),
        Column("time_s", "median", "figure"),
        Column("speedup", "speedup", "figure"),
        Column("sol", "SOL", "figure"),
        Column("verdict", "verdict", "verdict"),
    ]
    devices = ", ".join(dict.fromkeys(result.device for result in sweep.results))
    parts = (devices, f"sweep of {' x '.join(sweep.parameters)}", units.plural("point", len(sweep.points)))
    title = f"{sweep.target}: {', '.join(filter(None, parts))}"
    summary = sweep.results[0].summary if sweep.results else ""
    return Table(sweep.target, title, columns, [_record(row, run) for row in sweep.rows], summary)


def _record(row: SweepRow, run: Source) -> Record:
    light = row.speed_of_light
    cells: dict[str, Cell] = {
        **{name: int(value) if value.is_integer() else f"{value:g}" for name, value in row.values.items()},
        "implementation": row.implementation if row.role in ("variant", None) else f"{row.implementation} ({row.role})",
        "time_s": figure(row.time_s, "s", reason=row.reason or "too few samples for an interval"),
        "speedup": figure(row.speedup) if row.speedup else None,
        "sol": counted(light.value * 100, "%") if light else None,
        "verdict": row.verdict.value,
    }
    return Record(cells, [Origin(run.id, row.point, row.implementation)])


def _notes(sweep: Sweep) -> Iterator[str]:
    """Interrupted points, and the warnings with their points."""
    partial = [at(sweep, values) for values, one in sweep.points if isinstance(one, TargetResult) and not one.complete]
    if partial:
        yield f"interrupted at {'; '.join(partial)}: figures are partial"
    warnings: dict[str, dict[str, None]] = {}
    for values, result in sweep.points:
        for row in result.rows if isinstance(result, TargetResult) else []:
            for finding in row.findings if row.is_believed else []:
                if not is_machine_wide(finding):
                    warnings.setdefault(finding.issue, {})[at(sweep, values)] = None
    for issue, points in warnings.items():
        yield f"warning {issue} at {'all points' if len(points) == len(sweep.points) else '; '.join(points)}"
    for label, note in machine_notes(sweep.results):
        yield f"{label} {note}"


def _left_out(sweep: Sweep) -> Iterator[LeftOut]:
    """Rows without figures: those with the same reason together."""
    alike: dict[tuple[str, str, str], list[str]] = {}
    for row in sweep.rows:
        if not row.verdict.is_believed:
            key = words(row.implementation or sweep.target), row.verdict.value, words(row.reason or "")
            alike.setdefault(key, []).append(at(sweep, row.values))
    for (name, verdict, reason), points in alike.items():
        yield LeftOut(f"{name} at {'; '.join(points)}", verdict, reason)
