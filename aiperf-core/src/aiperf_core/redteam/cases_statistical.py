"""Cases of the issues of statistics."""

from aiperf_core.redteam.cases import Case

STATISTICAL = "aiperf_core.redteam.statistical"
STATISTICAL_DRIFT = "aiperf_core.redteam.statistical_drift"
STATISTICAL_GC = "aiperf_core.redteam.statistical_gc"
TIMING_FIRST_CALLS = "aiperf_core.redteam.timing_first_calls"
TIMING_LIGHT = "aiperf_core.redteam.timing_light"

CASES: tuple[Case, ...] = (
    Case(issue="statistical.outlier_injection", module=STATISTICAL, implementation="sometimes_slow", honest=True),
    Case(issue="statistical.cold_start_inclusion", module=TIMING_FIRST_CALLS, implementation="ready_ahead"),
    Case(issue="statistical.cold_start_inclusion", module=TIMING_FIRST_CALLS, implementation="lazy", honest=True),
    Case(issue="statistical.gc_interference", module=STATISTICAL_GC, implementation="uncollected"),
    Case(issue="statistical.gc_interference", module=STATISTICAL_GC, implementation="as_collected", honest=True),
    Case(issue="statistical.order_effect", module=STATISTICAL, implementation="sometimes_slow", honest=True),
    Case(issue="statistical.process_bias", module=STATISTICAL, implementation="sometimes_slow", honest=True),
    Case(issue="statistical.aggregate_underflow", module=TIMING_LIGHT, implementation="in_one_column"),
    Case(issue="statistical.aggregate_underflow", module=TIMING_LIGHT, implementation="often", honest=True),
)

# What these look for is not there, with every guard on; no switch puts it there.
BY_CONSTRUCTION: tuple[Case, ...] = (
    Case(issue="statistical.outlier_injection", module=STATISTICAL, implementation="never_slow"),
    Case(issue="statistical.order_effect", module=STATISTICAL_DRIFT, implementation="later"),
)
