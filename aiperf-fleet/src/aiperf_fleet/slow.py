"""Slow machines: log t = target + machine + run, by least squares and an analysis of variance.

Each machine is compared with all others: its effect is the log ratio of its times to theirs. The error of that effect
is the spread between the other machines, if they differ by more than runs do (an F test before pooling, Bancroft 1964),
else the pooled spread of runs. p is one-sided; Holm's method counts all machines.
"""

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from attrs import frozen

from aiperf_core.results.bundle import Bundle
from aiperf_core.stats.distributions import f_tail, t_end, t_tail

if TYPE_CHECKING:
    from numpy.typing import NDArray

ALPHA = 0.05
# A machine that is slower by less is not named.
FLOOR = 0.02
# The p of the F test above which the spread of machines is taken as that of runs. Two other machines say so little of
# their spread that only clear evidence against pooling counts.
POOLED_ABOVE = 0.25
POOLED_ABOVE_OF_TWO = 0.05
FEWEST_MACHINES = 3
_SMALLEST = 1e-300


@frozen
class Measured:
    """The time of a target on a machine.

    target: its name, and the implementations that the bundle believes.
    machine: where it ran.
    log_time: the mean of the natural logarithms of the implementations' times in seconds.
    """

    target: str
    machine: str
    log_time: float


@frozen
class MachineEffect:
    """A machine beside all others.

    machine: its name.
    count: its measurements.
    ratio: its times by theirs.
    low, high: the ends of the ratio's 95 % interval.
    p: one-sided, for slower.
    slow: whether it is slower, after Holm's method and by more than 2 %.
    """

    machine: str
    count: int
    ratio: float
    low: float
    high: float
    p: float
    slow: bool


@frozen
class Comparison:
    """A comparison of machines.

    machines: the slowest first.
    between, within: relative standard deviations of machines and of runs.
    reason: why nothing could be compared; empty otherwise.
    """

    machines: list[MachineEffect]
    between: float | None
    within: float | None
    reason: str = ""


def measured(bundle: Bundle, machine: str) -> Iterable[Measured]:
    """Figures of each target of a bundle; rows that are not believed are left out.

    Two bundles are comparable if they believe the same implementations, which the target's name therefore includes.
    """
    for name in bundle.targets:
        believed = {
            row.name: math.log(row.time_s.value)
            for row in bundle.outline(name).rows
            if row.is_believed and row.time_s is not None and row.time_s.value > 0
        }
        if believed:
            yield Measured(f"{name}:{','.join(sorted(believed))}", machine, sum(believed.values()) / len(believed))


def compare(measurements: Sequence[Measured], alpha: float = ALPHA) -> Comparison:
    """Compare machines on the targets that at least two of them have measured."""
    used = _shared(measurements)
    machines = sorted({one.machine for one in used})
    if len(machines) < FEWEST_MACHINES:
        return Comparison(
            [],
            None,
            None,
            f"{len(machines)} machines have measured a target in common; at least {FEWEST_MACHINES} are needed "
            '(machines = "each" in the suite)',
        )
    fits = _Fits(used, machines)
    if fits.within_dof < 1:
        return Comparison([], None, None, "too few runs: each target needs several runs, or several targets are needed")
    effects = [fits.effect(machine) for machine in machines]
    slow = _holm([one.p for one in effects], alpha)
    named = [
        MachineEffect(one.machine, one.count, one.ratio, one.low, one.high, one.p, found and one.ratio > 1 + FLOOR)
        for one, found in zip(effects, slow, strict=True)
    ]
    named.sort(key=lambda one: -one.ratio)
    return Comparison(named, fits.between, math.sqrt(fits.within))


def _shared(measurements: Sequence[Measured]) -> list[Measured]:
    places: dict[str, set[str]] = {}
    for one in measurements:
        places.setdefault(one.target, set()).add(one.machine)
    return [one for one in measurements if len(places[one.target]) > 1]


class _Fits:
    """The nested least-squares fits."""

    def __init__(self, used: Sequence[Measured], machines: Sequence[str]) -> None:
        import numpy as np

        targets = sorted({one.target for one in used})
        self.y: NDArray[Any] = np.array([one.log_time for one in used])
        self.targets = np.array([[one.target == name for name in targets] for one in used], dtype=float)
        self.of = {name: np.array([[one.machine == name] for one in used], dtype=float) for name in machines}
        full = np.hstack([self.targets, *list(self.of.values())[1:]])
        self.full_ss, full_rank = self._fit(full)
        self.within_dof = len(self.y) - full_rank
        self.within = max(self.full_ss / self.within_dof, _SMALLEST) if self.within_dof > 0 else math.nan
        none_ss, none_rank = self._fit(self.targets)
        mean_square = (none_ss - self.full_ss) / max(full_rank - none_rank, 1)
        runs = len(self.y) / len(machines)
        self.between = math.sqrt(max(mean_square - self.within, 0.0) / runs)

    def _fit(self, columns: "NDArray[Any]") -> tuple[float, int]:
        """The residual sum of squares, and the rank."""
        import numpy as np

        solution, _, rank, _ = np.linalg.lstsq(columns, self.y, rcond=None)
        return float(((self.y - columns @ solution) ** 2).sum()), int(rank)

    def effect(self, machine: str) -> MachineEffect:
        """The effect of one machine beside the others."""
        import numpy as np

        columns = np.hstack([self.targets, self.of[machine]])
        solution = np.linalg.lstsq(columns, self.y, rcond=None)[0]
        alone_ss, alone_rank = self._fit(columns)
        without_ss, _ = self._fit(self.targets)
        others_dof = len(self.y) - alone_rank - self.within_dof
        others = max((alone_ss - self.full_ss) / others_dof, 0.0) if others_dof else 0.0
        limit = POOLED_ABOVE if others_dof > 1 else POOLED_ABOVE_OF_TWO
        pooled = others_dof == 0 or f_tail(others / self.within, others_dof, self.within_dof) > limit
        if pooled:
            error, dof = max(alone_ss / (others_dof + self.within_dof), _SMALLEST), others_dof + self.within_dof
        else:
            error, dof = others, others_dof
        beta = float(solution[-1])
        gained = max(without_ss - alone_ss, 0.0)
        t = math.copysign(math.sqrt(gained / error), beta)
        standard = abs(beta / t) if t else math.sqrt(error / max(float(self.of[machine].sum()), 1.0))
        half = t_end(dof) * standard
        low, ratio, high = (math.exp(max(-700.0, min(700.0, one))) for one in (beta - half, beta, beta + half))
        return MachineEffect(machine, int(self.of[machine].sum()), ratio, low, high, t_tail(t, dof), False)


def _holm(p_values: Sequence[float], alpha: float) -> list[bool]:
    """Which hypotheses Holm's method rejects."""
    rejected = [False] * len(p_values)
    for rank, index in enumerate(sorted(range(len(p_values)), key=lambda one: p_values[one])):
        if p_values[index] > alpha / (len(p_values) - rank):
            break
        rejected[index] = True
    return rejected
