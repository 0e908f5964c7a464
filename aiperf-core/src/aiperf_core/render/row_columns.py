"""The columns of tables of results: which there are, how a row's figure is shown, and how rows are sorted."""

from collections.abc import Callable, Iterable, Sequence

from attrs import frozen
from rich.text import Text

from aiperf_core import units
from aiperf_core.errors import UsageError
from aiperf_core.render.look import Look
from aiperf_core.results.models import DISBELIEVED, Row, TargetResult, Verdict
from aiperf_core.stats.spread import Spread, spread_of
from aiperf_core.targets import nearest

SORTS = ("declared", "speedup", "time", "name")


@frozen
class View:
    """The user's choice of a table.

    columns: the names of the columns; none for the default ones.
    sort: a name from `SORTS`.
    compact: the whole run as one table, with a line for each implementation.
    """

    columns: tuple[str, ...] = ()
    sort: str = "declared"
    compact: bool = False

    @property
    def needs_samples(self) -> bool:
        """Whether a column is computed from the samples, which an outline of a bundle lacks."""
        return any(COLUMNS[name].of_samples for name in self.columns)


DEFAULT = View()


@frozen(kw_only=True)
class RowColumn:
    """A column.

    head: its heading.
    about: a sentence for the list of columns.
    width: the width that it has at least, so that all tables of a run are laid out alike.
    show: the figure of a row; empty where there is none.
    extends: the column whose figure this one completes, as an interval does; its heading is not repeated in a list.
    of_samples: whether it is computed from the samples.
    """

    head: str
    about: str
    width: int
    show: Callable[[TargetResult, Row, Look], Text]
    right: bool = True
    extends: str = ""
    of_samples: bool = False


def columns_of(names: Iterable[str]) -> tuple[str, ...]:
    """The names of columns, each checked. Raises UsageError with the list of columns for an unknown name."""
    found = tuple(names)
    for name in found:
        if name not in COLUMNS:
            hint = nearest(name, COLUMNS)
            raise UsageError(f"{name!r} is not a column.{hint} The columns are:\n{listed(': ')}")
    return found


def listed(separator: str = "") -> str:
    """All columns, a line each. Without a separator the sentences are aligned."""
    wide = 0 if separator else max(map(len, COLUMNS)) + 2
    return "\n".join(f"{name + separator:<{wide}}{column.about}" for name, column in COLUMNS.items())


def in_order(rows: Sequence[tuple[TargetResult, Row]], sort: str) -> list[tuple[TargetResult, Row]]:
    """The rows in the order of `SORTS`; rows without the figure are last. A baseline has the speedup 1."""
    keys: dict[str, Callable[[tuple[TargetResult, Row]], tuple[bool, float] | str]] = {
        "speedup": lambda pair: _descending(_speedup_of(pair[1])),
        "time": lambda pair: _ascending(pair[1].time_s.value if pair[1].time_s and _trusted(pair[1]) else None),
        "name": lambda pair: f"{pair[0].target}:{pair[1].name}",
    }
    return sorted(rows, key=keys[sort]) if sort in keys else list(rows)


def _speedup_of(row: Row) -> float | None:
    if not _trusted(row):
        return None
    return 1.0 if row.role == "baseline" else row.speedup.value if row.speedup else None


def _ascending(value: float | None) -> tuple[bool, float]:
    return value is None, value or 0.0


def _descending(value: float | None) -> tuple[bool, float]:
    return value is None, -(value or 0.0)


def _trusted(row: Row) -> bool:
    """Whether figures that follow from the time are shown. The time of another row is evidence, not a result."""
    return row.verdict not in DISBELIEVED


# --- figures of a row


def rate_of(row: Row) -> str:
    """The rate of the resource that bounds the row: bytes of memory, link or disk, or operations."""
    rates = {
        "memory": row.bytes_per_s,
        "compute": row.flop_per_s,
        "wire": row.wire_bytes_per_s,
        "disk": row.disk_bytes_per_s,
    }
    known = [bound for bound, rate in rates.items() if rate]
    bound = row.speed_of_light.bound if row.speed_of_light else ""
    if not known:
        return ""
    shown = bound if bound in known else known[0]
    return units.rate(rates[shown] or 0.0, "FLOP/s" if shown == "compute" else "B/s")


def peak_of(row: Row) -> str:
    """The peak memory, or an empty text."""
    peak = row.memory.most_bytes if row.memory else None
    return "" if peak is None else units.size(peak)


def less_memory(row: Row) -> str:
    """`4.00x less` where the verdict is about memory, else an empty text."""
    if row.memory_gain is None or row.verdict not in (Verdict.SMALLER, Verdict.LARGER):
        return ""
    less = row.verdict is Verdict.SMALLER
    return f"{units.number(row.memory_gain if less else 1 / row.memory_gain)}x {'less' if less else 'more'}"


def _median(_: TargetResult, row: Row, look: Look) -> Text:
    shown = units.time_estimate(row.time_s).value if row.time_s else ""
    return look.text(shown, "" if _trusted(row) else "dim")


def _interval(_: TargetResult, row: Row, look: Look) -> Text:
    return Text(units.time_estimate(row.time_s).interval if row.time_s else "", "dim")


def _speedup(_: TargetResult, row: Row, look: Look) -> Text:
    shown = units.speedup(row.speedup if _trusted(row) else None).value
    return Text(shown, "bold" if row.verdict is Verdict.FASTER else "")


def _speedup_interval(_: TargetResult, row: Row, look: Look) -> Text:
    return Text(units.speedup(row.speedup if _trusted(row) else None).interval, "dim")


def _verdict(_: TargetResult, row: Row, look: Look) -> Text:
    return Text() if row.verdict is Verdict.MEASURED else look.verdict(row.verdict)


def _rate(_: TargetResult, row: Row, look: Look) -> Text:
    return Text(rate_of(row) if _trusted(row) else "")


def _sol(_: TargetResult, row: Row, look: Look) -> Text:
    light = row.speed_of_light if _trusted(row) else None
    return Text(units.percent(light.fraction) if light else "", "dim")


def _memory(_: TargetResult, row: Row, look: Look) -> Text:
    return Text(peak_of(row))


def _memory_gain(_: TargetResult, row: Row, look: Look) -> Text:
    return Text(less_memory(row) if _trusted(row) else "", "dim")


def _of_spread(figure: Callable[[Spread], float]) -> Callable[[TargetResult, Row, Look], Text]:
    def show(result: TargetResult, row: Row, look: Look) -> Text:
        spread = spread_of(result, row)
        return look.text(units.seconds(figure(spread)) if spread else "", "" if _trusted(row) else "dim")

    return show


def _samples(result: TargetResult, row: Row, look: Look) -> Text:
    spread = spread_of(result, row)
    return Text(f"{spread.count:,}" if spread else "")


COLUMNS = {
    "median": RowColumn(head="median", about="Median time of a call.", width=9, show=_median),
    "interval": RowColumn(
        head="95 % interval", about="Interval of the median.", width=16, show=_interval, extends="median"
    ),
    "speedup": RowColumn(
        head="speedup", about="Median of the baseline divided by this median.", width=8, show=_speedup
    ),
    "speedup-interval": RowColumn(
        head="95 % interval",
        about="Interval of the speedup.",
        width=16,
        show=_speedup_interval,
        extends="speedup",
    ),
    "verdict": RowColumn(
        head="verdict", about="What the run says about the implementation.", width=12, show=_verdict, right=False
    ),
    "rate": RowColumn(head="rate", about="Least bytes or operations of the work per second.", width=12, show=_rate),
    "sol": RowColumn(head="SOL", about="Fraction of the speed of light.", width=6, show=_sol, extends="rate"),
    "memory": RowColumn(head="peak memory", about="Peak memory beyond the inputs.", width=11, show=_memory),
    "memory-gain": RowColumn(
        head="", about="Peak memory relative to the baseline's.", width=10, show=_memory_gain, extends="memory"
    ),
    "min": RowColumn(
        head="min", about="Shortest sample.", width=9, show=_of_spread(lambda one: one.least), of_samples=True
    ),
    "p95": RowColumn(
        head="p95",
        about="95 % of the samples are at most this long.",
        width=9,
        show=_of_spread(lambda one: one.p95),
        of_samples=True,
    ),
    "stddev": RowColumn(
        head="std dev",
        about="Standard deviation of the samples.",
        width=9,
        show=_of_spread(lambda one: one.deviation),
        of_samples=True,
    ),
    "samples": RowColumn(head="samples", about="Number of samples.", width=7, show=_samples, of_samples=True),
}
