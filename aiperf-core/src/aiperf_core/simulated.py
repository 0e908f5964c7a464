"""Simulated targets: an implementation returns the virtual time of its schedule for a seed, and no clock runs."""

import math
import re
from typing import Any

from attrs import frozen

from aiperf_core.errors import BenchmarkError, ContractError

# Stands in place of a clock.
CLOCK = "simulated"
METRIC = r"[a-z][a-z0-9_]*"
# Fewer seeds have no interval: not even their extremes have the median between them with 95 %.
LEAST_SEEDS = 6


@frozen
class Simulated:
    """Virtual times that a simulated target returns for each seed, beside its answer.

    metric: the item of the returned dict with the virtual time in seconds, of which less is better.
    seeds: the seeds for which each implementation is simulated, the same for all. Raises `BenchmarkError` for too few.
    """

    metric: str
    seeds: int = 20

    def __attrs_post_init__(self) -> None:
        if not isinstance(self.metric, str) or not re.fullmatch(METRIC, self.metric):
            raise BenchmarkError(f"is simulated with metric={self.metric!r}; accepted is a name, such as 'job_s'")
        if type(self.seeds) is not int or self.seeds < LEAST_SEEDS:
            raise BenchmarkError(
                f"is simulated with seeds={self.seeds!r}; accepted are whole numbers from {LEAST_SEEDS}, the fewest "
                "that have an interval"
            )

    def split(self, output: Any) -> tuple[Any, float]:
        """The answer of a call, and its virtual time. Raises `ContractError` where there is none."""
        if not isinstance(output, dict) or self.metric not in output:
            raise ContractError(f"the output has no {self.metric!r}; accepted is a dict with the answer and that time")
        seconds = output[self.metric]
        if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds < math.inf:
            raise ContractError(f"{self.metric!r} is {seconds!r}; accepted are virtual seconds above 0")
        return {name: value for name, value in output.items() if name != self.metric}, float(seconds)


def how_taken(simulated: Simulated | None, clock: str, cache: str) -> str:
    """How the samples of a target are taken, in words: by which clock, or what is simulated."""
    if simulated is None:
        return f"{clock} clock, {cache} cache"
    return f"simulated {simulated.metric} of {simulated.seeds} seeds"
