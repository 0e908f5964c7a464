"""Cases of the issues of distributed."""

from aiperf_core.validity.cases import Case
from aiperf_redteam.cases_output import pair

RANKS = "aiperf_redteam.several_ranks"
PLACED = "aiperf_redteam.several_ranks_placed"

CASES: tuple[Case, ...] = (
    Case(issue="distributed.rank_skipping", module=RANKS, implementation="idle_rank", gains="silence"),
    Case(issue="distributed.rank_skipping", module=RANKS, implementation="uneven", honest=True),
    Case(issue="distributed.collective_short_circuit", module=RANKS, implementation="local_guess", gains="silence"),
    Case(issue="distributed.collective_short_circuit", module=RANKS, implementation="gathered", honest=True),
    *pair("distributed.async_gradient_timing", "several_ranks:not_waited_for", "several_ranks:gathered", ("cuda",)),
    Case(issue="distributed.gradient_bucketing_mismatch", module=PLACED, implementation="one_bucket", gains="silence"),
    Case(issue="distributed.gradient_bucketing_mismatch", module=PLACED, implementation="backwards", honest=True),
    Case(
        issue="distributed.topology_mismatch",
        module=PLACED,
        implementation="pinned",
        gains="silence",
        needs=("processors>=2",),
    ),
    Case(issue="distributed.topology_mismatch", module=PLACED, implementation="asks_for_its_place", honest=True),
)
