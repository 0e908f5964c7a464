"""Explains why an implementation is faster than another, by two profiles of the same tool."""

import math
from collections.abc import Sequence
from statistics import quantiles
from typing import Any

from attrs import evolve, frozen

from aiperf_core import units
from aiperf_core.profiler import Hot
from aiperf_core.profiling import figures
from aiperf_core.profiling.models import NotProfiled, Profile

# The time to explain: the first in both profiles.
_TIMES = ("span_s", "busy_s", "call_s")
_SAME = 1.05
_MOST_FACTS = 5
# The least difference of shares that counts, and the least part of the time that is named.
_LEAST_SHARE = 0.05
_WORTH_NAMING = 0.10
_NAME = 60
# The least number of calls for quartiles.
_QUARTERED = 4


@frozen
class Compared:
    """A figure of both profiles."""

    name: str
    left: float
    right: float

    @property
    def ratio(self) -> float | None:
        """The right value divided by the left; None when the left is 0."""
        return self.right / self.left if self.left else None


@frozen
class Changed:
    """A hot spot of both profiles."""

    name: str
    left: Hot
    right: Hot


@frozen(kw_only=True)
class Contrast:
    """The differences between two implementations of a target under one tool.

    left, right: the implementations.
    gone, new: hot spots of the left, and of the right implementation only.
    changed: hot spots of both.
    figures: the figures of both.
    conclusion: the differences in words.
    """

    target: str
    left: str
    right: str
    gone: list[Hot]
    new: list[Hot]
    changed: list[Changed]
    figures: list[Compared]
    conclusion: str


def contrast(left: Profile, right: Profile) -> Contrast:
    """Compare two profiles of one tool; `left` is the baseline."""
    before, after = _by_name(left), _by_name(right)
    ours, theirs = left.observed.figures, right.observed.figures
    compared = [Compared(name, ours[name], theirs[name]) for name in sorted(ours, key=figures.order) if name in theirs]
    gone = [one for key, one in before.items() if key not in after]
    changed = [Changed(one.name, one, after[key]) for key, one in before.items() if key in after]
    new = [one for key, one in after.items() if key not in before]
    return Contrast(
        target=left.target,
        left=left.implementation,
        right=right.implementation,
        gone=gone,
        new=new,
        changed=changed,
        figures=compared,
        conclusion=_conclusion(left, right, compared, changed, _work(gone, new)),
    )


def contrasts(profiles: Sequence[Profile | NotProfiled]) -> list[Contrast]:
    """Compare each implementation with the baseline of its target, if that has a profile."""
    found = [one for one in profiles if isinstance(one, Profile)]
    baselines = {one.target: one for one in found if one.role == "baseline"}
    return [contrast(baselines[one.target], one) for one in found if one.role != "baseline" and one.target in baselines]


def _by_name(profile: Profile) -> dict[tuple[str, str], Hot]:
    """The hot spots by kind and name, merged over the operators that launched them."""
    found: dict[tuple[str, str], Hot] = {}
    for one in profile.observed.hot:
        key = one.kind, one.name
        found[key] = _together(found[key], one) if key in found else one
    return found


def _together(one: Hot, other: Hot) -> Hot:
    sums: dict[str, Any] = {}
    for name in ("count", "seconds", "share", "bytes"):
        values = getattr(one, name), getattr(other, name)
        sums[name] = None if None in values else sum(values)
    return evolve(one, by=None, **sums)


def _conclusion(left: Profile, right: Profile, found: list[Compared], changed: list[Changed], work: str) -> str:
    time = next((one for name in _TIMES for one in found if one.name == name and one.left and one.right), None)
    verdict, apart = _time(left, right, time) if time else ("", True)
    # Equal times need no explanation by parts.
    return " ".join(filter(None, (verdict, _facts(found), _same(changed) if apart else "", work)))


def _time(left: Profile, right: Profile, time: Compared) -> tuple[str, bool]:
    """The comparison of times in words, and whether they differ."""
    what = f"{figures.label(time.name)}: {_shown(time, time.left)} → {_shown(time, time.right)}"
    ours, theirs = f"'{right.implementation}'", f"'{left.implementation}'"
    factor = time.left / time.right
    if max(factor, 1 / factor) < _SAME:
        return f"Under {right.tool} {ours} takes as long as {theirs} ({what}).", False
    if time.name == "call_s" and _overlap(left.taken_s, right.taken_s):
        return f"Under {right.tool} the calls of {ours} and {theirs} vary by more than they differ ({what}).", False
    if time.name == "call_s" and min(len(left.taken_s), len(right.taken_s)) < _QUARTERED:
        what += "; too few calls to be sure"
    faster = f"{units.number(max(factor, 1 / factor))}x {'faster' if factor > 1 else 'slower'}"
    return f"Under {right.tool} {ours} is {faster} than {theirs} ({what}).", True


def _overlap(left: Sequence[float], right: Sequence[float]) -> bool:
    """Whether the interquartile ranges of the calls of two implementations overlap."""
    if min(len(left), len(right)) < _QUARTERED:
        return False
    (low, _, high), (other_low, _, other_high) = quantiles(left), quantiles(right)
    return low <= other_high and other_low <= high


def _facts(compared: list[Compared]) -> str:
    """The figures that differ enough to explain the times."""
    facts = [one for one in compared if _explains(one, compared)][:_MOST_FACTS]
    stalls = [one for one in compared if one.name.startswith(figures.STALL) and max(one.left, one.right) >= 1]
    # The most frequent stall of the left implementation, if it differs.
    worst = max(stalls, key=lambda one: one.left, default=None)
    if worst and _ratio(worst) >= _SAME:
        facts.append(worst)
    if not facts:
        return "No figure of this tool tells them apart."
    told = [f"{figures.label(one.name)} {_shown(one, one.left)} → {_shown(one, one.right)}" for one in facts]
    return f"What differs: {'; '.join(told)}."


def _shown(one: Compared, value: float) -> str:
    return figures.shown(one.name, value)


def _explains(one: Compared, compared: list[Compared]) -> bool:
    figure = figures.FIGURES.get(one.name)
    if figure is None or not figure.explains or _ratio(one) < figure.explains:
        return False
    if figure.unit == "share":
        return abs(one.left - one.right) >= _LEAST_SHARE
    if figure.unit == "s":
        call = max((other.left for other in compared if other.name == "call_s"), default=0.0)
        return abs(one.left - one.right) >= _LEAST_SHARE * call
    if figure.unit == "count":
        return abs(one.left - one.right) >= 1
    return True


def _ratio(one: Compared) -> float:
    """The ratio of the larger to the smaller value."""
    least, most = sorted((one.left, one.right))
    return 1.0 if most == least else most / least if least > 0 else math.inf


def _work(gone: list[Hot], new: list[Hot]) -> str:
    """The work that disappeared, and the work that replaced it."""
    before, after = _named(gone), _named(new)
    if before and after:
        return f"Instead of {before} it runs {after}."
    return f"Gone: {before}." if before else f"New: {after}." if after else ""


def _same(changed: list[Changed]) -> str:
    """The common work whose time changed most."""
    worth = sorted(
        (one for one in changed if one.left.seconds and one.right.seconds and _moved(one) >= _WORTH_NAMING),
        key=lambda one: -abs((one.left.seconds or 0.0) - (one.right.seconds or 0.0)),
    )
    told = []
    for one in worth[:2]:
        times = f"{units.seconds(one.left.seconds or 0.0)} → {units.seconds(one.right.seconds or 0.0)}"
        before, after = one.left.count, one.right.count
        often = f" ({figures.counted(before)} → {figures.counted(after)} times)" if before and after else ""
        told.append(f"{shortened(one.name)} {times}{often if before != after else ''}")
    return f"In both: {'; '.join(told)}." if told else ""


def _moved(one: Changed) -> float:
    """The change of a hot spot's time, as a part of the time of the left implementation."""
    before, after = one.left.seconds or 0.0, one.right.seconds or 0.0
    return abs(before - after) / before * (one.left.share or 0.0) if before else 0.0


def _named(ones: list[Hot]) -> str:
    """The longest hot spots, with their shares of the time of their implementation."""
    worth = [one for one in ones if (one.share or 0.0) >= _WORTH_NAMING][:2]
    told = [f"{shortened(one.name)} ({units.percent(one.share or 0.0)} of its time)" for one in worth]
    return " and ".join(told)


def shortened(name: str, width: int = _NAME) -> str:
    """A name cut to `width` characters: names of C++ templates are long."""
    plain = name.removeprefix("void ")
    return plain if len(plain) <= width else plain[: width - 3] + "..."
