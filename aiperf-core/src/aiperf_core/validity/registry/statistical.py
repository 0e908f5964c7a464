"""Statistical: the figures do not carry the conclusion."""

from aiperf_core.validity.issues import ALWAYS, Exclusion, Issue
from aiperf_core.validity.registry import incidents as met

ISSUES = (
    Issue(
        id="statistical.cherry_picking",
        title="Only the best is reported",
        happens="The best runs, samples or submissions are shown and the others are left out.",
        guard="self_check",
        protection=(
            "Every sample of every started implementation is in the bundle, with its place in the order, and `aiperf "
            "recheck` computes the verdict anew from all of them. Rows that failed or were skipped stay, with their "
            "reason."
        ),
        severity=ALWAYS,
        incidents=(met.LEADERBOARD_ILLUSION, met.MLPERF_SELECTION),
        excluded=Exclusion(
            construction=(
                "The sampler keeps the answer to each request for a timed sample in the order of the requests, and "
                "scoring reads all "
                "of them."
            ),
            test="aiperf-core/tests/harness/test_exclusions.py::test_every_timed_sample_is_kept_and_scored",
        ),
        predecessor="Statistical / Cherry-picking",
    ),
    Issue(
        id="statistical.outlier_injection",
        title="Slow samples for the baseline",
        happens="A few very slow samples are added to one side, whose mean then grows.",
        guard="interleaved",
        protection="Sides take turns in one plan, medians decide, and all samples are kept with their place.",
        predecessor="Statistical / Outlier Injection",
    ),
    Issue(
        id="statistical.variance_gaming",
        title="A spread that looks smaller",
        happens="Variance is reported after dropping, averaging or smoothing, and noise looks like certainty.",
        guard="self_check",
        protection=(
            "The interval is always the same one: 95 % by bootstrap over rounds, blocks and samples, from all samples, "
            "in SI units without rounding."
        ),
        predecessor="Statistical / Variance Gaming",
        excluded=Exclusion(
            construction=(
                "the interval is computed from all samples of the bundle, and `aiperf recheck` computes it again"
            ),
            test="aiperf-core/tests/stats/test_recheck.py::test_what_was_tampered_with_is_found",
        ),
    ),
    Issue(
        id="statistical.percentile_selection",
        title="The percentile that suits",
        happens="A figure is chosen from minimum, median, mean and percentiles after seeing them.",
        guard="self_check",
        protection=(
            "The speedup is a ratio of medians, and which percentiles are printed is fixed. The choice is no option of "
            "a run or of a benchmark."
        ),
        excluded=Exclusion(
            construction=(
                "One function computes the ratio of medians, and no option, benchmark or policy is an argument of it."
            ),
            test=(
                "aiperf-core/tests/harness/test_exclusions.py::"
                "test_the_speedup_is_a_ratio_of_medians_whatever_is_chosen"
            ),
        ),
        predecessor="Statistical / Percentile Selection",
    ),
    Issue(
        id="statistical.insufficient_samples",
        title="Too few samples to tell",
        happens="A handful of samples is compared, and chance decides.",
        guard="self_check",
        protection=(
            "Sampling goes on until half the interval is below 0.5 % or the budget is spent. What cannot be told by "
            "then is INCONCLUSIVE, which is a verdict and no success."
        ),
        incidents=(met.CONSTRUCT_VALIDITY, met.SHORT_CACHE_TEST),
        predecessor="Statistical / Insufficient Samples",
        excluded=Exclusion(
            construction="a row of too few passes has no interval, and without an interval its verdict is INCONCLUSIVE",
            test="aiperf-core/tests/stats/test_verdicts.py::test_too_few_passes_are_said",
        ),
    ),
    Issue(
        id="statistical.cold_start_inclusion",
        title="The first calls count",
        happens="Slow first calls are in the samples of one side and not of the other.",
        guard="warm_up",
        protection="All sides take untimed samples by the same rule; the bundle keeps their times apart.",
        incidents=(met.SHORT_WARM_UP,),
        predecessor="Statistical / Cold Start Inclusion",
    ),
    Issue(
        id="statistical.gc_interference",
        title="The garbage collector runs within the call",
        happens="Python collects garbage while the clock runs, more often where more objects are made.",
        guard="gc_paused",
        protection=(
            "The collector is off during every timed call and on again afterwards. What was there before the first "
            "sample is collected after `prepare`."
        ),
        predecessor="Statistical / GC Interference",
    ),
    Issue(
        id="statistical.order_effect",
        title="The order of two runs taken for a gain",
        happens="One side is measured after the other, while the machine warms up, slows down or gets busy.",
        guard="interleaved",
        protection="Blocks alternate in the order A B B A, so that drift touches all sides. The result has the order.",
        incidents=(met.RUN_ORDER,),
    ),
    Issue(
        id="statistical.process_bias",
        title="The luck of one process",
        happens="Addresses and page colours are drawn once a process: more samples are no truer.",
        guard="own_process",
        protection="From tier `standard` on, the bootstrap draws rounds of fresh processes, which widens the interval.",
        incidents=(met.FRESH_PROCESSES, met.WITHIN_RUN),
    ),
    Issue(
        id="statistical.within_noise",
        title="A gain that the baseline has over itself",
        happens="Two runs of the same code differ by as much as is claimed for the variant.",
        guard="self_check",
        protection="From tier `standard` on, a difference within the baseline's own from itself is INCONCLUSIVE.",
        incidents=(met.SAME_CONFIGURATION, met.SAME_MACHINE_CODE),
        excluded=Exclusion(
            construction="a difference not above the A/A difference of the baseline is INCONCLUSIVE",
            test=(
                "aiperf-core/tests/stats/test_verdicts.py::"
                "test_a_gain_within_what_the_baseline_differs_from_itself_is_refused"
            ),
        ),
    ),
    Issue(
        id="statistical.aggregate_underflow",
        title="One impossible time wins the average",
        happens="A single time near zero pulls a geometric mean to nothing and decides the sum of all results.",
        guard="faster_than_light",
        protection="Times not positive or beyond the speed of light enter no summary; only trusted rows do.",
        severity=ALWAYS,
        incidents=(met.FABRICATED_TIMES, met.TIME_FLOOR),
    ),
)
