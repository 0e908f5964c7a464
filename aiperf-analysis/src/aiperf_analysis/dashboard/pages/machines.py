"""The machines of the runs, and what each was measured to reach."""

import hashlib
import json
from collections.abc import Sequence
from statistics import median

from attrs import asdict, field, frozen

from aiperf_analysis.dashboard import filters, shown
from aiperf_analysis.dashboard.asked import Asked, View
from aiperf_analysis.dashboard.pages import document
from aiperf_analysis.selection import Measured, Selection
from aiperf_analysis.sources.errors import NotFoundError
from aiperf_core import units
from aiperf_core.measurements import Ceilings
from aiperf_core.names import words
from aiperf_core.report.ceilings import BUSY
from aiperf_core.report.result import (
    Axis,
    Cell,
    Column,
    Drawing,
    Figure,
    Origin,
    Point,
    Record,
    Result,
    Series,
    Table,
    counted,
)
from aiperf_core.results.models import Machine

FIGURES = {"copy_bytes_per_s": "copy", "read_bytes_per_s": "read"}


@frozen(eq=False)
class Place:
    """A machine with its runs, newest first.

    hardware: its kinds, by the rows that were measured on it.
    """

    id: str
    machine: Machine
    runs: list[Measured] = field(factory=list)
    hardware: set[str] = field(factory=set)

    def ceilings(self, device: str) -> list[tuple[Measured, Ceilings]]:
        """The ceilings of a device in its runs, newest first; each measurement once."""
        found: dict[str, tuple[Measured, Ceilings]] = {}
        for run in self.runs:
            one = run.manifest.ceilings.get(device)
            if one is not None:
                found.setdefault(one.measured, (run, one))
        return list(found.values())

    @property
    def devices(self) -> list[str]:
        """The devices with ceilings."""
        return sorted({name for run in self.runs for name in run.manifest.ceilings})


def places(selection: Selection) -> list[Place]:
    """The machines, the one with the newest run first."""
    found: dict[str, Place] = {}
    kinds: dict[int, set[str]] = {}
    for one in {id(one.result): one for one in selection.every}.values():  # all rows of a result have one kind
        kinds.setdefault(id(one.run), set()).add(one.hardware)
    for run in selection.runs:
        place = found.setdefault(machine_id(run.manifest.machine), Place(machine_id(run.manifest.machine),
                                                                         run.manifest.machine))  # fmt: skip
        place.runs.append(run)
        place.hardware.update(kinds.get(id(run), ()))
    return list(found.values())


def machine_id(machine: Machine) -> str:
    """A hash of what stays the same of a machine: not its Python, nor the memory that is free."""
    facts = [machine.hostname, machine.cpu, machine.cores, [str(gpu.get("name")) for gpu in machine.gpus]]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]


def page(asked: Asked) -> View:
    """The machines that match the filters."""
    result = every(asked)
    return document.view(
        asked,
        result,
        api=filters.with_query("/api/v1/machines", asked.filters.query),
        tables=[shown.leading(result.tables[0], "/machine/"), *map(shown.table, result.tables[1:])],
    )


def every(asked: Asked) -> Result:
    """All machines as a result."""
    selection = asked.site.source.selection(asked.filters)
    found = places(selection)
    columns = [
        Column("machine", "machine"),
        Column("cpu", "processor"),
        Column("cores", "logical CPUs", "figure"),
        Column("gpus", "GPUs"),
        Column("class", "kinds"),
        Column("runs", "runs", "figure"),
        Column("last", "last run"),
        Column("id", "id"),
    ]
    records = [
        Record(
            {
                "machine": one.machine.hostname,
                "cpu": one.machine.cpu,
                "cores": one.machine.cores,
                "gpus": ", ".join(str(gpu.get("name") or "unnamed GPU") for gpu in one.machine.gpus) or None,
                "class": ", ".join(sorted(one.hardware)) or None,
                "runs": len(one.runs),
                "last": one.runs[0].created,
                "id": one.id,
            },
            [Origin(one.runs[0].id)],
        )
        for one in found
    ]
    return Result(
        analysis="machines",
        title=units.plural("machine", len(found)),
        summary=[f"{units.plural('machine', len(found))} made {units.plural('run', len(selection.runs))}."],
        tables=[Table("machines", "Machines", columns, records), *_compared(found)],
        sources=selection.sources,
    )


def _compared(found: Sequence[Place]) -> list[Table]:
    """Machines of one kind beside each other: the newest ceilings of each, relative to the median of the others."""
    columns = [
        Column("machine", "machine"),
        Column("class", "kind"),
        Column("figure", "ceiling"),
        Column("value", "measured", "figure"),
        Column("relative", "of the median of the others", "figure"),
    ]
    records = []
    for kind in sorted({name for one in found for name in one.hardware}):
        same = [one for one in found if kind in one.hardware]
        for device in sorted({name for one in same for name in one.devices}):
            newest = [(one, one.ceilings(device)[0]) for one in same if one.ceilings(device)]
            for key, title in FIGURES.items():
                values = [(one, run, float(getattr(ceilings, key))) for one, (run, ceilings) in newest]
                for one, run, value in values if len(values) > 1 else []:
                    others = median([other for place, _, other in values if place is not one])
                    cells: dict[str, Cell] = {
                        "machine": one.machine.hostname,
                        "class": kind,
                        "figure": f"{device}: {title}",
                        "value": counted(value, "B/s"),
                        "relative": counted(100 * value / others if others else None, "%", "the others have none"),
                    }
                    records.append(Record(cells, [Origin(run.id)]))
    note = "A ceiling is the best of several runs, and has no interval. Compare machines by runs of one target."
    return [Table("compared", "Machines of one kind", columns, records, note)] if records else []


def page_of_one(asked: Asked) -> View:
    """The machine with the id of the address."""
    place = _place(asked)
    return document.view(
        asked,
        one(asked),
        title=place.machine.hostname,
        api=f"/api/v1/machines/{place.id}",
        crumbs=[("Machines", "/machines")],
        filtered=False,
    )


def _place(asked: Asked) -> Place:
    found = places(asked.site.source.selection())
    for place in found:
        if place.id == asked.path["id"]:
            return place
    raise NotFoundError(f"'{words(asked.path['id'][:80])}' is the id of no machine here. The machines: /machines")


def one(asked: Asked) -> Result:
    """A machine as a result: its ceilings against the datasheet, and over its runs."""
    place = _place(asked)
    machine = place.machine
    tables, drawings = [_facts(machine)], []
    for device in place.devices:
        history = place.ceilings(device)
        tables.append(_ceilings(device, *history[0]))
        if len(history) > 1:
            drawings.append(_over_time(device, history))
    return Result(
        analysis="machine",
        title=f"{machine.cpu}, {machine.cores} logical CPUs",
        summary=[f"{units.plural('run', len(place.runs))}, the last at {units.moment(place.runs[0].created)}."],
        options={"id": place.id},
        tables=tables,
        drawings=drawings,
        details={"machine": asdict(machine)},
    )


def _facts(machine: Machine) -> Table:
    facts: dict[str, Cell] = {
        "system": machine.system,
        "processor": machine.cpu,
        "logical CPUs": machine.cores,
        "memory": counted(machine.memory_bytes, "B"),
        "hypervisor": machine.hypervisor or "none seen",
        "driver": machine.driver,
        **{f"GPU {index}": str(gpu.get("name")) for index, gpu in enumerate(machine.gpus)},
    }
    columns = [Column("what", "what"), Column("value", "value")]
    return Table("facts", "The machine", columns, [Record({"what": key, "value": one}) for key, one in facts.items()])


def _ceilings(device: str, run: Measured, ceilings: Ceilings) -> Table:
    columns = [
        Column("figure", "ceiling"),
        Column("value", "measured", "figure"),
        Column("datasheet", "datasheet", "figure"),
        Column("fraction", "% of data sheet", "figure"),
    ]
    records = []
    for name, value, unit in figures_of(ceilings):
        promised = ceilings.datasheet.get(name)
        cells: dict[str, Cell] = {
            "figure": name,
            "value": counted(value, unit),
            "datasheet": counted(promised, unit, "not in the data sheet"),
            "fraction": counted(100 * value / promised if promised else None, "%", "not in the data sheet"),
        }
        records.append(Record(cells, [Origin(run.id)]))
    note = f"Measured {units.moment(ceilings.measured)}."
    if (ceilings.others_busy or 0.0) > BUSY:
        note += (
            f" Other processes used {units.percent(ceilings.others_busy or 0.0)} of the processors: the figures may be "
            "too low."
        )
    return Table(f"ceilings-{device}", f"Ceilings of {device}: {ceilings.device}", columns, records, note)


def figures_of(ceilings: Ceilings) -> list[tuple[str, float, str]]:
    """The rates of a page of ceilings: name, value, unit."""
    found: list[tuple[str, float, str]] = []
    for name, value in asdict(ceilings).items():
        unit = "FLOP/s" if "flop" in name else "B/s" if name.endswith("_bytes_per_s") else ""
        if not unit:
            continue
        parts = value.items() if isinstance(value, dict) else [("", value)]
        found += [(f"{name}.{key}" if key else name, float(one), unit) for key, one in parts if one is not None]
    return found


def _over_time(device: str, history: Sequence[tuple[Measured, Ceilings]]) -> Drawing:
    oldest_first = list(reversed(history))
    points = [
        Point(
            label="",
            x=Figure(value=float(index), unit="count", certainty="counted"),
            y=counted(float(one.copy_bytes_per_s), "B/s"),
            origin=Origin(run.id),
        )
        for index, (run, one) in enumerate(oldest_first, 1)
    ]
    low, high = (edge(float(one.copy_bytes_per_s) for _, one in history) for edge in (min, max))
    spread = f"from {units.rate(low, 'B/s')} to {units.rate(high, 'B/s')}"
    return Drawing(
        name=f"copy-{device}",
        title=f"Copy rate of {device} over measurements",
        kind="lines",
        message=f"The copy rate was {spread} in {len(history)} measurements.",
        x=Axis(title="measurement, oldest first", unit="count"),
        y=Axis(title="copy rate (higher is better)", unit="B/s"),
        series=[Series(name="copy", points=points, joined=True)],
    )
