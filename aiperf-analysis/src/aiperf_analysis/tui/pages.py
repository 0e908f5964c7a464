"""Runs, rows, machines and comparisons as results, like those of analyses."""

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from aiperf_analysis.selection import Entry, Measured, Selection
from aiperf_analysis.sizes import told_apart
from aiperf_analysis.tui.source import name_of, run_of
from aiperf_core import units
from aiperf_core.errors import AiperfError
from aiperf_core.plugins import Plugins
from aiperf_core.report.metrics import SUMMARY
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
)
from aiperf_core.results.address import Address
from aiperf_core.results.models import Manifest

if TYPE_CHECKING:
    from aiperf_core.report.comparison import Side

NO_FOLDER = "its folder is gone; the figures are those of the store"
_RUN_COLUMNS = [
    Column("run", "run"),
    Column("created", "began"),
    Column("targets", "targets", "figure"),
    Column("rows", "rows", "figure"),
    Column("distrusted", "not trusted", "figure"),
    Column("ended", "ended"),
    Column("device", "machine"),
    Column("exit", "exit code", "figure"),
    Column("labels", "labels"),
]
ROW_COLUMNS = [
    Column("row", "row"),
    *(Column(metric.key, metric.title, "figure") for metric in SUMMARY[:2]),
    Column("verdict", "verdict", "verdict"),
    *(Column(metric.key, metric.title, "figure") for metric in SUMMARY[2:]),
]


def runs(selection: Selection) -> Result:
    """The runs, newest first, and the bundles that cannot be read."""
    by_run: dict[int, list[Entry]] = {id(run): [] for run in selection.runs}
    for one in selection.every:
        by_run[id(one.run)].append(one)
    records = [_run_record(run, by_run[id(run)]) for run in selection.runs]
    summary = [f"{units.plural('run', len(records))}, {units.plural('row', len(selection.every))}."]
    if selection.unreadable:
        summary.append(f"{units.plural('bundle', len(selection.unreadable))} cannot be read; see the notes.")
    return Result(
        analysis="runs",
        title="Runs",
        summary=summary,
        tables=[Table("runs", "runs, newest first", _RUN_COLUMNS, records)],
        left_out=list(selection.unreadable),
        sources=selection.sources,
    )


def _run_record(run: Measured, entries: Sequence[Entry]) -> Record:
    cells: dict[str, Cell] = {
        "run": name_of(run),
        "created": run.created[:16].replace("T", " "),
        "targets": len({one.result.target for one in entries}),
        "rows": len(entries),
        "distrusted": sum(one.row.verdict.is_distrusted for one in entries),
        "ended": ended(run.manifest),
        "exit": run.manifest.exit_code,
        "device": device_of(run.manifest),
        "labels": " ".join(f"{name}={value}" for name, value in sorted(run.manifest.labels.items())),
    }
    return Record(cells, [Origin(run.id)])


def ended(manifest: Manifest) -> str:
    """How a run ended."""
    if manifest.exit_code is None:
        return "running or killed"
    return "complete" if manifest.complete else "interrupted"


def device_of(manifest: Manifest) -> str:
    """The GPUs of a machine, or its processor."""
    names = Counter(str(gpu.get("name") or "unnamed GPU") for gpu in manifest.machine.gpus)
    return ", ".join(f"{count} x {name}" if count > 1 else name for name, count in names.items()) or (
        manifest.machine.cpu
    )


def rows(selection: Selection) -> Result:
    """The rows of all runs, newest first."""
    place = {id(run): number for number, run in enumerate(selection.runs)}
    entries = sorted(selection.every, key=lambda one: place[id(one.run)])
    columns = [*ROW_COLUMNS, Column("run", "run")]
    records = [row_record(one, run=name_of(one.run)) for one in entries]
    found = Result(
        analysis="rows",
        title="Rows of all runs",
        summary=[_verdicts(entries)],
        tables=[Table("rows", "rows, newest run first", columns, records)],
        left_out=selection.left_out,
        sources=selection.sources,
    )
    return told_apart(found, selection.every)


def run(selection: Selection, bundle: str) -> Result:
    """A run: its rows, where and how they were measured, and what was skipped. Raises AiperfError where it is gone."""
    found = run_of(selection, bundle)
    manifest, entries = found.manifest, [one for one in selection.every if one.run is found]
    code = "" if manifest.exit_code is None else f", exit code {manifest.exit_code}"
    skipped = [LeftOut(one.target, one.verdict.value, one.reason) for one in manifest.skipped]
    refused = [
        LeftOut(one.name, one.row.verdict.value, one.row.reason or "", one.origin)
        for one in entries
        if not one.believed
    ]
    findings = [
        Record({"row": one.name, "severity": finding.severity, "issue": finding.issue, "message": finding.message},
               [one.origin])
        for one in entries
        for finding in one.row.findings
    ]  # fmt: skip
    columns = [
        Column("row", "row"),
        Column("severity", "severity"),
        Column("issue", "issue"),
        Column("message", "what"),
    ]
    return Result(
        analysis="run",
        title=f"Run {name_of(found)}",
        summary=[f"{_verdicts(entries)} Began {manifest.created[:19].replace('T', ' ')}, {ended(manifest)}{code}."],
        tables=[
            Table("rows", "rows", ROW_COLUMNS, [row_record(one) for one in entries]),
            Table("facts", "machine and software", [Column("what", "what"), Column("value", "value")], _facts(found)),
            Table("findings", "findings", columns, findings),
        ],
        left_out=[*refused, *skipped],
        sources=[one for one in selection.sources if one.id == found.id],
    )


def row_record(entry: Entry, **more: Cell) -> Record:
    """A row of a target as a record."""
    cells: dict[str, Cell] = {
        "row": entry.name,
        "verdict": entry.row.verdict.value,
        **{metric.key: metric.of(entry.result, entry.row) for metric in SUMMARY},
    }
    return Record(cells | more, [entry.origin])


def _verdicts(entries: Sequence[Entry]) -> str:
    found = Counter(one.row.verdict.value for one in entries)
    told = ", ".join(f"{count} {verdict}" for verdict, count in found.most_common())
    return f"{units.plural('row', len(entries))}: {told}." if entries else "There are no rows."


def _facts(run: Measured) -> list[Record]:
    manifest = run.manifest
    machine = manifest.machine
    facts: dict[str, str] = {
        "bundle": run.path,
        "seal": run.id if run.id != run.path else "none",
        "command": " ".join(manifest.command),
        "commit": manifest.git or "none",
        "labels": " ".join(f"{name}={value}" for name, value in sorted(manifest.labels.items())) or "none",
        "host": machine.hostname,
        "system": machine.system,
        "processor": f"{machine.cpu}, {units.plural('core', machine.cores)}",
        "memory": units.size(machine.memory_bytes),
        "GPUs": ", ".join(str(gpu.get("name") or "unnamed") for gpu in machine.gpus) or "none",
        "driver": machine.driver or "none",
        "hypervisor": machine.hypervisor or "none",
        "Python": machine.python,
        "aiperf": manifest.aiperf,
        **{f"package {name}": version for name, version in sorted(manifest.packages.items())},
        "samples": "in the bundle" if run.bundle is not None else NO_FOLDER,
    }
    return [Record({"what": what, "value": value}) for what, value in facts.items()]


def machines(selection: Selection) -> Result:
    """The machines of the runs, each with its newest ceilings."""
    by_host: dict[tuple[str, str], list[Measured]] = {}
    for one in selection.runs:
        by_host.setdefault((one.manifest.machine.hostname, device_of(one.manifest)), []).append(one)
    machine_records, ceiling_records = [], []
    for (host, device), runs_here in by_host.items():
        newest = runs_here[0]
        machine = newest.manifest.machine
        machine_records.append(
            Record(
                {
                    "host": host,
                    "device": device,
                    "cpu": machine.cpu,
                    "cores": machine.cores,
                    "memory": counted(machine.memory_bytes, "B"),
                    "driver": machine.driver or "none",
                    "runs": len(runs_here),
                    "newest": newest.created[:16].replace("T", " "),
                },
                [Origin(newest.id)],
            )
        )
        ceiling_records += _ceilings(host, runs_here)
    columns = [
        Column("host", "host"), Column("device", "device"), Column("runs", "runs", "figure"),
        Column("newest", "newest run"), Column("cpu", "processor"), Column("cores", "cores", "figure"),
        Column("memory", "memory", "figure"), Column("driver", "driver"),
    ]  # fmt: skip
    of_ceilings = [Column("what", "ceiling"), Column("device", "device"), Column("host", "host"),
                   Column("value", "measured", "figure"), Column("when", "when")]  # fmt: skip
    return Result(
        analysis="machines",
        title="Machines",
        summary=[f"{units.plural('machine', len(by_host))} in {units.plural('run', len(selection.runs))}."],
        tables=[
            Table("machines", "machines", columns, machine_records),
            Table("ceilings", "measured peak rates", of_ceilings, ceiling_records),
        ],
        sources=selection.sources,
    )


def _ceilings(host: str, runs_here: Sequence[Measured]) -> list[Record]:
    """The newest ceilings of each device of a machine."""
    from aiperf_analysis.machine import ceiling_figures

    newest = {device: (one, run) for run in reversed(runs_here) for device, one in run.manifest.ceilings.items()}
    return [
        Record({"what": name, "device": device, "host": host, "value": value, "when": one.measured[:19]},
               [Origin(run.id)])
        for device, (one, run) in newest.items()
        for name, value in ceiling_figures(one)
    ]  # fmt: skip


def comparison(selection: Selection, left: str, right: str) -> Result:
    """Two runs against each other, by the rules of `aiperf compare`.

    Raises AiperfError where a run is gone, or nothing can be compared.
    """
    from aiperf_core.report.comparison import view
    from aiperf_core.stats.compare import compare

    sides = [_side(run_of(selection, run)) for run in (left, right)]
    return view(compare(sides[0][0], sides[1][0]), sides[0][1], sides[1][1])


def _side(run: Measured) -> "tuple[Address, Side]":
    from aiperf_core.report.comparison import Side

    if run.bundle is None:
        raise AiperfError(f"'{name_of(run)}' cannot be compared: {NO_FOLDER}. Restore {run.path}.")
    return Address(run.bundle), Side(name_of(run), Source(run.id, run.path, run.created, ""))


def checklist(selection: Selection) -> Result:
    """Recommendations, and which of them the runs have proven."""
    from aiperf_analysis.advice.checklist import checklist as advice
    from aiperf_core.results.machine import machine

    return advice(selection, machine())


def analyses(plugins: Plugins) -> Result:
    """The installed analyses. None of them is imported."""
    records = [
        Record({"name": name, "summary": one.record.summary, "package": one.distribution})
        for name, one in sorted(plugins.analyses.items())
    ]
    columns = [Column("name", "analysis"), Column("summary", "what it tells"), Column("package", "package")]
    return Result(
        analysis="analyses",
        title="Analyses",
        summary=[f"{len(records)} analyses are installed. Other packages may add more."],
        tables=[Table("analyses", "analyses", columns, records)],
    )
