"""Cost of a call, of tokens and of runs, by prices that the user gives."""

from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path

from attrs import asdict, frozen

from aiperf_analysis.analyses.energy import LogEnergy, mean_watts
from aiperf_analysis.analyses.power import measured
from aiperf_analysis.selection import Entry, Measured, Selection, required
from aiperf_calc import cost
from aiperf_calc.prices.book import Book, Price, default_path, read, warnings
from aiperf_calc.quantities import positive, share
from aiperf_core import units
from aiperf_core.analysis_options import option
from aiperf_core.errors import UsageError
from aiperf_core.measurements import Estimate
from aiperf_core.names import words
from aiperf_core.report.result import Axis, Cell, Column, Drawing, Figure, Origin, Point, Record, Result, Series, Table
from aiperf_core.units import plural


@frozen
class Options:
    """Options of this analysis."""

    prices: str | None = option(
        None, "The price file; seed is an example without date and source.", metavar="FILE|seed", local=True
    )
    provider: str | None = option(None, "Only prices of this provider.", metavar="NAME")
    region: str | None = option(None, "Only prices of this region.", metavar="NAME")
    commitment: str | None = option(None, "Only prices of this commitment, such as on-demand.", metavar="NAME")
    max_age: int | None = option(None, "Refuse prices older than this many days.", metavar="DAYS")
    gpu: str | None = option(None, "Only kinds of machine with this in their name, such as h100.", metavar="SUBSTRING")
    top: int | None = option(None, "At most this many rows, the cheapest of each target first.", metavar="COUNT")
    utilisation: float = option(1.0, "The share of the paid time that is used.", metavar="SHARE")
    own_price: float | None = option(None, "Own hardware: the price of a GPU, in dollars.", metavar="USD")
    residual: float = option(0.0, "Own hardware: its value at the end, in dollars.", metavar="USD")
    life: float = option(4.0, "Own hardware: its life in years.", metavar="YEARS")
    overhead: float = option(0.0, "Own hardware: further costs of a GPU in a year, in dollars.", metavar="USD")
    tariff: float | None = option(None, "Electricity: dollars for a kWh.", metavar="USD")
    pue: float = option(1.0, "Electricity: the energy of the building over that of its machines.", metavar="RATIO")


@frozen
class _Rate:
    """Dollars an hour of a kind of machine, or why there are none."""

    usd_per_hour: float | None
    reason: str = ""
    price: Price | None = None


@frozen
class _Priced:
    """A row with what it costs."""

    entry: Entry
    rate: _Rate
    call: Figure
    electricity: Figure


def analyze(selection: Selection, options: Options) -> Result:
    """Price the calls, tokens and runs of each target, and compare machines by their break-even rate.

    Prices come from a file of the user: see `aiperf prices`. A kind of machine without a price says so; nothing is
    assumed for it. Own hardware is priced by --own-price and --life. With --tariff, rows that have energy also get the
    cost of their electricity.
    """
    _check(options)
    newest = selection.latest()
    if options.gpu is not None:
        wanted = options.gpu.lower()
        newest = newest.only(lambda one: wanted in one.hardware)
        if not newest.every:
            raise UsageError(
                f"--gpu {words(options.gpu)!r}: no kind of machine of these bundles has this in its name. They have: "
                f"{', '.join(sorted({one.hardware for one in selection.every}))}."
            )
    required([one for one in newest.entries if one.row.time_s], newest, "a believed row with a time")
    book = _book(options)
    rates = {one.hardware: _rate(one.hardware, book, options) for one in newest.entries}
    told = warnings(
        list({rate.price.name: rate.price for rate in rates.values() if rate.price}.values()), options.max_age
    )
    priced = [_priced(one, rates[one.hardware], options) for one in newest.entries if one.row.time_s is not None]
    records = _records(priced, options)
    even = _break_even(newest, rates)
    summary = _summary(priced, rates, book)
    counted_rows = [one for one in priced if one.rate.usd_per_hour is not None or one.electricity.value is not None]
    columns, absent = _shown(_columns(), records)
    tables = [Table("cost", "cost of a call", columns, records, note=_NOTE)]
    tables += [even] if even.records else []
    tables.append(_runs(newest, rates))
    return Result(
        analysis="cost",
        title="Cost",
        summary=[*summary, *(f"Warning: {one}." for one in told)],
        status="ok" if counted_rows or even.records else "nothing",
        options=asdict(options),
        tables=tables,
        drawings=_drawings(priced, summary[0]),
        assumptions=[*_assumptions(options, rates), *absent],
        left_out=newest.left_out,
        sources=newest.sources,
        details={"prices": {name: rate.price.document() for name, rate in rates.items() if rate.price}},
    )


_NOTE = (
    "Savings compare a row with the baseline of its target on the same machine. Dollars are of the whole machine used."
)


def _check(options: Options) -> None:
    share(options.utilisation, "--utilisation")
    positive(options.life, "--life")
    if options.own_price is not None:
        if options.prices is not None:
            raise UsageError("--own-price is for own hardware and --prices for rented machines; give one of them.")
        cost.own_per_hour(options.own_price, options.residual, options.life, options.utilisation, options.overhead)
    if options.tariff is not None:
        cost.electricity(1.0, options.tariff, options.pue)


def _book(options: Options) -> Book | None:
    """The prices; None where own hardware or electricity alone is priced."""
    if options.own_price is not None:
        return None
    if options.prices is None and not default_path().exists():
        if options.tariff is not None:
            return None
        raise UsageError(
            f"there are no prices: '{default_path()}' does not exist. Write one with: aiperf prices add; or give "
            "--prices FILE, --own-price USD for own hardware, or --tariff USD for electricity alone."
        )
    return read(options.prices)


def _rate(hardware: str, book: Book | None, options: Options) -> _Rate:
    if options.own_price is not None:
        each = cost.own_per_hour(
            options.own_price, options.residual, options.life, options.utilisation, options.overhead
        )
        count = Price(gpu="", usd_per_hour=each).count(hardware) if _has_gpus(hardware) else 1
        # The utilisation is in the depreciation already.
        return _Rate(each * count * options.utilisation)
    if book is None:
        return _Rate(None, "electricity alone is priced")
    found = book.find(hardware, provider=options.provider, region=options.region, commitment=options.commitment)
    if found is None:
        return _Rate(None, f"no price of {hardware} in {book.file}")
    return _Rate(found.of_machine(hardware), price=found)


def _has_gpus(hardware: str) -> bool:
    return hardware.startswith(("nvidia-", "tesla-"))


def _scaled(estimate: Estimate, factor: float, unit: str = "USD") -> Figure:
    return Figure(
        value=estimate.value * factor, low=estimate.low * factor, high=estimate.high * factor, unit=unit,
        certainty="derived",
    )  # fmt: skip


def _priced(entry: Entry, rate: _Rate, options: Options) -> _Priced:
    time = entry.row.time_s
    assert time is not None
    if rate.usd_per_hour is None:
        call = Figure(value=None, unit="USD", reason=rate.reason)
    else:
        call = _scaled(time, cost.rental(rate.usd_per_hour, 1, 1.0, options.utilisation))
    return _Priced(entry, rate, call, _electricity(entry, options))


def _electricity(entry: Entry, options: Options) -> Figure:
    """The electricity of a call, from its gross energy."""
    if options.tariff is None:
        return Figure(value=None, unit="USD", reason="no tariff; give --tariff USD")
    found = measured([entry])
    if not found:
        return Figure(value=None, unit="USD", reason=entry.row.no_energy or "the row has no energy")
    energy: LogEnergy = found[0].energy
    return energy.figure("USD", cost.electricity(1.0, options.tariff, options.pue))


def _columns() -> list[Column]:
    return [
        Column("row", "target:row"),
        Column("class", "kind of machine"),
        Column("time", "time", "figure"),
        Column("call", "USD/op", "figure"),
        Column("savings", "saved", "figure"),
        Column("million_tokens", "USD/1M tokens", "figure"),
        Column("million_in_time", "USD/1M in time", "figure"),
        Column("electricity", "electricity/op", "figure"),
        Column("electricity_tokens", "electricity/1M tokens", "figure"),
        Column("power", "power", "figure"),
    ]


# Columns that most results do not have. Without a figure, their reason stands among the assumptions.
_OPTIONAL = ("million_tokens", "million_in_time", "electricity", "electricity_tokens", "power")


def _shown(columns: Sequence[Column], records: Sequence[Record]) -> tuple[list[Column], list[str]]:
    """The columns that have a figure or are always shown, and why the others have none."""
    kept, absent = [], []
    for column in columns:
        cells = [record.cells[column.key] for record in records]
        figures = [cell for cell in cells if isinstance(cell, Figure)]
        if column.key not in _OPTIONAL or any(map(_known, figures)):
            kept.append(column)
        else:
            reasons = dict.fromkeys(one.reason or "not measured" for one in figures)
            absent.append(f"no {column.title}: {'; '.join(reasons)}")
    return kept, absent


def _records(priced: Sequence[_Priced], options: Options) -> list[Record]:
    """Of each target and machine the cheapest row first."""

    def order(one: _Priced) -> tuple[str, str, float]:
        time = one.entry.row.time_s
        return one.entry.result.target, one.entry.hardware, time.value if time else 0.0

    kept = sorted(priced, key=order)[: options.top]
    return [Record(_cells(one, options), [one.entry.origin]) for one in kept]


def _cells(one: _Priced, options: Options) -> dict[str, Cell]:
    entry, time = one.entry, one.entry.row.time_s
    assert time is not None
    tokens, energy = entry.result.problem.tokens, entry.row.energy
    no_tokens = Figure(value=None, unit="USD", reason="the target declares no tokens")
    in_time = entry.row.beside.get("goodput_per_s")
    million = no_tokens
    if tokens and in_time is not None:
        million = Figure(value=None, unit="USD", reason="of a server only answers in time count; see the next column")
    elif tokens and one.call.value is not None:
        million = _times(one.call, 1e6 / tokens)
    elif tokens:
        million = one.call
    return {
        "row": entry.name,
        "class": entry.hardware,
        "time": _scaled(time, 1.0, "s"),
        "call": one.call,
        "savings": _savings(entry),
        "million_tokens": million,
        "million_in_time": _in_time(one, in_time, options),
        "electricity": one.electricity,
        "electricity_tokens": _times(one.electricity, 1e6 / tokens) if tokens and _known(one.electricity) else
        (one.electricity if tokens else no_tokens),
        "power": Figure(value=mean_watts(energy), unit="W") if energy else
        Figure(value=None, unit="W", reason=entry.row.no_energy or "the row has no energy"),
    }  # fmt: skip


def _known(figure: Figure) -> bool:
    return figure.value is not None or figure.low is not None or figure.high is not None


def _times(figure: Figure, factor: float) -> Figure:
    """A figure times a known factor."""
    ends = [None if end is None else end * factor for end in (figure.value, figure.low, figure.high)]
    return Figure(value=ends[0], low=ends[1], high=ends[2], unit=figure.unit, certainty="derived", reason=figure.reason)


def _savings(entry: Entry) -> Figure:
    """The share of the baseline's cost that a row saves on the same machine: 1 - 1 / speedup."""
    speedup = entry.row.speedup
    if speedup is None:
        reason = "it is the baseline" if entry.row.role == "baseline" else "the row has no speedup"
        return Figure(value=None, unit="%", reason=reason)
    return Figure(
        value=100 * (1 - 1 / speedup.value), low=100 * (1 - 1 / speedup.low), high=100 * (1 - 1 / speedup.high),
        unit="%", certainty="derived",
    )  # fmt: skip


def _in_time(one: _Priced, per_second: float | None, options: Options) -> Figure:
    """Dollars of a million answers in time; the row keeps no interval of their rate."""
    if per_second is None:
        return Figure(value=None, unit="USD", reason="the target serves no requests")
    if one.rate.usd_per_hour is None:
        return Figure(value=None, unit="USD", reason=one.rate.reason)
    if per_second <= 0:
        return Figure(value=None, unit="USD", reason="no answer was in time")
    return Figure(
        value=cost.per_million(one.rate.usd_per_hour, 1, per_second, options.utilisation), unit="USD",
        certainty="derived",
    )  # fmt: skip


def _break_even(newest: Selection, rates: Mapping[str, _Rate]) -> Table:
    """Machines that ran the same row at the same size: the rate at which their calls cost the same."""
    groups: dict[tuple[object, ...], dict[str, Entry]] = {}
    for one in newest.entries:
        if one.row.time_s is not None:
            key = one.key
            groups.setdefault((key.target, key.implementation, key.params, key.precision), {})[one.hardware] = one
    records = []
    for _, found in sorted(groups.items(), key=lambda pair: str(pair[0])):
        for name, other in combinations(sorted(found), 2):
            here, there = found[name].row.time_s, found[other].row.time_s
            assert here is not None
            assert there is not None
            ratio = Figure(value=here.value / there.value, low=here.low / there.high, high=here.high / there.low,
                           certainty="derived")  # fmt: skip
            rate = rates[name]
            records.append(
                Record(
                    {
                        "row": found[name].name,
                        "class": name,
                        "other": other,
                        "ratio": ratio,
                        "rate": _hourly(rate),
                        "even": Figure(value=None, unit="USD", reason=rate.reason) if rate.usd_per_hour is None
                        else _in_usd(ratio, rate.usd_per_hour),
                        "paid": _hourly(rates[other]),
                    },
                    [found[name].origin, found[other].origin],
                )
            )  # fmt: skip
    columns = [
        Column("row", "target:row"), Column("class", "machine"), Column("other", "other machine"),
        Column("ratio", "rate of the other over it", "figure"), Column("rate", "an hour of the machine", "figure"),
        Column("even", "break-even of the other", "figure"), Column("paid", "an hour of the other", "figure"),
    ]  # fmt: skip
    return Table("break_even", "the rate of another machine at which calls cost the same", columns, records,
                 note="Below its break-even rate the other machine is cheaper.")  # fmt: skip


def _hourly(rate: _Rate) -> Figure:
    return Figure(value=rate.usd_per_hour, unit="USD", certainty="counted", reason=rate.reason or None)


def _in_usd(ratio: Figure, rate: float) -> Figure:
    assert ratio.value is not None
    assert ratio.low is not None
    assert ratio.high is not None
    return Figure(
        value=rate * ratio.value, low=rate * ratio.low, high=rate * ratio.high, unit="USD", certainty="derived"
    )


def _runs(newest: Selection, rates: Mapping[str, _Rate]) -> Table:
    """What it cost to measure: rate x seconds of each bundle's targets."""
    spent: dict[tuple[int, str], tuple[Measured, float]] = {}
    seen: set[tuple[int, str, str]] = set()
    for one in newest.entries:
        key = (id(one.run), one.hardware)
        if (*key, one.result.target) in seen:
            continue
        seen.add((*key, one.result.target))
        run, seconds = spent.get(key, (one.run, 0.0))
        spent[key] = run, seconds + one.result.wall_s
    records = []
    for (_, hardware), (run, seconds) in spent.items():
        rate = rates[hardware]
        value = None if rate.usd_per_hour is None else cost.rental(rate.usd_per_hour, 1, seconds)
        records.append(
            Record(
                {
                    "bundle": Path(run.path).name,
                    "class": hardware,
                    "seconds": Figure(value=seconds, unit="s", certainty="counted"),
                    "run": Figure(value=value, unit="USD", certainty="derived", reason=rate.reason or None),
                },
                [Origin(run.id)],
            )
        )
    columns = [
        Column("bundle", "bundle"), Column("class", "kind of machine"), Column("seconds", "measured for", "figure"),
        Column("run", "USD/run", "figure"),
    ]  # fmt: skip
    return Table("runs", "cost of the runs themselves", columns, records)


def _summary(priced: Sequence[_Priced], rates: Mapping[str, _Rate], book: Book | None) -> list[str]:
    without = sorted(name for name, rate in rates.items() if rate.usd_per_hour is None)
    known = len(rates) - len(without)
    on = f"{plural('row', len(priced))} on {plural('kind', len(rates))} of machine"
    if book is None:
        return [f"{on}."]
    told = [f"{on}, {known} with a price."]
    if without:
        told.append(f"No price in {book.file} for: {', '.join(without)}. Add one: aiperf prices add")
    return told


def _assumptions(options: Options, rates: Mapping[str, _Rate]) -> list[str]:
    told = [f"utilisation {units.percent(options.utilisation)}: this share of the paid time is used"]
    if options.own_price is not None:
        told.append(
            f"own hardware: {options.own_price:g} USD a GPU, {options.residual:g} USD left after {options.life:g} "
            f"years, {options.overhead:g} USD a year beside"
        )
    if options.tariff is not None:
        told.append(
            f"electricity: {options.tariff:g} USD for a kWh, PUE {options.pue:g}, gross energy of the device alone"
        )
    for name, rate in sorted(rates.items()):
        if rate.price is not None:
            one = rate.price
            when = f"of {one.date}, {one.source}" if one.date else "without date and source"
            more = f", {one.exchanged}" if one.exchanged else ""
            told.append(f"{name}: {rate.usd_per_hour:g} USD an hour, by '{one.name}' {when}{more}")
    return told


def _drawings(priced: Sequence[_Priced], message: str) -> list[Drawing]:
    series: dict[str, list[Point]] = {}
    for one in priced:
        time = one.entry.row.time_s
        if time is not None and one.call.value is not None:
            point = Point(label=one.entry.name, x=_scaled(time, 1.0, "s"), y=one.call, origin=one.entry.origin)
            series.setdefault(one.entry.hardware, []).append(point)
    if not series:
        return []
    return [
        Drawing(
            name="cost", title="Cost of a call against its time", kind="scatter", message=message,
            x=Axis(title="time of a call; less is better", unit="s", log=True),
            y=Axis(title="dollars of a call; less is better", unit="USD", log=True),
            series=[Series(name=name, points=points) for name, points in sorted(series.items())],
        )
    ]  # fmt: skip
