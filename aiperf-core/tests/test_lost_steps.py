"""Steps of the lessons that gain nothing in the stored figures of GPUs, and do not say what they teach."""

from collections import Counter
from typing import TYPE_CHECKING

from aiperf_core.harness.roles.describer import describe
from aiperf_core.loading import load_benchmark
from aiperf_core.stats.claims import stored_outcomes
from aiperf_core.stats.expectations import pages_of

if TYPE_CHECKING:
    from aiperf_core.plugins import Plugins


def test_every_lost_step_says_what_it_teaches(plugins: "Plugins") -> None:
    lost: Counter[str] = Counter()
    for target in (selection.target for selection in plugins.select(("ch*", "labs.*"))):
        described = describe(load_benchmark(target), target.module)
        for found in stored_outcomes(target.name, described, "cuda", pages_of(target)):
            assert found.verdict in ("ok", "note"), (target.name, found)
            lost[target.name] += found.found.count(" over ")
    assert not +lost, f"mend these steps, or say in teaches='...' what a loss teaches: {+lost}"
