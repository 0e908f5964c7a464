"""Gains of several targets in one step, by Amdahl's law, where their shares of the step are given.

S = 1 / (1 - sum f + sum f / s) (Amdahl, AFIPS 1967), with the share f of each mechanism in the time of the step, as a
trace tells it, and its gain s, as its own target measured it.
"""

import re
from collections.abc import Sequence

from attrs import frozen

from aiperf_analysis.selection import Entry
from aiperf_core.errors import UsageError
from aiperf_core.measurements import Estimate
from aiperf_core.names import words
from aiperf_core.report.result import Column, Figure, Record, Table, figure
from aiperf_core.targets import nearest

_SHARE = re.compile(r"(.+)=(\d+(?:\.\d+)?)(?:\.\.(\d+(?:\.\d+)?))?(%?)")
ACCEPTED = "it takes TARGET:IMPLEMENTATION=SHARE, such as ch07.transpose:tiled=0.2..0.25 or =20..25%"


@frozen
class Share:
    """The share of a row's work in the time of a step, as a range, and the row with its gain."""

    entry: Entry
    low: float
    high: float
    gain: Estimate


def shares_of(texts: Sequence[str], entries: Sequence[Entry]) -> list[Share]:
    """The shares of `--share`. Raises UsageError for a text that is none, an unknown row, and shares above 1."""
    by_name = {one.name: one for one in entries}
    found = []
    for text in texts:
        name, low, high = _read(text)
        entry = by_name.get(name)
        if entry is None:
            raise UsageError(
                f"--share names '{words(name)}', which is no believed row of the selected bundles."
                f"{nearest(name, list(by_name))}"
            )
        if entry.row.speedup is None:
            raise UsageError(f"--share names '{words(name)}', which has no speedup; name a variant.")
        found.append(Share(entry, low, high, entry.row.speedup))
    if sum(one.high for one in found) > 1:
        raise UsageError(f"the shares of --share add up to {sum(one.high for one in found):.3g}; at most 1 is a step.")
    return found


def _read(text: str) -> tuple[str, float, float]:
    match = _SHARE.fullmatch(text)
    if match is None:
        raise UsageError(f"--share got '{words(text)}'; {ACCEPTED}.")
    scale = 0.01 if match[4] else 1.0
    low, high = float(match[2]) * scale, float(match[3] or match[2]) * scale
    if not 0 <= low <= high <= 1:
        raise UsageError(f"--share got '{words(text)}', whose share does not lie between 0 and 1; {ACCEPTED}.")
    return match[1], low, high


def composed(shares: Sequence[Share]) -> Estimate:
    """The gain of the whole step. Its ends take every gain and every share at its worse and its better end."""

    def step(pairs: Sequence[tuple[float, float]]) -> float:
        return 1 / (1 - sum(share for share, _ in pairs) + sum(share / gain for share, gain in pairs))

    # A larger share helps where the gain is above 1.
    worse = [(one.low if one.gain.low > 1 else one.high, one.gain.low) for one in shares]
    better = [(one.high if one.gain.high > 1 else one.low, one.gain.high) for one in shares]
    middle = [((one.low + one.high) / 2, one.gain.value) for one in shares]
    return Estimate(step(middle), step(worse), step(better))


def composition(texts: Sequence[str], entries: Sequence[Entry]) -> Table:
    """The table of the parts and of the whole step."""
    shares = shares_of(texts, entries)
    columns = [
        Column("part", "part of the step"),
        Column("share", "share of the time", "figure"),
        Column("gain", "gain", "figure"),
    ]
    records = []
    for one in shares:
        middle = 50 * (one.low + one.high)
        share = Figure(value=middle, low=100 * one.low, high=100 * one.high, unit="%", certainty="derived")
        records.append(Record({"part": one.entry.name, "share": share, "gain": figure(one.gain)}, [one.entry.origin]))
    whole = figure(composed(shares), certainty="estimated")
    records.append(Record({"part": "whole step", "gain": whole}, [one.entry.origin for one in shares]))
    note = "By Amdahl's law, from the shares that --share gives. The parts are taken not to work at the same time."
    return Table("composition", "ESTIMATE: several targets in one step", columns, records, note)
