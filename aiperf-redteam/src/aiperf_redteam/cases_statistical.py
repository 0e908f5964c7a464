"""Cases of the issues of statistics."""

from aiperf_core.validity.cases import Case

STATISTICAL_BURST = "aiperf_redteam.statistical_burst"
STATISTICAL_DRIFT = "aiperf_redteam.statistical_drift"
STATISTICAL_GC = "aiperf_redteam.statistical_gc"
STATISTICAL_LUCK = "aiperf_redteam.statistical_luck"
TIMING_FIRST_CALLS = "aiperf_redteam.timing_first_calls"
TIMING_LIGHT = "aiperf_redteam.timing_light"

CASES: tuple[Case, ...] = (
    Case(issue="statistical.outlier_injection", module=STATISTICAL_BURST, implementation="burst", alone=True),
    Case(issue="statistical.outlier_injection", module=STATISTICAL_BURST, implementation="in_halves", honest=True),
    Case(
        issue="statistical.cold_start_inclusion",
        module=TIMING_FIRST_CALLS,
        implementation="ready_ahead",
        tier="standard",
    ),
    Case(
        issue="statistical.cold_start_inclusion",
        module=TIMING_FIRST_CALLS,
        implementation="lazy",
        honest=True,
        tier="standard",
    ),
    Case(issue="statistical.gc_interference", module=STATISTICAL_GC, implementation="uncollected"),
    Case(issue="statistical.gc_interference", module=STATISTICAL_GC, implementation="as_collected", honest=True),
    Case(issue="statistical.order_effect", module=STATISTICAL_DRIFT, implementation="later"),
    Case(issue="statistical.order_effect", module=STATISTICAL_DRIFT, implementation="in_halves", honest=True),
    Case(
        issue="statistical.process_bias",
        module=STATISTICAL_LUCK,
        implementation="by_pages",
        tier="standard",
        alone=True,
    ),
    Case(
        issue="statistical.process_bias",
        module=STATISTICAL_LUCK,
        implementation="by_rule",
        tier="standard",
        honest=True,
    ),
    Case(issue="statistical.aggregate_underflow", module=TIMING_LIGHT, implementation="to_a_number"),
    Case(issue="statistical.aggregate_underflow", module=TIMING_LIGHT, implementation="often", honest=True),
)
