"""Distributed: not all ranks do, wait or send what they should."""

from aiperf_core.validity.issues import ALWAYS, SOFT, Exclusion, Issue

ISSUES = (
    Issue(
        id="distributed.rank_skipping",
        title="Some ranks do nothing",
        happens="Ranks return without doing their share, and the rest, or none, makes up for it.",
        guard="ranks",
        protection="Inputs differ by rank, the output depends on all shares, and the work of each rank is recorded.",
        needs=("ranks>=2",),
        severity=ALWAYS,
        predecessor="Distributed / Rank Skipping",
    ),
    Issue(
        id="distributed.collective_short_circuit",
        title="Communication is left out",
        happens="A collective is skipped, or replaced by a local guess at what the others hold.",
        guard="ranks",
        protection=(
            "Values differ between ranks and calls, so that no rank can guess another's share. The collectives that "
            "each rank entered are counted, and the bytes that the ranks handed over are held against what the "
            "workload "
            "says must travel and what the baseline moves."
        ),
        needs=("ranks>=2",),
        severity=ALWAYS,
        predecessor="Distributed / Collective Short-circuit",
    ),
    Issue(
        id="distributed.topology_mismatch",
        title="Another topology than the one claimed",
        happens="Ranks share a GPU or a node, or are placed otherwise than the result says.",
        guard="ranks",
        protection=(
            "The supervisor asks the kernel on which processors each rank may run, and the driver on which GPUs it is, "
            "and "
            "compares ranks with each other and with those of the baseline."
        ),
        needs=("ranks>=2",),
        predecessor="Distributed / Topology Mismatch",
    ),
    Issue(
        id="distributed.barrier_timing",
        title="The barrier hides or lends time",
        happens="Clocks start at different moments, or a barrier lets one rank wait outside of its own window.",
        guard="ranks",
        protection=(
            "Ranks start together after a barrier that is not timed, each is timed within its own process, and the "
            "slowest one's time counts."
        ),
        needs=("ranks>=2",),
        predecessor="Distributed / Barrier Timing",
        excluded=Exclusion(
            construction=(
                "each rank is timed in its own process from the common start, and the time is that of the slowest rank"
            ),
            test="aiperf-core/tests/harness/roles/test_rank.py::test_the_slowest_rank_counts",
        ),
    ),
    Issue(
        id="distributed.gradient_bucketing_mismatch",
        title="Other buckets on the two sides",
        happens="The sides group gradients differently, and the difference passes for one of the method.",
        guard="ranks",
        protection=(
            "The bytes of each reduction are recorded in every rank. Other shares of the whole than in the baseline "
            "are a finding; "
            "the time of a row is that of the whole call."
        ),
        needs=("ranks>=2",),
        severity=SOFT,
        predecessor="Distributed / Gradient Bucketing Mismatch",
    ),
    Issue(
        id="distributed.async_gradient_timing",
        title="Gradients are still on their way",
        happens="An asynchronous all-reduce is started and not waited for, and the step ends without its result.",
        guard="all_streams",
        protection=(
            "Collectives run on streams of the context, and the end event comes after the work of all of them, in "
            "every rank. The reduced gradients are part of the output."
        ),
        needs=("cuda", "ranks>=2"),
        predecessor="Distributed / Async Gradient Timing",
        owed="a machine with two CUDA GPUs",
    ),
    Issue(
        id="distributed.pipeline_bubble_hiding",
        title="Idle stages are not counted",
        happens="The time of busy stages is added up, and the waiting at both ends of the pipeline is left out.",
        guard="ranks",
        protection="The time is that of the whole step on the slowest rank, from the common start, with all waiting.",
        needs=("ranks>=2",),
        predecessor="Distributed / Pipeline Bubble Hiding",
        excluded=Exclusion(
            construction="the time is that of the whole call on the slowest rank, so that waiting within it counts",
            test="aiperf-core/tests/harness/roles/test_rank.py::test_the_slowest_rank_counts",
        ),
    ),
    Issue(
        id="distributed.shard_size_mismatch",
        title="Shards of other sizes",
        happens="One side splits parameters or data into other shares, and a rank has less to do.",
        guard="ranks",
        protection="The workload makes the shards of both sides; a rank's output must have the form of its shard.",
        needs=("ranks>=2",),
        severity=ALWAYS,
        excluded=Exclusion(
            construction=(
                "The judge makes the shards once, and the ranks of every implementation are given the same memory and "
                "shapes."
            ),
            test="aiperf-core/tests/harness/test_exclusions.py::test_the_ranks_of_both_sides_map_the_same_shards",
        ),
        predecessor="Distributed / Shard Size Mismatch",
    ),
)
