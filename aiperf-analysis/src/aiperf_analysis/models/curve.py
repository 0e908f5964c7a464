"""A measured curve: times over ranks or sizes, with draws for the intervals of what is fitted."""

import math
from collections.abc import Sequence

import numpy as np
from attrs import frozen

from aiperf_analysis.models.draws import log_error, widening
from aiperf_core.measurements import Estimate
from aiperf_core.stats.distributions import NORMAL
from aiperf_core.stats.draws import DRAWS, Floats, log_draws

# A near tie: models whose AICc differ by at most this are shown together (Burnham and Anderson, Model Selection and
# Multimodel Inference, 2nd edition, 2002, section 2.6).
NEAR = 2.0
# Standard errors beyond which a point contradicts a fit.
CONTRADICTS = 3.0


@frozen(eq=False)
class Curve:
    """Points in ascending order.

    at: the places: ranks or sizes.
    logs: the logarithms of the times in seconds. draws: draws of these: (draws, points).
    errors: the standard errors of the logarithms.
    floor: the smallest relative difference that matters. A deviation of a fit below it counts little.
    """

    at: Floats
    logs: Floats
    draws: Floats
    errors: Floats
    floor: float = 0.01

    @staticmethod
    def of(
        at: Sequence[float],
        times: Sequence[Estimate],
        floor: float = 0.01,
        sampled: Sequence[Floats | None] = (),
        count: int = DRAWS,
        rounds: Sequence[int] = (),
    ) -> "Curve":
        """The curve of these times.

        sampled: draws of the logarithms from samples, where there are some.
        rounds: of the run of each point; without them, one.
        """
        rounds = rounds or [1] * len(times)
        errors = np.array([log_error(one, several) for one, several in zip(times, rounds, strict=True)])
        draws = log_draws([one.value for one in times], errors, np.random.default_rng(0), count)
        for index, one in enumerate(sampled):
            if one is not None:
                draws[:, index] = one
        logs, wide = np.array([math.log(one.value) for one in times]), widening(rounds)
        return Curve(np.array(at, dtype=np.float64), logs, logs + (draws - logs) * wide, errors * wide, floor)

    @property
    def spreads(self) -> Floats:
        """The deviation of a logarithm that counts as one in a fit: the standard error and the floor together."""
        found: Floats = np.hypot(self.errors, self.floor / NORMAL)
        return found

    def only(self, keep: Sequence[int]) -> "Curve":
        """Some of the points."""
        index = list(keep)
        return Curve(self.at[index], self.logs[index], self.draws[:, index], self.errors[index], self.floor)

    def squares(self, logs: Floats) -> float:
        """The sum of squared deviations of a fit's logarithms, in spreads."""
        return float((((logs - self.logs) / self.spreads) ** 2).sum())


def aicc(squares: float, points: int, parameters: int) -> float | None:
    """Akaike's criterion for small samples, with known variances; None where the points are too few for it.

    Hurvich and Tsai, Biometrika 76, 1989.
    """
    left = points - parameters - 1
    return squares + 2 * parameters + 2 * parameters * (parameters + 1) / left if left > 0 else None
