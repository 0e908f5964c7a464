"""Cases of the issues of distributed. Those that the harness leaves no room for, or that need GPUs, rest on recorded evidence."""

from aiperf_core.redteam.cases import Case, Recorded
from aiperf_core.redteam.recorded import all_ranks, ranks
from aiperf_core.validity.checks.ranks import CHECK

RANKS = "aiperf_core.redteam.several_ranks"

CASES: tuple[Case, ...] = (
    Case(issue="distributed.rank_skipping", module=RANKS, implementation="idle_rank", gains="silence"),
    Case(issue="distributed.rank_skipping", module=RANKS, implementation="uneven", honest=True),
    Case(issue="distributed.collective_short_circuit", module=RANKS, implementation="local_guess", gains="silence"),
    Case(issue="distributed.collective_short_circuit", module=RANKS, implementation="gathered", honest=True),
)

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
