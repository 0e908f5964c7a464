"""Ladders of a benchmark: the steps that build on each other, and what is lost when one of them is left out.

The longest chain of variants, each of which builds on the one before, is the ladder of a device. Its last step combines
all mechanisms. A variant with the same mechanisms but one shows what that one is worth beside all others; for the last
mechanism that is the step below.
"""

from attrs import frozen

from aiperf_core import Benchmark
from aiperf_labs.stored import Ratio, Stored


@frozen
class Step:
    """A variant of a ladder. `gain` is the time of the step below, or of the baseline, divided by its own."""

    name: str
    adds: str
    total: Ratio | None = None
    gain: Ratio | None = None


@frozen
class LeftOut:
    """The whole ladder without one mechanism. `loss` is its time divided by that of the whole ladder."""

    mechanism: str
    name: str
    loss: Ratio | None = None


@frozen
class Ladder:
    """The ladder of a device. `baseline` is the name of what all figures are relative to."""

    device: str
    baseline: str
    steps: tuple[Step, ...]
    left_out: tuple[LeftOut, ...]


def ladder(bench: Benchmark, device: str, found: Stored | None = None) -> Ladder:
    """The ladder of a device, with the figures of a stored result."""
    ratios = found.ratios if found else {}
    here = bench.implementations_on(device)
    variants = {one.name: one for one in here if one.role == "variant"}
    baseline = next((one.name for one in here if one.role == "baseline"), "")
    chain: list[str] = []
    for name in variants:
        upward = [name]
        while (below := variants[upward[-1]].builds_on) in variants:
            upward.append(str(below))
        chain = upward[::-1] if len(upward) > len(chain) else chain
    steps = []
    for place, name in enumerate(chain):
        total = ratios.get(name)
        below_it = ratios.get(chain[place - 1]) if place else Ratio(1.0, 1.0, 1.0)
        steps.append(Step(name, ", ".join(variants[name].adds), total, _quotient(total, below_it)))
    whole = bench.mechanisms_of(variants[chain[-1]]) if chain else ()
    left_out = [
        LeftOut(gone, name, _quotient(ratios.get(chain[-1]), ratios.get(name)))
        for gone in whole
        for name, one in variants.items()
        if {*bench.mechanisms_of(one)} == {*whole} - {gone} and len(whole) > 1
    ]
    return Ladder(device, baseline, tuple(steps), tuple(left_out))


def _quotient(one: Ratio | None, other: Ratio | None) -> Ratio | None:
    """One ratio divided by another. The interval takes the ends of both as they are worst, so it is rather too wide."""
    if one is None or other is None:
        return None
    return Ratio(one.value / other.value, one.low / other.high, one.high / other.low)
