"""Fleets of machines: the documents of the kind `fleet` in the bundles."""

from aiperf_analysis.dashboard.asked import Asked
from aiperf_analysis.dashboard.pages.kinds import Content, Kind
from aiperf_analysis.fleet_documents import KIND, Comparison, Fleet, Task, fleet_of
from aiperf_core import units
from aiperf_core.names import words
from aiperf_core.report.result import Cell, Column, Figure, Origin, Record, Table
from aiperf_core.results.models import Document

TASKS = [
    Column("task", "task"),
    Column("target", "target"),
    Column("class", "class"),
    Column("machine", "machine"),
    Column("attempts", "attempts", "figure"),
    Column("ending", "ending"),
    Column("exit", "exit code"),
    Column("reason", "reason"),
]
MACHINES = [
    Column("machine", "machine"),
    Column("runs", "runs", "figure"),
    Column("ratio", "time by the others'", "figure"),
    Column("p", "p"),
    Column("slow", "verdict"),
]


def _content(asked: Asked, found: Document, origin: Origin) -> Content:
    fleet = fleet_of(found, f"{KIND}/{words(found.name)}")
    # A task leads to its bundle where that is here too.
    here = {run.id for run in asked.site.source.selection(asked.filters).runs}
    tasks = [_task(one, Origin(one.seal) if one.seal in here and one.seal else origin) for one in fleet.tasks]
    tables = [Table("tasks", "Tasks", TASKS, tasks)]
    if fleet.machines.machines:
        tables.insert(0, Table("machines", "Machines", MACHINES, _machines(fleet.machines, origin)))
    return Content(tables, _sentences(fleet))


def _task(one: Task, origin: Origin) -> Record:
    last = one.last
    cells: dict[str, Cell] = {
        "task": one.id,
        "target": one.target,
        "class": one.machine_class,
        "machine": last.machine if last else None,
        "attempts": len(one.attempts),
        "ending": last.ending if last else "waits",
        "exit": None if last is None or last.exit_code is None else str(last.exit_code),
        "reason": one.given_up or (last.reason if last else "") or None,
    }
    return Record(cells, [origin])


def _machines(found: Comparison, origin: Origin) -> list[Record]:
    return [
        Record(
            {
                "machine": one.machine,
                "runs": one.count,
                "ratio": Figure(value=one.ratio, low=one.low, high=one.high),
                "p": f"{one.p:.2g}",
                "slow": "SLOW" if one.slow else None,
            },
            [origin],
        )
        for one in found.machines
    ]


def _sentences(fleet: Fleet) -> list[str]:
    found = [f"{fleet.state}: {fleet.bundles} of {units.plural('task', len(fleet.tasks))} left a bundle."]
    if fleet.machines.reason:
        return [*found, f"The machines are not compared: {fleet.machines.reason}."]
    return [*found, f"Slow: {', '.join(fleet.slow)}." if fleet.slow else "No machine is slow."]


FLEETS = Kind(KIND, "of machines", "No bundle here holds a fleet; aiperf fleet run writes them.", _content)
page, every, page_of_one, one = FLEETS.page, FLEETS.every, FLEETS.page_of_one, FLEETS.one
