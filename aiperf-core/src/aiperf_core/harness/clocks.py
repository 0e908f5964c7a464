"""Whether the clocks of a run agree, and what the events' own cost is."""

from statistics import median

from aiperf_core.harness.contestant import Contestant
from aiperf_core.results.models import Audit, Finding, Verdict

AUDITED_CALLS = 7
# Two clocks may differ by so much, relatively or in seconds, whichever is more.
AGREE, AGREE_S = 0.05, 1e-6
# Times of which the events' own cost is more than this part are left as they are: what remained would be noise.
_MOST_OVERHEAD = 0.8


def take_off_overhead(contestants: list[Contestant], overhead_s: float | None) -> float | None:
    """Have the events' own cost taken off all device times, or off none; return what is taken off, in seconds."""
    shortest = [min(filter(None, one.samples.device_s), default=None) for one in contestants if one.samples.device_s]
    if overhead_s is None or any(time is not None and overhead_s > _MOST_OVERHEAD * time for time in shortest):
        return None
    for one in contestants:
        one.event_overhead_s = overhead_s
    return overhead_s


def compare(one: Contestant, audit: Audit, overhead_s: float | None) -> None:
    """Take a contestant out of the run if its clocks contradict each other.

    The audited calls must take the same time by events as by CUPTI, and the samples must not be faster than they. Slower
    they may be: audited calls repeat the same values, which they may find in a cache. Calls that wait for the GPU by
    themselves cannot be hidden behind the blocking kernel; their events count the host's time too, and only warn.
    """
    sampled = one.median("device")
    if sampled is None:
        return
    off = overhead_s or 0.0
    by_samples, by_events = sampled + one.event_overhead_s - off, median(audit.event_s) - off
    by_cupti = median(audit.span_s)
    slack = max(AGREE * by_cupti, AGREE_S)
    if abs(by_events - by_cupti) <= slack and by_samples >= by_cupti - slack:
        return
    figures = {"samples": by_samples, "audited calls by events": by_events, "audited calls by CUPTI": by_cupti}
    told = ", ".join(f"{name} {seconds * 1e6:,.2f} us" for name, seconds in figures.items())
    message = f"the clocks disagree by more than {AGREE:.0%} and {AGREE_S * 1e6:g} us: {told}"
    evidence = {name.replace(" ", "_") + "_s": seconds for name, seconds in figures.items()}
    if all(hidden for hidden, time in zip(one.samples.hidden, one.samples.device_s, strict=True) if time is not None):
        one.stop(Verdict.UNTRUSTED, message, Finding("timing.clocks_disagree", "invalid", message, evidence))
    else:
        one.findings.append(Finding("timing.launch_not_hidden", "warning", message, evidence))
