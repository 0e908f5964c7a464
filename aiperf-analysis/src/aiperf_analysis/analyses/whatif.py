"""What fits limits, and what times would be on another machine, at another clock or another size."""

import json
import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from attrs import asdict, evolve, frozen

from aiperf_analysis.analyses.curves import parameters, points_over
from aiperf_analysis.analyses.held_out import KINDS, Held, clock_of, held_out
from aiperf_analysis.models import amounts, parts
from aiperf_analysis.models.parts import Refused
from aiperf_analysis.models.sizes import at_size, largest_size
from aiperf_analysis.selection import Entry, Selection, required
from aiperf_core.analysis_options import option
from aiperf_core.devices.ceiling_figures import REQUIRED, as_fields, of_datasheet
from aiperf_core.errors import UsageError
from aiperf_core.measurements import Ceilings
from aiperf_core.names import words
from aiperf_core.report.result import (
    Axis,
    Cell,
    Column,
    Drawing,
    Figure,
    Point,
    Record,
    Result,
    Series,
    Table,
    counted,
    figure,
)
from aiperf_core.results import structure
from aiperf_core.results.jsontext import JsonError
from aiperf_core.stats.threshold import MET, MISSED, NOT_MEASURED, UNCLEAR, Threshold
from aiperf_core.sweep import base_name
from aiperf_core.targets import nearest
from aiperf_core.units import number
from aiperf_core.units import size as shown_bytes

FITS, MAYBE, FAILS, UNKNOWN = "FITS", "MAYBE", "FAILS", "NOT MEASURED"
# Held-out points of a kind from which a prediction of that kind is called validated.
LEAST_HELD_OUT = 5
MOST_BYTES = 1 << 24  # of a machine's document
DATASHEET = "aiperf-datasheet"
ACCEPTED = "accepted is a document of aiperf probe --json or aiperf ceilings --json"


@frozen
class Options:
    """Options of `whatif`."""

    vram: float | None = option(
        None, "The most memory, such as 24GiB: inputs, outputs and peak.", metavar="BYTES", convert=amounts.bytes_of
    )
    latency: float | None = option(
        None, "The longest time of a call, such as 100ms.", metavar="TIME", convert=amounts.seconds_of
    )
    throughput: float | None = option(
        None, "The least tokens (else calls) a second, such as 5000/s.", metavar="RATE", convert=amounts.rate_of
    )
    machine: Path | None = option(  # it is a field
        None, "Times on the machine of this document, from aiperf probe --json.", metavar="FILE"
    )
    clock: str = option(
        "",
        "Times at another clock of the processor: 1500MHz or x0.8.",
        metavar="CLOCK",
        convert=amounts.clock_or_factor,
    )
    bandwidth: str = option(
        "", "Times at another rate of the memory: 3TB/s or x1.5.", metavar="RATE", convert=amounts.bandwidth_or_factor
    )
    memory: float | None = option(
        None, "The largest size that fits this memory, and its time.", metavar="BYTES", convert=amounts.bytes_of
    )
    size: str = option("", "Times at another size, such as n=1e8.", metavar="NAME=VALUE", convert=amounts.size_of)
    extrapolate: bool = option(False, "Also answer beyond 2 times the measured sizes.")
    validate: bool = option(False, "Predict measured points from the others, and tell how often the range holds.")


@frozen
class Answer:
    """The time of a row in a scenario.

    time: the range; without a value where it was refused, with the reason.
    bound: what bounds the time then. size: the size of the answer, where the question is for the size.
    """

    time: Figure
    bound: str = ""
    size: Figure | None = None


def analyze(selection: Selection, options: Options) -> Result:
    """Tell what fits limits (--vram, --latency, --throughput), or predict times in a scenario.

    The bad end of an interval must meet each limit; a row whose interval straddles a limit is MAYBE. Scenarios:
    --machine, --clock, --bandwidth, --memory, --size. Of a time, memory, arithmetic, links, disk and launches scale
    with their ceilings. What no ceiling explains scales too, or stays: the answer is the range between. Its first line
    says how often such ranges hold for measurements that were held out (--validate shows each), or NOT VALIDATED.
    """
    newest = selection.latest()
    required(newest.entries, newest)
    kind = _scenario(options)
    limited = any(one is not None for one in (options.vram, options.latency, options.throughput))
    if kind is None and not limited and not options.validate:
        raise UsageError(
            "whatif needs a question. Limits: --vram 24GiB, --latency 100ms, --throughput 5000/s. Scenarios: --machine "
            "FILE, --clock x0.8, --bandwidth x1.5, --memory 80GiB, --size n=1e8. Or --validate."
        )
    held = held_out(selection) if kind or options.validate else []
    validation = _validated(kind, held) if kind else ""
    answers = _answers(newest, options, kind) if kind else {}
    tables = [_answer_table(answers, options)] if kind else []
    if limited:
        tables.insert(0, _limit_table(newest.entries, answers if kind else None, options))
    if options.validate:
        tables += [_validation_table(held), _held_table(held)]
    question = _question(options)
    return Result(
        analysis="whatif",
        title=f"What if: {question}. {validation}" if kind else f"What if: {question or 'validation'}",
        summary=_summary(tables[0], limited=limited, answers=answers, held=held, options=options),
        options={name: str(one) if isinstance(one, Path) else one for name, one in asdict(options).items()},
        tables=tables,
        drawings=_drawings(answers, question),
        assumptions=_assumptions(options, kind, limited=limited),
        left_out=newest.left_out,
        sources=newest.sources,
        details={"validation": validation},
    )


def _scenario(options: Options) -> str | None:
    """The kind of question; None for limits alone. Raises UsageError for questions that contradict each other."""
    given = [name for name in ("machine", "clock", "bandwidth", "memory", "size") if getattr(options, name)]
    together = {"clock", "bandwidth"}
    if len(given) > 1 and not set(given) <= together:
        names = " and ".join(f"--{name}" for name in given)
        raise UsageError(
            f"{names} contradict each other: a machine has its own clock and memory, and a size is asked for or "
            "follows from the memory. Ask one after the other; --clock and --bandwidth go together."
        )
    if not given:
        return None
    if given[0] in ("memory", "size"):
        return "size"
    # No run has another memory alone, so nothing can be held out for it.
    return "bandwidth" if "bandwidth" in given else given[0]


def _question(options: Options) -> str:
    told = []
    if options.vram:
        told.append(f"memory up to {shown_bytes(options.vram)}")
    if options.latency:
        told.append(f"a call within {options.latency:g} s")
    if options.throughput:
        told.append(f"at least {options.throughput:g}/s")
    if options.machine:
        told.append(f"the machine of {options.machine.name}")
    told += [f"{name} {getattr(options, name)}" for name in ("clock", "bandwidth") if getattr(options, name)]
    if options.memory:
        told.append(f"{shown_bytes(options.memory)} of memory")
    return ", ".join([*told, *([options.size] if options.size else [])])


# --- scenarios


def _answers(selection: Selection, options: Options, kind: str) -> dict[str, tuple[Entry, Answer]]:
    """The answer of each row, by a name that is its own."""
    if kind == "size":
        return dict(_at_sizes(selection, options))
    machine = _machines(options.machine, selection) if options.machine else None
    found: dict[str, tuple[Entry, Answer]] = {}
    for one in selection.entries:
        try:
            answer = _on_machine(one, _others(one, machine, options))
        except Refused as refusal:
            answer = Answer(Figure(value=None, unit="s", certainty="estimated", reason=str(refusal)))
        found[f"{one.name} {one.run.id}"] = one, answer
    if all(one.ceilings is None for one in selection.entries):
        raise UsageError(
            "no bundle has ceilings, which a prediction needs. Bundles get them from the machine they were measured "
            "on: aiperf ceilings, then aiperf run"
        )
    return found


def _others(entry: Entry, machine: Callable[[Entry], list[Ceilings]] | None, options: Options) -> list[Ceilings]:
    """The ceilings of the scenario: one, or the least and the largest of a datasheet's."""
    now = _ceilings(entry)
    if machine is not None:
        return machine(entry)
    clock = amounts.factor_of(options.clock, clock_of(entry)) if options.clock else 1.0
    if clock is None:
        raise Refused("its clock was not measured; give a factor, such as --clock x0.8")
    memory = amounts.factor_of(options.bandwidth, now.copy_bytes_per_s) if options.bandwidth else 1.0
    return [parts.scaled(now, clock=clock, memory=memory or 1.0)]


def _ceilings(entry: Entry) -> Ceilings:
    if entry.ceilings is None:
        raise Refused(f"its bundle has no ceilings of '{entry.result.device}'")
    return entry.ceilings


def _on_machine(entry: Entry, others: Sequence[Ceilings]) -> Answer:
    ends = [parts.moved(entry.result, entry.row, _ceilings(entry), one) for one in others]
    low, high = min(one[0] for one in ends), max(one[1] for one in ends)
    bounds = sorted({one[2] for one in ends})
    return Answer(_range(low, high, entry), " or ".join(bounds))


def _range(low: float, high: float, *entries: Entry) -> Figure:
    """A range of times, widened by the intervals of the rows that it comes from."""
    down = min(one.row.time_s.low / one.row.time_s.value for one in entries if one.row.time_s)
    up = max(one.row.time_s.high / one.row.time_s.value for one in entries if one.row.time_s)
    return Figure(value=math.sqrt(low * high), low=low * down, high=high * up, unit="s", certainty="estimated")


def _machines(path: Path, selection: Selection) -> Callable[[Entry], list[Ceilings]]:
    """The ceilings of a machine's document by row. Raises UsageError for a file that is none."""
    document = _document(path)
    if document.get("kind") == DATASHEET:
        sheets = _sheet_ceilings(path, document, selection)
        by_device = {str(document.get("device", "cuda")): sheets}
    else:
        by_device = {device: [one] for device, one in _measured_ceilings(path, document).items()}

    def of(entry: Entry) -> list[Ceilings]:
        found = by_device.get(entry.result.device)
        if not found:
            raise Refused(f"the document has no ceilings of '{entry.result.device}'")
        return found

    return of


def _document(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise UsageError(
            f"cannot read --machine '{words(str(path))}': {error.strerror or error}; {ACCEPTED}."
        ) from None
    try:
        found = json.loads(data) if len(data) <= MOST_BYTES else None
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise UsageError(f"--machine '{words(str(path))}' is no JSON object of at most 16 MiB; {ACCEPTED}.")
    return found


def _measured_ceilings(path: Path, document: dict[str, Any]) -> dict[str, Ceilings]:
    """The ceilings by device: of a machine's document, or of the ceilings of one device."""
    told = document.get("ceilings")
    if not isinstance(told, dict) or not told:
        raise UsageError(f"--machine '{words(str(path))}' has no ceilings; {ACCEPTED}.")
    # `aiperf ceilings --json` has those of a single device, which is a GPU where it has the clock of one.
    single = "copy_bytes_per_s" in told
    each = {"cuda" if told.get("sm_clock_hz") or told.get("launch_s") else "cpu": told} if single else told
    try:
        return {str(device): structure.structure(one, Ceilings) for device, one in each.items()}
    except JsonError as error:
        raise UsageError(f"--machine '{words(str(path))}' has ceilings that do not fit: {error}; {ACCEPTED}.") from None


def _sheet_ceilings(path: Path, document: dict[str, Any], selection: Selection) -> list[Ceilings]:
    """The least and the largest ceilings of a datasheet: its figures times the shares that measured machines reach."""
    told = document.get("figures")
    numbers = isinstance(told, dict) and all(
        isinstance(one, int | float) and not isinstance(one, bool) and 0 < one < math.inf for one in told.values()
    )
    if not numbers or not told or not told.keys() >= {"copy_bytes_per_s"} or not isinstance(document.get("name"), str):
        raise UsageError(
            f"--machine '{words(str(path))}' is a datasheet without 'name' and positive 'figures', 'copy_bytes_per_s' "
            'among them, such as {"kind": "aiperf-datasheet", "device": "cuda", "name": "...", "figures": '
            '{"copy_bytes_per_s": 8e12, "flop_per_s.bf16": 2.2e15}}'
        )
    told = {**dict.fromkeys(REQUIRED, told["copy_bytes_per_s"]), **told}
    shares: dict[str, list[float]] = {}
    for one in selection.entries:
        for key, share in of_datasheet(one.ceilings).items() if one.ceilings else ():
            shares.setdefault(key, []).append(share)
    lacking = sorted(set(REQUIRED) - shares.keys())
    if lacking:
        raise UsageError(
            "a datasheet says what a machine could reach, and no selected bundle tells which share of it is reached "
            f"for {', '.join(lacking)}. Select bundles of a machine with a known datasheet, or measure: "
            "aiperf probe --json"
        )
    name = f"{document['name']} (datasheet)"
    ends = []
    for pick in (min, max):
        figures = {key: float(value) * pick(shares[key]) for key, value in told.items() if key in shares}
        try:
            ends.append(Ceilings(device=name, measured="", **as_fields(figures)))
        except TypeError as error:
            raise UsageError(
                f"--machine '{words(str(path))}' has a figure that ceilings do not have: {error}"
            ) from None
    return ends


def _at_sizes(selection: Selection, options: Options) -> Iterator[tuple[str, tuple[Entry, Answer]]]:
    """The answers at another size, or at the largest that fits a memory."""
    name, _, value = options.size.partition("=")
    swept = [name] if name else parameters(selection)
    if not any(points_over(selection, over) for over in swept):
        known = sorted({name for one in selection.entries for name in one.result.problem.params})
        what = f"no selected target has a parameter '{name}'" if name else "no parameter has two values"
        raise UsageError(
            f"{what}.{nearest(name, known)} Parameters here: {', '.join(map(words, known)) or 'none'}. Another size is "
            "told from a sweep: aiperf run TARGET --set n=1e5,1e6,1e7"
        )
    for over in swept:
        for found in points_over(selection, over).values():
            places = sorted(found)
            entries = [found[at] for at in places]
            last = entries[-1]
            try:
                size = float(value) if value else _fitting(places, entries, options.memory or 0.0)
                times = [one.row.time_s.value for one in entries if one.row.time_s]
                there = at_size(places, times, size, extrapolate=options.extrapolate)
                sources = [entries[index] for index in there.used]
                answer = Answer(_range(there.low, there.high, *sources), size=_size(size, over, estimated=not value))
            except Refused as refusal:
                answer = Answer(Figure(value=None, unit="s", certainty="estimated", reason=str(refusal)))
            yield f"{last.name} {last.run.id} {over}", (last, answer)


def _size(size: float, over: str, *, estimated: bool) -> Figure:
    return Figure(value=size, unit=over, certainty="estimated" if estimated else "counted")


def _fitting(places: Sequence[float], entries: Sequence[Entry], memory: float) -> float:
    needs = [_need(one) for one in entries]
    if any(one is None for one in needs):
        raise Refused("its memory was not measured")
    return largest_size(places, [one for one in needs if one is not None], memory)


def _need(entry: Entry) -> float | None:
    """The memory that a row needs, in bytes: its inputs, its outputs, and what it allocates at most."""
    peak = entry.row.memory.most_bytes if entry.row.memory else None
    problem = entry.result.problem
    return None if peak is None else float(problem.input_bytes + problem.output_bytes + peak)


def _answer_table(answers: dict[str, tuple[Entry, Answer]], options: Options) -> Table:
    by_size = bool(options.size or options.memory)
    columns = [Column("row", "implementation"), Column("class", "kind of machine")]
    columns += [Column("size", "size", "figure")] if by_size else [Column("now", "time now", "figure")]
    columns += [Column("then", "time there" if by_size else "time then", "figure")]
    columns += [] if by_size else [Column("gain", "now / then", "figure"), Column("bound", "bound then")]
    records = []
    for entry, answer in answers.values():
        gain = Figure(value=None, certainty="estimated", reason=answer.time.reason or "an interval reaches 0")
        now, then = entry.row.time_s, answer.time
        if now is not None and then.value and then.low and then.high and not by_size:
            # The interval of the row is in the range already.
            gain = Figure(value=now.value / then.value, low=now.value / then.high, high=now.value / then.low,
                          certainty="estimated")  # fmt: skip
        cells: dict[str, Cell] = {
            "row": f"{base_name(entry.result.target)}:{entry.row.name}" if by_size else entry.name,
            "class": entry.hardware,
            "now": figure(now, "s"),
            "size": answer.size,
            "bound": answer.bound or None,
            "then": then,
            "gain": gain,
        }
        kept = {column.key for column in columns}
        records.append(Record({key: cell for key, cell in cells.items() if key in kept}, [entry.origin]))
    return Table("answers", "estimated times", columns, records)


# --- limits


def _limit_table(entries: Sequence[Entry], answers: dict[str, tuple[Entry, Answer]] | None, options: Options) -> Table:
    """Each row against each limit; in a scenario by the estimated times."""
    rows = [(one, figure(one.row.time_s, "s")) for one in entries]
    if answers is not None:
        rows = [(entry, answer.time) for entry, answer in answers.values()]
    columns = [
        Column("row", "implementation"),
        Column("class", "kind of machine"),
        Column("verdict", "verdict", "verdict"),
        Column("why", "because of"),
        Column("memory", "memory", "figure"),
        Column("latency", "time of a call", "figure"),
        Column("throughput", "a second", "figure"),
    ]
    records = []
    for entry, time in rows:
        p99 = entry.row.beside.get("latency_p99_s")
        latency = time if p99 is None or answers is not None else counted(p99, "s")
        memory, rate = counted(_need(entry), "B", "no memory was measured"), _rate(entry, time)
        if options.size or options.memory:
            memory = rate = Figure(value=None, reason="another size has other memory and other tokens")
        judged = {
            "memory": _judged(memory, options.vram, at_most=True),
            "time": _judged(latency, options.latency, at_most=True),
            "throughput": _judged(rate, options.throughput, at_most=False),
        }
        asked = {name: verdict for name, verdict in judged.items() if verdict is not None}
        worst = next(one for one in (FAILS, UNKNOWN, MAYBE, FITS) if one in asked.values())
        why = ", ".join(name for name, verdict in asked.items() if verdict == worst != FITS)
        records.append(
            Record(
                {
                    "row": entry.name,
                    "class": entry.hardware,
                    "verdict": worst,
                    "why": why or None,
                    "memory": memory,
                    "latency": latency,
                    "throughput": rate,
                },
                [entry.origin],
            )
        )
    order = (FITS, MAYBE, UNKNOWN, FAILS)
    records.sort(key=lambda one: order.index(str(one.cells["verdict"])))
    return Table("limits", "rows against the limits", columns, records)


def _rate(entry: Entry, time: Figure) -> Figure:
    """Tokens a second, or calls a second where no tokens are declared."""
    if time.value is None:
        return evolve(time, unit="1/s")
    amount = entry.result.problem.tokens or 1.0
    unit = "token/s" if entry.result.problem.tokens else "1/s"
    low = amount / time.high if time.high else None
    high = amount / time.low if time.low else None
    return Figure(value=amount / time.value, low=low, high=high, unit=unit, certainty=time.certainty)


def _judged(found: Figure, limit: float | None, *, at_most: bool) -> str | None:
    """Whether the bad end of an interval meets a limit; None where there is no limit."""
    if limit is None:
        return None
    outcome = Threshold("", "", "", limit, at_most).judge(found)
    return {MET: FITS, UNCLEAR: MAYBE, MISSED: FAILS, NOT_MEASURED: UNKNOWN}[outcome]


# --- validation


def _validated(kind: str, held: Sequence[Held]) -> str:
    """What held-out measurements say of predictions of a kind, for the first line."""
    own = [one for one in held if one.kind == kind]
    if len(own) < LEAST_HELD_OUT:
        return f"NOT VALIDATED: {len(own)} held-out points of kind '{kind}', {LEAST_HELD_OUT} are needed"
    inside = sum(one.inside for one in own)
    return (
        f"Validated on {len(own)} held-out points: {inside} lie in the range ({100 * inside / len(own):.0f} %), whose "
        f"ends are {number(median(one.width for one in own))}x apart"
    )


def _validation_table(held: Sequence[Held]) -> Table:
    columns = [
        Column("kind", "held out"),
        Column("verdict", "status", "verdict"),
        Column("count", "points", "figure"),
        Column("coverage", "within the range", "figure"),
        Column("error", "median error", "figure"),
        Column("width", "median high / low of the range", "figure"),
    ]
    records = []
    for kind in KINDS:
        own = [one for one in held if one.kind == kind]
        none = "no point of this kind could be held out"
        coverage = 100 * sum(one.inside for one in own) / len(own) if own else None
        error = 100 * median(one.error for one in own) if own else None
        width = median(one.width for one in own) if own else None
        records.append(
            Record(
                {
                    "kind": kind,
                    "verdict": "VALIDATED" if len(own) >= LEAST_HELD_OUT else "NOT VALIDATED",
                    "count": counted(len(own), "count"),
                    "coverage": counted(coverage, "%", none),
                    "error": counted(error, "%", none),
                    "width": counted(width, reason=none),
                }
            )
        )
    return Table("validation", "predictions of points that were held out", columns, records)


def _held_table(held: Sequence[Held]) -> Table:
    columns = [
        Column("point", "point"),
        Column("kind", "held out"),
        Column("verdict", "status", "verdict"),
        Column("predicted", "predicted", "figure"),
        Column("measured", "measured", "figure"),
    ]
    records = [
        Record(
            {
                "point": one.name,
                "kind": one.kind,
                "verdict": "inside" if one.inside else "OUTSIDE",
                "predicted": _range(one.low, one.high, *one.sources),
                "measured": figure(one.entry.row.time_s, "s"),
            },
            [one.entry.origin, *(source.origin for source in one.sources)],
        )
        for one in held
    ]
    return Table("held_out", "held-out points", columns, records)


# --- words and pictures


def _summary(
    first: Table, *, limited: bool, answers: dict[str, tuple[Entry, Answer]], held: Sequence[Held], options: Options
) -> list[str]:
    found = []
    if limited:
        verdicts = [str(one.cells["verdict"]) for one in first.records]
        told = ", ".join(f"{verdicts.count(one)} {one}" for one in (FITS, MAYBE, FAILS, UNKNOWN) if one in verdicts)
        found.append(f"{len(verdicts)} rows: {told}.")
    if answers:
        known = sum(answer.time.value is not None for _, answer in answers.values())
        found.append(f"Times of {known} of {len(answers)} rows are estimated; the others were refused with a reason.")
    if options.validate:
        inside = sum(one.inside for one in held)
        found.append(f"{len(held)} measured points were predicted from others; {inside} lie in their range.")
    return found


def _assumptions(options: Options, kind: str | None, *, limited: bool) -> list[str]:
    found = []
    if limited:
        found.append(
            "memory is that of inputs, outputs and the peak of the implementation; a driver's own memory is not in it"
        )
        found.append("throughput is that of a call after the other")
    if kind in ("machine", "clock", "bandwidth"):
        found.append(
            "memory, arithmetic, links and disk work at the same time, launches and a remainder come on top; the "
            "remainder scales with what bounds the time (one end of the range) or stays (the other end)"
        )
    if kind in ("clock", "bandwidth"):
        found.append("arithmetic and caches follow the clock of the processor; the memory follows --bandwidth alone")
    if kind == "size":
        found.append(
            "between sizes, the time bends to one side in log-log; beyond them its exponent changes at most as before"
        )
    if options.memory:
        found.append("memory grows as a power of the size between the last two sizes that fit")
    return found


def _drawings(answers: dict[str, tuple[Entry, Answer]], question: str) -> list[Drawing]:
    known = [(entry, answer) for entry, answer in answers.values() if answer.time.value is not None]
    if not known:
        return []
    series = []
    for name, times in (
        ("measured", [figure(entry.row.time_s, "s") for entry, _ in known]),
        ("estimated", [answer.time for _, answer in known]),
    ):
        points = [
            Point(label=entry.name, x=time, y=counted(float(index), "count"), origin=entry.origin)
            for index, ((entry, _), time) in enumerate(zip(known, times, strict=True))
        ]
        series.append(Series(name=name, points=points))
    return [
        Drawing(
            name="times",
            title=f"Times now and with {question}",
            kind="intervals",
            message=f"measured and estimated times of {len(known)} rows with {question}",
            x=Axis(title="time, less is better", unit="s", log=True),
            y=Axis(title="row", unit="count"),
            series=series,
        )
    ]
