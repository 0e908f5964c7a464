"""Results of a sweep whose figures follow from their samples, for tests of what shows and compares sweeps."""

import attrs
import measured

from aiperf_core.results.bundle import Bundle
from aiperf_core.results.models import SkippedTarget, Verdict
from aiperf_core.sweep import point_name

TARGET = "ch07.memory_access"
FACTORS = {"strided": 1.0, "coalesced": 0.5}


def point(seed=0, target=TARGET, factors=FACTORS, also=None, **values):
    """The result at a point. `also` are sizes that are not swept."""
    made = measured.result(seed, factors)
    problem = attrs.evolve(made.problem, params={**values, **(also or {})})
    return attrs.evolve(made, target=point_name(target, values), problem=problem)


def failed(reason="ran out of memory", **values):
    return SkippedTarget(point_name(TARGET, values), Verdict.FAILED, reason)


def bundle(path, results):
    """A closed bundle of these results."""
    made = Bundle.create_at(path)
    for one in results:
        if not isinstance(one, SkippedTarget):
            made.write_target(one)
    skipped = [one for one in results if isinstance(one, SkippedTarget)]
    made.write_manifest(attrs.evolve(measured.manifest(), skipped=skipped))
    return made
