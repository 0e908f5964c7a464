"""Cases of the issues of distributed: on recorded evidence, beside those of `recorded`, until targets have several ranks."""

from aiperf_core.redteam.cases import Case, Recorded
from aiperf_core.redteam.recorded import all_ranks, ranks
from aiperf_core.validity.checks.ranks import CHECK

CASES: tuple[Case, ...] = ()

RECORDED: tuple[Recorded, ...] = (
    Recorded(
        issue="distributed.async_gradient_timing",
        # The step has its time, and the all-reduce of each rank goes on.
        guilty=lambda: ranks(all_ranks(work_s=14e-3, waited_s=0.1e-3), time_s=9.6e-3),
        # All of it is in the step: overlapped with the backward pass, and waited for.
        honest=lambda: ranks(all_ranks(work_s=14e-3, waited_s=0.1e-3), time_s=14.2e-3),
        look=CHECK.look,  # type: ignore[arg-type]  # of these it never says that it did not observe
        told="distributed.barrier_timing",
    ),
)
