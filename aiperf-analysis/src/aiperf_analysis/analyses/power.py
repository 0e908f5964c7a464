"""Energy of a call, and of a unit of its work."""

import math
from collections.abc import Mapping, Sequence

from attrs import asdict, frozen

from aiperf_analysis.analyses.energy import LogEnergy, log_energy, mean_watts, rank_ranges, time_error
from aiperf_analysis.selection import Entry, Selection, required
from aiperf_core.analysis_options import option
from aiperf_core.report.result import Axis, Cell, Column, Drawing, Figure, Point, Record, Result, Series, Table, counted
from aiperf_core.units import plural

Work = tuple[str, str, str, tuple[tuple[str, float], ...], str]


@frozen
class Options:
    """Options of this analysis."""

    net: bool = option(False, "Without the power of the idle machine.")
    top: int | None = option(None, "At most this many rows of each target, the least energy first.")


@frozen
class Measured:
    """A row with energy."""

    entry: Entry
    energy: LogEnergy
    gross: LogEnergy | None
    net: LogEnergy | None

    @property
    def work(self) -> Work:
        """What rows must share to be ranked: the work, the kind of machine and the precision."""
        key = self.entry.key
        return key.target, key.hardware, key.device, key.params, key.precision


def analyze(selection: Selection, options: Options) -> Result:
    """Compare rows by their energy per call, operation, byte and token.

    Rows are ranked within one target on one kind of machine, at one size and precision, by the energy of a call; ranks
    are ranges, as the intervals allow. Energy is measured by runs with `--tier standard` or `--tier audit`. Bundles of
    one target at several power limits also give the limit that takes the least energy.
    """
    newest = selection.latest()
    required(newest.entries, newest)
    found = measured(newest.entries, net=options.net)
    without = [one for one in newest.entries if one.row.energy is None]
    groups: dict[Work, list[Measured]] = {}
    for one in found:
        groups.setdefault(one.work, []).append(one)
    records, places = _records(groups, options)
    limits = _limits(selection, options)
    tables = [Table("energy", "energy of a call", _columns(), records, note=_NOTE)] if records else []
    tables += [limits[0]] if limits else []
    if without:
        tables.append(_without(without))
    summary = _summary(groups, without, newest)
    drawings = [_drawing(groups, places, summary[0])] if places else []
    drawings += [limits[1]] if limits else []
    return Result(
        analysis="power",
        title="Energy",
        summary=summary,
        status="ok" if found else "nothing",
        options=asdict(options),
        tables=tables,
        drawings=drawings,
        assumptions=[
            "energy is that of the whole device, by its counter, while calls ran without pause",
            "net energy is without the power of the idle machine, measured just before" if options.net
            else "gross energy contains the power of the idle machine; without it: --net",
            "of the sensor of some GPUs the driver samples only a part of the time (Yang et al., 2023)",
        ],
        left_out=newest.left_out,
        sources=newest.sources,
    )  # fmt: skip


_NOTE = (
    "Ranks compare rows of one target, size, precision and kind of machine. A figure whose counter has steps of more "
    "than 5 % of it is a bound and has no rank."
)


def measured(entries: Sequence[Entry], *, net: bool = False) -> list[Measured]:
    """The rows that have energy, with its error."""
    found = []
    for one in entries:
        energy = one.row.energy
        if energy is None:
            continue
        error = time_error(one.blocks(), one.row.time_s, one.result.rounds)
        if not math.isfinite(error):
            continue
        gross, less = log_energy(energy, error), log_energy(energy, error, net=True)
        chosen = less if net else gross
        if chosen is not None:
            found.append(Measured(one, chosen, gross, less))
    return found


def _columns() -> list[Column]:
    return [
        Column("row", "target:row"),
        Column("class", "kind of machine"),
        Column("rank", "rank"),
        Column("joules", "J/op", "figure"),
        Column("net_joules", "net J/op", "figure"),
        Column("watts", "power", "figure"),
        Column("idle_watts", "idle", "figure"),
        Column("joules_per_flop", "J/FLOP", "figure"),
        Column("joules_per_byte", "J/byte", "figure"),
        Column("tokens_per_joule", "tokens/J", "figure"),
        Column("edp", "EDP", "figure"),
        Column("ed2p", "ED2P", "figure"),
    ]


def _records(groups: Mapping[Work, Sequence[Measured]], options: Options) -> tuple[list[Record], list[Measured]]:
    """The rows of the main table, of each work the least energy first, and what they are of."""
    records, places = [], []
    for _, members in sorted(groups.items(), key=lambda pair: pair[0]):
        ordered = sorted(members, key=lambda one: one.energy.joules)
        ranks = rank_ranges([one.energy.figure("J") for one in ordered])
        kept = list(zip(ordered, ranks, strict=True))[: options.top]
        for one, rank in kept:
            records.append(Record(_cells(one, rank), [one.entry.origin]))
            places.append(one)
    return records, places


def _cells(one: Measured, rank: tuple[int, int] | None) -> dict[str, Cell]:
    entry, energy = one.entry, one.energy
    problem, found = entry.result.problem, entry.row.energy
    assert found is not None
    moved = problem.bytes_read + problem.bytes_written
    time = entry.row.time_s
    none = Figure(value=None, reason="the row has no time")
    return {
        "row": entry.name,
        "class": entry.hardware,
        "rank": None if rank is None else str(rank[0]) if rank[0] == rank[1] else f"{rank[0]} to {rank[1]}",
        "joules": one.gross.figure("J") if one.gross else _nothing("the counter did not move"),
        "net_joules": one.net.figure("J") if one.net else _nothing("the load took no more power than the idle machine"),
        "watts": Figure(value=mean_watts(found), unit="W"),
        "idle_watts": Figure(value=found.idle_watts, unit="W"),
        "joules_per_flop": energy.figure("J", 1 / problem.flops) if problem.flops
        else _nothing("the target declares no operations"),
        "joules_per_byte": energy.figure("J", 1 / moved) if moved else _nothing("the target declares no bytes"),
        "tokens_per_joule": energy.figure("token/J", 1 / problem.tokens, inverse=True) if problem.tokens
        else _nothing("the target declares no tokens", "token/J"),
        "edp": energy.figure("J s", times_s=time.value, power=1) if time else none,
        "ed2p": energy.figure("J s2", times_s=time.value, power=2) if time else none,
    }  # fmt: skip


def _nothing(reason: str, unit: str = "J") -> Figure:
    return Figure(value=None, unit=unit, reason=reason)


def _summary(groups: Mapping[Work, Sequence[Measured]], without: Sequence[Entry], newest: Selection) -> list[str]:
    if not groups:
        return [
            f"No row of {plural('bundle', len(newest.runs))} has energy, as the reasons below say. Energy is "
            "measured by: aiperf run PATTERN --tier standard"
        ]
    rows = sum(map(len, groups.values()))
    told = [f"{plural('row', rows)} of {plural('target', len(groups))} have energy."]
    if without:
        told.append(f"Rows without energy: {len(without)}.")
    return told


def _without(entries: Sequence[Entry]) -> Table:
    """The rows without energy, each with its reason."""
    records = [
        Record({"row": one.name, "class": one.hardware, "reason": why_none(one)}, [one.origin]) for one in entries
    ]
    columns = [Column("row", "target:row"), Column("class", "kind of machine"), Column("reason", "why")]
    return Table("without_energy", "rows without energy", columns, records)


def why_none(entry: Entry) -> str:
    """Why a row has no energy."""
    if entry.row.no_energy:
        return entry.row.no_energy
    return f"not measured by a run with --tier {entry.result.tier}; use --tier standard"


def _drawing(groups: Mapping[Work, Sequence[Measured]], places: Sequence[Measured], message: str) -> Drawing:
    points = [
        Point(label=one.entry.name, x=one.energy.figure("J"), y=counted(at, "count"), origin=one.entry.origin)
        for at, one in enumerate(places)
    ]  # fmt: skip
    return Drawing(
        name="energy", title="Energy of a call", kind="intervals", message=message,
        x=Axis(title="energy of a call; less is better", unit="J", log=True), y=Axis(title="row", unit="count"),
        series=[Series(name="rows", points=points)],
    )  # fmt: skip


# --- power limits


def power_limit_w(entry: Entry) -> float | None:
    """The power limit of the GPUs that the row's target could use, where they have one in common."""
    if entry.result.device != "cuda":
        return None
    limits = [gpu.get("power_limit_w") for gpu in entry.run.manifest.machine.gpus]
    first = limits[0] if limits else None
    return float(first) if isinstance(first, int | float) and limits.count(first) == len(limits) else None


def _limits(selection: Selection, options: Options) -> tuple[Table, Drawing] | None:
    """Rows that were measured at several power limits: of each limit the newest bundle."""
    by_key: dict[tuple[object, ...], dict[float, Measured]] = {}
    for one in sorted(measured(selection.entries, net=options.net), key=lambda one: one.entry.run.created):
        limit = power_limit_w(one.entry)
        if limit is not None and one.entry.row.time_s is not None:
            by_key.setdefault((*one.work, one.entry.row.name), {})[limit] = one
    several = {key: found for key, found in by_key.items() if len(found) > 1}
    if not several:
        return None
    records, series = [], []
    for key, found in sorted(several.items(), key=lambda pair: str(pair[0])):
        ordered = sorted(found.items())
        figures = [one.energy.figure("J") for _, one in ordered]
        ranks = rank_ranges(figures)
        fastest = min(one.entry.row.time_s.value for _, one in ordered if one.entry.row.time_s)
        for (limit, one), figure, rank in zip(ordered, figures, ranks, strict=True):
            time = one.entry.row.time_s
            assert time is not None
            best = rank is not None and rank[0] == 1
            records.append(
                Record(
                    {
                        "row": one.entry.name,
                        "limit": Figure(value=limit, unit="W", certainty="counted"),
                        "joules": figure,
                        "time": Figure(value=time.value, low=time.low, high=time.high, unit="s"),
                        "slowdown": Figure(
                            value=time.value / fastest, low=time.low / fastest, high=time.high / fastest
                        ),
                        "least": ("least energy" if rank == (1, 1) else "may be the least") if best else None,
                    },
                    [one.entry.origin],
                )
            )
        series.append(
            Series(
                name=f"{key[0]}:{key[-1]}",
                points=[
                    Point(
                        label="",
                        x=Figure(value=limit, unit="W", certainty="counted"),
                        y=figure,
                        origin=one.entry.origin,
                    )
                    for (limit, one), figure in zip(ordered, figures, strict=True)
                ],
                joined=True,
            )
        )
    columns = [
        Column("row", "target:row"), Column("limit", "power limit", "figure"), Column("joules", "J/op", "figure"),
        Column("time", "time", "figure"), Column("slowdown", "time over the fastest", "figure"),
        Column("least", "energy"),
    ]  # fmt: skip
    message = f"{plural('row', len(several))} at several power limits."
    return (
        Table("limits", "rows at several power limits", columns, records),
        Drawing(name="limits", title="Energy of a call by power limit", kind="lines", message=message,
                x=Axis(title="power limit", unit="W"), y=Axis(title="energy of a call; less is better", unit="J"),
                series=series),
    )  # fmt: skip
