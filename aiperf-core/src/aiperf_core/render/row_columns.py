"""The columns of tables of results: which there are, how a row's figure is shown, and how rows are sorted."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

from attrs import frozen
from rich.text import Text

from aiperf_core import units
from aiperf_core.errors import UsageError
from aiperf_core.render.look import VERDICT_STYLES, Look
from aiperf_core.report import cell_text
from aiperf_core.report.metrics import BY_NAME, METRICS, Metric, bound_name
from aiperf_core.report.verdict_text import verdict_text
from aiperf_core.results.models import Row, TargetResult, Verdict
from aiperf_core.stats.intervals import verdict
from aiperf_core.targets import nearest


@frozen
class View:
    """The user's choice of a table.

    columns: the names of the columns; none for the default ones.
    sort: `declared`, `speedup`, `time` or `name`.
    compact: the whole run as one table, with a line for each implementation.
    filled: leave out columns without a figure.
    """

    columns: tuple[str, ...] = ()
    sort: str = "declared"
    compact: bool = False
    filled: bool = False

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
    columns = []
    for name in names:
        metric = BY_NAME.get(name)
        column = metric.name if metric else _OLDER.get(name, name)
        if column not in COLUMNS:
            hint = nearest(name, COLUMNS)
            raise UsageError(f"{name!r} is not a column.{hint} The columns are:\n{listed(': ')}")
        columns.append(column)
    return tuple(columns)


def filled(names: Iterable[str], rows: Sequence[tuple[TargetResult, Row]], look: Look) -> tuple[str, ...]:
    """The columns in which a row has a figure."""
    return tuple(name for name in names if any(COLUMNS[name].show(*pair, look) for pair in rows))


def listed(separator: str = "") -> str:
    """All columns, a line each. Without a separator the sentences are aligned."""
    wide = 0 if separator else max(map(len, COLUMNS)) + 2
    return "\n".join(f"{name + separator:<{wide}}{column.about}" for name, column in COLUMNS.items())


def in_order(rows: Sequence[tuple[TargetResult, Row]], sort: str) -> list[tuple[TargetResult, Row]]:
    """The rows in an order of `View.sort`; rows without the figure are last. A baseline has the speedup 1."""
    keys: dict[str, Callable[[tuple[TargetResult, Row]], tuple[bool, float] | str]] = {
        "speedup": lambda pair: _descending(_speedup_of(pair[1])),
        "time": lambda pair: _ascending(pair[1].time_s.value if pair[1].time_s and pair[1].is_believed else None),
        "name": lambda pair: f"{pair[0].target}:{pair[1].name}",
    }
    return sorted(rows, key=keys[sort]) if sort in keys else list(rows)


def _speedup_of(row: Row) -> float | None:
    if not row.is_believed:
        return None
    return 1.0 if row.role == "baseline" else row.speedup.value if row.speedup else None


def _ascending(value: float | None) -> tuple[bool, float]:
    return value is None, value or 0.0


def _descending(value: float | None) -> tuple[bool, float]:
    return value is None, -(value or 0.0)


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


# Shares and gains complete the figure before them.
_FAINT = ("speed_of_light_fraction",)
_STEP_STYLES = {Verdict.FASTER: "not dim green", Verdict.SLOWER: "not dim red"}
# Widths that nearly all figures of a unit fit in.
_WIDTHS = {"s": 8, "1": 7, "%": 14, "B": 11, "J": 9, "count": 7}
_OTHER_WIDTH, _INTERVAL_WIDTH = 12, 16


def _shown(metric: Metric, result: TargetResult, row: Row) -> units.Shown:
    """The figure of a row in print, or of one that is not believed its evidence: a time or a size that was measured.

    The step of a variant that builds on the baseline is its speedup, and is left out.
    """
    if metric.key == "step_speedup" and row.builds_on in [each.name for each in result.rows if each.role == "baseline"]:
        return units.Shown()
    figure = metric.of(result, row)
    if figure.value is None and not row.is_believed and metric.unit in ("s", "B", "count"):
        figure = metric.measure(result, row)
    if figure.value is None:
        dash = metric.name == "sol" and row.is_believed and row.speed_of_light
        return units.Shown(cell_text.NONE if dash else "")
    if metric.unit == "%":
        percent = units.percent(figure.value / 100)
        bound = f" {bound_name(result, row)}" if metric.name == "sol" else ""
        return units.Shown((percent + bound).rstrip(), cell_text.interval(figure))
    return units.Shown(cell_text.text(figure), cell_text.interval(figure))


def ratio_of(result: TargetResult, row: Row) -> str:
    """The median of the baseline divided by that of a row without a speedup: a yardstick, or the baseline itself."""
    base = next((one for one in result.rows if one.role == "baseline" and one.is_believed), None)
    if row.role == "variant" or not row.is_believed or not (base and base.time_s and row.time_s):
        return ""
    return "1x" if row is base else f"{units.number(base.time_s.value / row.time_s.value)}x"


def _value(metric: Metric, result: TargetResult, row: Row, look: Look) -> Text:
    if metric.key == "speedup" and row.speedup is None:
        return Text(ratio_of(result, row), "dim")
    bold = metric.key == "speedup" and row.verdict is Verdict.FASTER
    style = "bold" if bold else "dim" if not row.is_believed or metric.key in _FAINT else ""
    if metric.key == "step_speedup" and row.step_speedup and result.goal != "memory":
        style = _STEP_STYLES.get(verdict(row.step_speedup, result.floor), "")
    return look.text(_shown(metric, result, row).value, style)


def _interval(metric: Metric, result: TargetResult, row: Row, look: Look) -> Text:
    return look.text(_shown(metric, result, row).interval, "dim")


def _verdict(result: TargetResult, row: Row, look: Look) -> Text:
    return look.text(
        verdict_text(result, row), "dim" if row.verdict is Verdict.MEASURED else VERDICT_STYLES[row.verdict]
    )


def _of_peak(result: TargetResult, row: Row, look: Look) -> Text:
    figure = METRICS["speed_of_light_fraction"].of(result, row)
    return Text("" if figure.value is None else units.percent(figure.value / 100), "dim")


def _rate(_: TargetResult, row: Row, look: Look) -> Text:
    return Text(rate_of(row) if row.is_believed else "")


def _memory_gain(_: TargetResult, row: Row, look: Look) -> Text:
    return Text(less_memory(row) if row.is_believed else "", "dim")


def _of_metrics() -> Iterator[tuple[str, RowColumn]]:
    """A column for each metric, and one for its interval; that of the rate before its share of the speed of light."""
    for metric in METRICS.values():
        name = metric.name
        if name == "sol":
            yield "rate", _RATE
        yield (
            name,
            RowColumn(
                head=metric.title,
                about=metric.about,
                width=_WIDTHS.get(metric.unit, _OTHER_WIDTH),
                show=partial(_value, metric),
                extends=_EXTENDS.get(name, ""),
                of_samples=metric.of_samples,
            ),
        )
        # A share stands beside its rate in two digits, which an interval would not fit.
        if metric.has_interval and metric.unit != "%":
            yield (
                f"{name}-interval",
                RowColumn(
                    head="95 % interval",
                    about=f"Interval of the {metric.title}.",
                    width=_INTERVAL_WIDTH,
                    show=partial(_interval, metric),
                    extends=name,
                ),
            )


# Columns that complete another one, and names of columns from before they were made of metrics.
_EXTENDS = {"memory_gain": "memory"}
_OLDER = {"interval": "time-interval", "memory-gain": "memory_gain"}
_RATE = RowColumn(
    head="rate",
    about="Least bytes or operations of the work per second, of the resource that bounds it.",
    width=12,
    show=_rate,
)
COLUMNS = {
    "verdict": RowColumn(
        head="verdict", about="What the run says about the implementation.", width=16, show=_verdict, right=False
    ),
    "of_peak": RowColumn(head="of peak", about="Fraction of the speed of light, in short.", width=7, show=_of_peak),
    **dict(_of_metrics()),
}
COLUMNS["memory_gain"] = RowColumn(
    head="", about="Peak memory relative to the baseline's.", width=10, show=_memory_gain, extends="memory"
)
