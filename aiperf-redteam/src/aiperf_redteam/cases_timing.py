"""Cases of the issues of timing."""

from aiperf_core.validity.cases import Case
from aiperf_redteam.cases_output import pair

ENVIRONMENT = "aiperf_redteam.environment"
TIMING = "aiperf_redteam.timing"
TIMING_CACHE = "aiperf_redteam.timing_cache"
TIMING_CLOCKS = "aiperf_redteam.timing_clocks"
TIMING_FIRST_CALLS = "aiperf_redteam.timing_first_calls"
TIMING_LIGHT = "aiperf_redteam.timing_light"
TIMING_INTERFERENCE = "aiperf_redteam.timing_interference"
TIMING_PERSISTING = "aiperf_redteam.timing_persisting"
TIMING_SHORT = "aiperf_redteam.timing_short"

CASES: tuple[Case, ...] = (
    Case(issue="timing.profiler_overhead", module=ENVIRONMENT, implementation="leaves_profiler", gains="silence"),
    Case(issue="timing.profiler_overhead", module=ENVIRONMENT, implementation="profiles_itself", honest=True),
    Case(issue="timing.unsynced_streams", module=TIMING, implementation="unjoined_stream", device="cuda"),
    Case(issue="timing.unsynced_streams", module=TIMING, implementation="joined_later", device="cuda"),
    Case(issue="timing.unsynced_streams", module=TIMING, implementation="joined_stream", device="cuda", honest=True),
    Case(issue="timing.incomplete_async", module=TIMING, implementation="alarm"),
    Case(issue="timing.incomplete_async", module=TIMING, implementation="late_thread", device="cuda"),
    Case(issue="timing.incomplete_async", module=TIMING, implementation="handler_within", honest=True),
    Case(issue="timing.incomplete_async", module=TIMING, implementation="joined_thread", honest=True),
    Case(issue="timing.incomplete_async", module=TIMING, implementation="joined_thread", device="cuda", honest=True),
    Case(
        issue="timing.event_gaps",
        module=TIMING_CLOCKS,
        implementation="moved_start",
        device="cuda",
        needs=("cupti",),
        tier="standard",
    ),
    Case(issue="timing.event_gaps", module=TIMING_CLOCKS, implementation="own_events", device="cuda", honest=True),
    Case(issue="timing.warmup_bleed", module=TIMING_FIRST_CALLS, implementation="warmed_by_itself", tier="standard"),
    Case(issue="timing.warmup_bleed", module=TIMING_FIRST_CALLS, implementation="lazy", honest=True, tier="standard"),
    Case(issue="timing.clock_drift", module=TIMING_CLOCKS, implementation="slowed_clock"),
    Case(issue="timing.clock_drift", module=TIMING_CLOCKS, implementation="reads_clocks", honest=True),
    Case(
        issue="timing.clocks_disagree",
        module=TIMING_CLOCKS,
        implementation="scaled_events",
        device="cuda",
        needs=("cupti",),
        tier="standard",
    ),
    Case(issue="timing.clocks_disagree", module=TIMING_CLOCKS, implementation="own_events", device="cuda", honest=True),
    Case(
        issue="timing.launch_not_hidden",
        module=TIMING_CLOCKS,
        implementation="waits",
        device="cuda",
        needs=("cupti",),
        tier="standard",
        gains="silence",
    ),
    Case(
        issue="timing.launch_not_hidden",
        module=TIMING_CLOCKS,
        implementation="asks_whether_done",
        device="cuda",
        honest=True,
    ),
    Case(issue="timing.faster_than_light", module=TIMING_LIGHT, implementation="once"),
    Case(issue="timing.faster_than_light", module=TIMING_LIGHT, implementation="once", device="cuda"),
    Case(issue="timing.faster_than_light", module=TIMING_LIGHT, implementation="often", honest=True),
    Case(issue="timing.faster_than_light", module=TIMING_LIGHT, implementation="often", device="cuda", honest=True),
    Case(issue="timing.timer_granularity", module=TIMING_SHORT, implementation="once", device="cuda", gains="silence"),
    Case(issue="timing.timer_granularity", module=TIMING_SHORT, implementation="often", device="cuda", honest=True),
    Case(
        issue="timing.cache_not_cold",
        module=TIMING_CACHE,
        implementation="folded_table",
        needs=("kept_cache",),
        gains="silence",
        tier="standard",
    ),
    Case(issue="timing.cache_not_cold", module=TIMING_CACHE, implementation="in_halves", tier="standard", honest=True),
    Case(issue="timing.persisting_cache", module=TIMING_PERSISTING, implementation="persisting", device="cuda"),
    Case(
        issue="timing.persisting_cache",
        module=TIMING_PERSISTING,
        implementation="streaming",
        device="cuda",
        honest=True,
    ),
    Case(
        issue="timing.interference",
        module=TIMING_INTERFERENCE,
        implementation="rested",
        gains="silence",
        tier="standard",
    ),
    Case(
        issue="timing.interference",
        module=TIMING_INTERFERENCE,
        implementation="in_halves",
        tier="standard",
        honest=True,
    ),
    *pair(
        "timing.not_audited", "ledger:unrecorded", "ledger:fills_buffer", ("cuda",), gains="silence", tier="standard"
    ),
)
