"""The use of the time of a trace: work and waits of devices, several ranks, the critical path, memory."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from attrs import asdict, define, field, frozen

from aiperf_core import units
from aiperf_core.analysis_options import option, takes_files
from aiperf_core.errors import AiperfError, UsageError
from aiperf_core.names import words
from aiperf_core.report.result import Axis, Drawing, LeftOut, Origin, Result, Source, Table
from aiperf_traces import breakdown, export, memory, pieces, ranks, reading, report, totals, windows
from aiperf_traces.breakdown import Breakdown
from aiperf_traces.critical import MOST_NODES, SHORT_GAP, WORDS, critical_path
from aiperf_traces.model import NONE, Ints, Trace
from aiperf_traces.ranks import Clocks, Collectives
from aiperf_traces.report import NS, Part
from aiperf_traces.totals import Totals
from aiperf_traces.windows import Window

_FACTS = {
    "backwards": "{} slices end before they begin; they were left out.",
    "damaged": "{} events are incomplete or no events; they were left out.",
    "without end": "{} slices have no end; they were left out.",
    "overlapping": "{} slices begin before the one before them on their stream has ended; their union counts.",
    "further names": "The names of {} slices are not kept apart: there are too many names.",
}


@frozen
class Options:
    """Options of the analysis of traces."""

    window: str = option(
        windows.AUTO,
        "What counts: 'steps' of the profiler, 'whole', or the name of a range or annotation, with * for any text. "
        "'auto' takes steps where there are any.",
        metavar="NAME",
    )
    memory: bool = option(False, "Add the peak of memory, what was alive then, and the growth a window.")
    top: int = option(12, "Rows of the tables of work.")
    small: int = option(65536, "The largest copy that counts as small.", metavar="BYTES")
    picture: str = option("timeline", "The main picture.", choices=("timeline", "flame"))
    export: Path | None = option(None, "Write the windows as a trace for https://ui.perfetto.dev.", metavar="FILE.json")
    most_bytes: int = option(reading.MOST_BYTES, "The largest trace, unpacked.", metavar="BYTES")


@define
class _Draft:
    """The parts of the result so far."""

    summary: list[str] = field(factory=list)
    tables: list[Table] = field(factory=list)
    assumptions: list[str] = field(factory=list)
    left_out: list[LeftOut] = field(factory=list)
    details: dict[str, object] = field(factory=dict)


@takes_files
def analyze(files: list[Path], options: Options) -> Result:
    """Say where the time of traces goes: one trace, or one of each rank.

    Reads traces of torch.profiler (.json, .json.gz), databases that nsys exports (.sqlite), and folders of profiles.
    Times of devices are unions of intervals, so that work that runs at once counts once.
    """
    if options.top < 1:
        raise UsageError(f"--top takes a whole number from 1 on; got {options.top}.")
    if options.export is not None:
        export.check(options.export)
    traces = reading.read(files, options.most_bytes)
    chosen = [windows.of(trace, options.window) for trace in traces]
    draft = _Draft()
    parts = _parts(traces, chosen, options.small)
    collectives, clocks = _ranks(traces, parts, draft)
    offsets = _offsets(collectives, clocks)
    every = [window for one in chosen for window in one]
    if parts:
        _devices(parts, options, draft)
        summed = totals.of_devices(traces[0], [one.device for one in parts if one.trace is traces[0]], chosen[0])
    else:
        summed = totals.of_host(traces[0], chosen[0])
        draft.summary.append(
            "The trace has no work of a GPU, so there is no breakdown; the operators of the host are listed. Record "
            "with ProfilerActivity.CUDA, or with nsys --trace=cuda,nvtx."
        )
    origins = [Origin(trace.path) for trace in traces]
    whose = f" of rank {traces[0].ranks[0]}" if len(traces) > 1 else ""
    draft.tables.append(report.work_table(summed, options.top, origins[:1], whose))
    if parts:
        draft.tables += [report.launches_table(parts), report.sequences_table(parts[0], 5)]
        shown = _path(traces, chosen, collectives, clocks, options, draft)
    else:
        shown = [_middle(one) for one in chosen if one]
    if options.memory:
        _memory(traces[0], chosen[0], options.top, draft)
    if parts and len(every) > len(parts):
        draft.tables.append(report.windows_table(parts))
    if options.export is not None:
        count = export.write(traces, every, offsets, options.export)
        draft.summary.append(
            f"{count:,} events were written to '{options.export}'; open it in https://ui.perfetto.dev."
        )
    _say(traces, draft)
    return Result(
        analysis="trace",
        title=f"Trace of {len(traces)} ranks" if len(traces) > 1 else f"Trace '{words(Path(traces[0].path).name)}'",
        summary=draft.summary,
        options={**asdict(options), "export": str(options.export) if options.export else None},
        tables=draft.tables,
        drawings=_drawings(traces, shown, offsets, summed, options.picture),
        assumptions=draft.assumptions,
        left_out=draft.left_out,
        sources=[Source(trace.path, trace.path, trace.created, trace.hardware) for trace in traces],
        details=draft.details,
    )


def _parts(traces: Sequence[Trace], chosen: Sequence[list[Window]], small: int) -> list[Part]:
    """The devices of all traces; without a number of the device where each rank has one."""
    pairs = [
        (trace, device, [window for window in own if window.rank == device.rank])
        for trace, own in zip(traces, chosen, strict=True)
        for device in breakdown.devices_of(trace)
    ]
    several = len({device.rank for _, device, _ in pairs}) < len(pairs)
    parts = []
    for trace, device, own in pairs:
        name = f"rank {device.rank}, GPU {device.device}" if several else f"rank {device.rank}"
        if len(traces) == 1 and len(trace.ranks) == 1:
            name = f"GPU {device.device}"
        figures = breakdown.launch_figures(trace, device, own, small)
        parts.append(Part(trace, device, own, figures, name, breakdown.total(device, own)))
    return parts


def _devices(parts: Sequence[Part], options: Options, draft: _Draft) -> None:
    """The breakdown of the devices."""
    draft.tables.insert(0, report.breakdown_table(parts))
    whole = sum((one.total for one in parts), Breakdown())
    if whole.window:
        shares = {
            "compute": whole.compute,
            "exposed communication": whole.communication,
            "exposed copies": whole.copies,
            "idle": whole.idle,
        }
        text = ", ".join(f"{name} {100 * time / whole.window:.1f} %" for name, time in shares.items())
        count = max(len(one.windows) for one in parts)
        draft.summary.append(f"{units.plural('device', len(parts))}, {units.plural('window', count)}: {text}.")
    reasons = {"host-bound": whole.host_bound, "waiting": whole.waiting, "of unknown reason": whole.unknown}
    if whole.idle and all(one.clocks_agree for one in parts):
        name, time = max(reasons.items(), key=lambda pair: pair[1])
        draft.summary.append(f"{100 * time / whole.idle:.1f} % of the idle time is {name}.")
    draft.assumptions.append("Work counts in the window in which it runs, not in that in which it was launched.")
    resolution = max(one.trace.resolution for one in parts)
    if resolution > 1:
        draft.assumptions.append(f"The times of the file are rounded to about {resolution} ns.")


def _ranks(traces: Sequence[Trace], parts: Sequence[Part], draft: _Draft) -> tuple[Collectives | None, Clocks | None]:
    """Collectives, clocks and stragglers, where several devices communicate."""
    world = max((trace.world or 0 for trace in traces), default=0)
    present = {rank for trace in traces for rank in trace.ranks}
    missing = sorted(set(range(world)) - present)
    draft.left_out += [
        LeftOut(f"rank {rank}", "", f"no trace was given of it; the job has {world} ranks") for rank in missing
    ]
    members = [(one.trace, one.device) for one in parts]
    if len(members) < 2:
        return None, None
    matched = ranks.match(members)
    if not len(matched.rows):
        draft.summary.append(
            "The ranks share no collective, so their clocks were not aligned, and no rank is called late."
        )
        return None, None
    clocks = ranks.align(matched)
    arrivals = ranks.arrivals(matched, clocks)
    steps, count = _steps(matched, parts)
    late = ranks.straggler(matched, arrivals, steps, count)
    origins = [one.origins for one in parts]
    names = [one.name for one in parts]
    draft.tables.append(report.ranks_table(names, matched, clocks, arrivals, late, origins))
    draft.tables.append(report.collectives_table(matched, arrivals, [one for part in origins for one in part]))
    draft.assumptions.append(
        f"Clocks are aligned by the common ends of {clocks.used:,} collectives; 95 % of the ends differ by at most "
        f"{clocks.skew * NS * 1e6:.3g} us afterwards."
        if clocks.used
        else "No collective ends at once on all ranks, so clocks are as in the traces, and no rank is called late."
    )
    if matched.unmatched:
        draft.left_out.append(
            LeftOut(f"{matched.unmatched:,} collectives", "", "only one of the given ranks took part in them")
        )
    draft.details["clock_offsets_ns"] = dict(zip(names, clocks.offset.tolist(), strict=True))
    draft.details["residual_skew_ns"] = clocks.skew
    place, times = late.most()
    if place != NONE and 2 * times > count and clocks.used:
        held = int(late.held[late.lasts == place].sum()) / max(times, 1)
        draft.summary.append(
            f"{names[place]} is the straggler: it holds up the others in {times} of {count} windows, by "
            f"{held * NS * 1e6:.4g} us in the mean.{_longer(parts, place)}"
        )
        draft.details["straggler"] = names[place]
    else:
        draft.summary.append(f"No rank is last in most of the {count} windows.")
        draft.details["straggler"] = None
    return matched, clocks


def _steps(matched: Collectives, parts: Sequence[Part]) -> tuple[Ints, int]:
    """The window of each collective, by its number on the first rank that took part; and the number of windows."""
    steps = np.full(len(matched.rows), NONE, dtype=np.int64)
    for place, part in enumerate(parts):
        index = windows.places(part.windows, matched.start[:, place])
        inside = (steps == NONE) & matched.took_part[:, place] & (index != NONE)
        steps[inside] = index[inside]
    return steps, max((len(part.windows) for part in parts), default=0)


def _longer(parts: Sequence[Part], place: int) -> str:
    """A sentence about the work that takes longer on a rank than on the median of the others, a window."""
    sums = [totals.of_devices(one.trace, [one.device], one.windows) for one in parts]
    times = [one.total for one in parts]
    others = [index for index in range(len(parts)) if index != place]

    def more(of_each: Sequence[float]) -> float:
        return of_each[place] - float(np.median([of_each[index] for index in others]))

    counts = [max(one.windows, 1) for one in sums]
    causes = {
        "idle and host-bound": more([one.host_bound / count for one, count in zip(times, counts, strict=True)]),
        "waiting": more([one.waiting / count for one, count in zip(times, counts, strict=True)]),
    }
    for key in {key for one in sums for key in one.pieces if key[0] != "communication"}:
        each = [
            one.pieces[key].alone / count if key in one.pieces else 0.0 for one, count in zip(sums, counts, strict=True)
        ]
        name = f"in {_short(words(key[1]))}"
        causes[name] = max(causes.get(name, 0.0), more(each))
    longest = [pair for pair in sorted(causes.items(), key=lambda pair: -pair[1]) if pair[1] > 0][:3]
    if not longest:
        return " Nothing on its device takes longer than on the others."
    text = ", ".join(f"{name} {time * NS * 1e6:+.4g} us" for name, time in longest)
    return f" Against the median of the others, a window, it is longer: {text}."


def _short(name: str, most: int = 70) -> str:
    return name if len(name) <= most else f"{name[: most - 1]}…"


def _offsets(collectives: Collectives | None, clocks: Clocks | None) -> dict[int, int]:
    if collectives is None or clocks is None:
        return {}
    return {member[0]: int(offset) for member, offset in zip(collectives.members, clocks.offset, strict=True)}


def _middle(own: Sequence[Window]) -> Window:
    """The window of median length; of two the longer."""
    return sorted(own, key=lambda window: window.length)[len(own) // 2]


def _path(
    traces: Sequence[Trace],
    chosen: Sequence[list[Window]],
    collectives: Collectives | None,
    clocks: Clocks | None,
    options: Options,
    draft: _Draft,
) -> list[Window]:
    """The critical path of the window of median length; returns that window of each rank."""
    place = chosen[0].index(_middle(chosen[0]))
    name = chosen[0][place].name
    shown = [
        next((window for window in own if window.name == name), None) if len(own) != len(chosen[0]) else own[place]
        for own in chosen
    ]
    there = [(trace, window) for trace, window in zip(traces, shown, strict=True) if window is not None]
    path = critical_path([one for one, _ in there], [one for _, one in there], collectives, clocks)
    if path is None:
        draft.left_out.append(
            LeftOut("critical path", "", f"the window has over {MOST_NODES:,} moments; choose a shorter --window")
        )
        return [window for _, window in there]
    names = [(trace, window.rank) for trace, window in there]
    draft.tables += report.critical_tables(path, names, options.top)
    cause, time = max(path.causes.items(), key=lambda pair: pair[1])
    if path.window:
        share, least = 100 * time / path.window, path.without[cause] * NS * 1e3
        draft.summary.append(
            f"Critical path of the window '{words(name)}': {share:.1f} % {WORDS[cause]}. Without it the window would "
            f"take at least {least:.4g} of {path.window * NS * 1e3:.4g} ms."
        )
    draft.assumptions.append(
        f"The critical path counts gaps of at most {SHORT_GAP / 1000:g} us between kernels as delays. "
        + (
            "Waits of streams for events are those that the trace records."
            if path.waits_known
            else "The trace records no waits of streams for events, so they are no part of it."
        )
    )
    draft.details["critical_path"] = {
        "window_ns": path.window,
        "length_ns": path.length,
        "causes_ns": {WORDS[one]: time for one, time in path.causes.items()},
        "without_ns": {WORDS[one]: time for one, time in path.without.items()},
    }
    return [window for _, window in there]


def _memory(trace: Trace, own: Sequence[Window], top: int, draft: _Draft) -> None:
    usage = memory.usage(trace, own)
    if not usage:
        raise AiperfError(
            f"'{trace.path}' has no events of memory. Record with torch.profiler.profile(profile_memory=True), or with "
            f"nsys profile --cuda-memory-usage=true."
        )
    draft.tables += report.memory_tables(usage, top, [Origin(trace.path)])


def _say(traces: Sequence[Trace], draft: _Draft) -> None:
    """Notes and counts of the readers."""
    for trace in traces:
        draft.summary += trace.notes
        for fact, text in _FACTS.items():
            if trace.facts.get(fact):
                draft.left_out.append(LeftOut(Path(trace.path).name, "", text.format(f"{trace.facts[fact]:,}")))
    draft.details["facts"] = {trace.path: trace.facts for trace in traces}


def _drawings(
    traces: Sequence[Trace], shown: Sequence[Window], offsets: dict[int, int], summed: Totals, first: str
) -> list[Drawing]:
    lanes = pieces.timeline(traces, shown, offsets)
    name = words(shown[0].name) if shown else ""
    what = "work of devices under its operators" if summed.on_device else "operators"
    drawings = [
        Drawing(
            name="timeline",
            title=f"Window '{name}'",
            kind="timeline",
            message=f"Timeline of the window '{name}' with {len(lanes):,} pieces.",
            x=Axis(title="time since the begin of the window", unit="s"),
            y=Axis(title="stream or thread"),
            spans=lanes,
        ),
        Drawing(
            name="flame",
            title=f"Time a window: {what}",
            kind="flame",
            message=f"Flame graph of {len(summed.pieces):,} pieces: {what}.",
            x=Axis(title="time a window", unit="s"),
            y=Axis(title="depth"),
            spans=pieces.flame(summed),
        ),
    ]
    return drawings if first == "timeline" else drawings[::-1]
