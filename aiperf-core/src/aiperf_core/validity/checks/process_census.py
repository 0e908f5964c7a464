"""Activity of a worker between its calls, as the kernel and the driver show its process to the supervisor.

Most figures are compared with the baseline's: what its process does as well belongs to the harness or the machine.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from statistics import median
from typing import Any

from aiperf_core import units
from aiperf_core.measurements import Census
from aiperf_core.validity.check import Check, NotObserved, Seen, listed
from aiperf_core.validity.evidence import Evidence

# Fewer prove nothing.
MIN_CENSUSES = 3
# Processor time that may be used between two calls, beyond twice the baseline's: at most a small part of a call.
MOST_BUSY_S, LEAST_BUSY_S, BUSY_SHARE = 0.002, 0.0003, 0.25
# The part of the gaps in which a page came back from disk.
FAULTS_SHARE = 0.05
# A growth of the memory in swap that is no chance.
SWAPPED_BYTES = 1 << 20
# Page faults of the baseline in a sample count beyond the most of a sample after its own turn, multiplied by the first:
# more minor ones than the second. They are a finding from this share of the samples after turns of others, and two.
MORE_FAULTS, LEAST_MINOR_FAULTS, TAKEN_SHARE, LEAST_TAKEN = 1.25, 8, 0.25, 2
# The finding for which no speedup of untrusted code is believed.
BASELINE_FAULTS = "memory.baseline_page_faults"
_FIRST_SERVED = ("rr", "fifo", "deadline")


def look(evidence: Evidence) -> list[Seen] | NotObserved:
    """Find helper processes, work between the calls, privileges, pages from disk or of the baseline, and other GPUs."""
    census = evidence.census or []
    if len(census) < MIN_CENSUSES:
        return NotObserved(f"the process was observed {len(census)} times; {MIN_CENSUSES} are necessary")
    others = (evidence.baseline.census or []) if evidence.baseline else []
    found = _compare(census, others, evidence)
    if not found and len(census) >= 2 * MIN_CENSUSES:  # it may have begun late
        found = _compare(census[len(census) // 2 :], others[len(others) // 2 :], evidence)
    taken = _taken(evidence)
    return [*found, taken] if taken else found


def _compare(census: list[Census], others: list[Census], evidence: Evidence) -> list[Seen]:
    """Compare the censuses of a process with those of the baseline."""
    found = (
        _children(census, others),
        _busy(census, others, evidence),
        _priority(census, others),
        _pages(census, others),
        _gpus(census, others, evidence),
    )
    return [one for one in found if one is not None]


def _children(census: list[Census], others: list[Census]) -> Seen | None:
    share, usual = (_share(ones, lambda one: bool(one.children)) for ones in (census, others))
    if share <= 0.5 or usual > 0.5:
        return None
    most = max(one.children or 0 for one in census)
    often = f"{units.percent(share)} of {len(census)} observations"
    message = f"child processes were busy between calls, in {often} (up to {most})"
    return Seen("location.child_process", message, {"share": share, "baseline_share": usual, "most": most})


def _busy(census: list[Census], others: list[Census], evidence: Evidence) -> Seen | None:
    busy, usual = (_median(one.busy_s for one in ones) for ones in (census, others))
    limit = 2 * (usual or 0.0) + _floor_s(evidence)
    if busy is None or busy <= limit:
        return None
    threads, theirs = (_median(one.threads for one in ones) for ones in (census, others))
    more = threads is not None and theirs is not None and threads > theirs
    issue = "location.background_thread" if more else "location.work_between_calls"
    message = (
        f"the process used {busy * 1e3:.3g} ms of processor time between two calls, without any request; the "
        f"baseline's {(usual or 0.0) * 1e3:.3g} ms"
    )
    figures = {"busy_s": busy, "baseline_busy_s": usual, "limit_s": limit}
    return Seen(issue, message, {**figures, "threads": threads, "baseline_threads": theirs, "gaps": len(census)})


def _floor_s(evidence: Evidence) -> float:
    """The processor time that may be used between two calls, by the length of the baseline's calls."""
    call_s = _median(_call_times(evidence.baseline or evidence))
    return MOST_BUSY_S if call_s is None else min(MOST_BUSY_S, max(LEAST_BUSY_S, BUSY_SHARE * call_s))


def _call_times(evidence: Evidence) -> Iterable[float | None]:
    """By the supervisor's clock."""
    return (
        bracket_s / max(calls, 1)
        for bracket_s, calls in zip(evidence.samples.bracket_s, evidence.samples.calls, strict=False)
    )


def _priority(census: list[Census], others: list[Census]) -> Seen | None:
    # Without a baseline, the first census is the usual state.
    usual = others or census[:1]
    said: list[str] = []
    figures: dict[str, Any] = {}
    nice, least = (min((one.nice for one in ones if one.nice is not None), default=None) for ones in (census, usual))
    if nice is not None and least is not None and nice < least:
        said.append(f"its nice value is {nice}, not {least}")
        figures |= {"nice": nice, "baseline_nice": least}
    ours, theirs = ({one.scheduler for one in ones if one.scheduler in _FIRST_SERVED} for ones in (census, usual))
    if ours - theirs:
        said.append(f"it is scheduled before others ({', '.join(sorted(map(str, ours - theirs)))})")
        figures |= {"schedulers": sorted(map(str, ours))}
    added = _processors(census) - _processors(usual)
    if _processors(usual) and added:
        said.append(f"it added processors that the baseline does not have ({', '.join(map(str, sorted(added)))})")
        figures |= {"added_processors": sorted(added)}
    if not said:
        return None
    return Seen("environment.priority_elevation", f"the process raised its priority: {'; '.join(said)}", figures)


def _pages(census: list[Census], others: list[Census]) -> Seen | None:
    share, usual = (_share(ones, lambda one: bool(one.major_faults)) for ones in (census, others))
    swapped = [one.swapped_bytes for one in census if one.swapped_bytes is not None]
    grown = max(swapped, default=0) - (swapped[0] if swapped else 0)
    faulty = share > FAULTS_SHARE and share > 2 * usual
    figures = {
        "faults_share": share,
        "baseline_faults_share": usual,
        "swapped_bytes": max(swapped, default=None),
        "grown": grown,
    }
    if grown >= SWAPPED_BYTES or (faulty and max(swapped, default=0) > 0):
        most = max(swapped) / 2**20
        message = (
            f"memory was short: {most:.3g} MiB of the process in swap, {grown / 2**20:.3g} MiB more than at the start"
        )
        return Seen("memory.swap_interference", message, figures)
    if faulty:
        often = f"{units.percent(share)} of the gaps between calls; the baseline: {units.percent(usual)}"
        message = f"pages were read from disk in {often}"
        return Seen("memory.page_fault_timing", message, figures)
    return None


def _taken(evidence: Evidence) -> Seen | None:
    """Page faults of the baseline that come with the turns of others, whose code has taken pages from it."""
    faults = evidence.baseline.faults if evidence.baseline else []
    alone, beside = ([one for one in faults if one.after_itself is after] for after in (True, False))
    for kind, least in (("major", 0), ("minor", LEAST_MINOR_FAULTS)):
        usual = max((getattr(one, kind) for one in alone), default=None)
        if usual is None:
            continue
        more = [count for one in beside if (count := getattr(one, kind)) > MORE_FAULTS * usual + least]
        if len(more) >= max(LEAST_TAKEN, TAKEN_SHARE * len(beside)):
            message = (
                f"the baseline had {median(more):.0f} {kind} page faults in {len(more)} of {len(beside)} samples right "
                f"after turns of others, and at most {usual} after its own: it paid for pages that others took"
            )
            return Seen(BASELINE_FAULTS, message, {"kind": kind, "faults": median(more), "usual": usual})
    return None


def _gpus(census: list[Census], others: list[Census], evidence: Evidence) -> Seen | None:
    ours, theirs = ({gpu for one in ones for gpu in one.gpus or ()} for ones in (census, others))
    figures = {"gpus": sorted(ours), "baseline_gpus": sorted(theirs)}
    if theirs and ours and not ours & theirs:
        message = f"it works on {listed(sorted(ours))}, and the baseline on {listed(sorted(theirs))}"
        return Seen("environment.device_mismatch", message, figures)
    if len(ours - theirs) > (0 if theirs else evidence.world_size):
        given = listed(sorted(theirs)) if theirs else evidence.world_size
        message = f"it works on {listed(sorted(ours))}; the target was given {given}"
        return Seen("cuda.undeclared_multi_gpu", message, figures)
    return None


def _processors(census: list[Census]) -> set[int]:
    return {cpu for one in census for cpu in one.affinity or ()}


def _share(census: Sequence[Census], holds: Callable[[Census], bool]) -> float:
    return sum(map(holds, census)) / len(census) if census else 0.0


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None and math.isfinite(value)]
    return float(median(known)) if known else None


CHECK = Check("process_census", look)
