"""Timing: the time is not that of the work."""

from aiperf_core.validity.issues import ALWAYS, SOFT, Issue
from aiperf_core.validity.registry import incidents as met

ISSUES = (
    Issue(
        id="timing.unsynced_streams",
        title="Work on a stream that is not timed",
        happens=(
            "The call launches its work on streams of its own and returns. A clock that reads the events of one stream "
            "stops while the others still run."
        ),
        guard="all_streams",
        protection=(
            "Every stream of the context waits for the start event, and the end event comes after the work of all of "
            "them; by the wall clock the whole device is waited for. Work on a side stream is in the time, whether or "
            "not the call joins it."
        ),
        needs=("cuda",),
        severity=ALWAYS,
        incidents=(met.STREAM_EXPLOIT, met.BACKENDBENCH_STREAMS, met.WRONG_STREAM),
        predecessor="Timing / Unsynced Streams",
    ),
    Issue(
        id="timing.incomplete_async",
        title="Work that continues after the clock stopped",
        happens="The call returns early; a thread, a signal handler or a queue completes the output later.",
        guard="late_write",
        protection=(
            "The bits of the output are summed when the clock stops, and once more after the judge's copy; if "
            "they changed in between, the row is INVALID. On a GPU the first sums are queued right behind the clock's "
            "stop, "
            "before the launch of a thread that waits for it. Of a large output on a processor a window at a random "
            "place is summed."
        ),
        severity=ALWAYS,
        incidents=(met.STREAM_EXPLOIT, met.FIELD_GUIDE, met.DEFENSES),
        predecessor="Timing / Incomplete Async Ops",
    ),
    Issue(
        id="timing.event_gaps",
        title="Events that do not enclose the work",
        happens="Events in the wrong order, on the wrong stream or too early give a difference too small or negative.",
        guard="clocks_agree",
        protection=(
            "A time that is not positive makes the row INVALID and is never clamped. From the tier `standard` on, the "
            "time by events must agree with what CUPTI saw of the same calls."
        ),
        needs=("cuda",),
        severity=ALWAYS,
        incidents=(met.NEGATIVE_EVENTS,),
        predecessor="Timing / Event Timing Gaps",
    ),
    Issue(
        id="timing.timer_granularity",
        title="A call shorter than its clock can tell",
        happens="The clock ticks too coarsely for the call, or reading it takes about as long as the call itself.",
        guard="clocks_agree",
        protection=(
            "What timing costs is measured and taken off. Short calls of a workload declared warm are timed several in "
            "a row, until a sample is many times as long as that; where this cannot be, a warning says how much of the "
            "sample is the clock, and a row that is mostly clock is UNTRUSTED."
        ),
        incidents=(met.EVENTS_INFLATE,),
        predecessor="Timing / Timer Granularity",
        owed="a machine with a CUDA GPU",
    ),
    Issue(
        id="timing.warmup_bleed",
        title="Part of the work is done by the warm-up",
        happens="Warm-up calls share values, caches or state with timed calls, which find part of their work done.",
        guard="warm_up",
        protection=(
            "Uncounted samples have values of their own, which are gone before the first counted one, and the cache is "
            "flushed again before each. To the code they look like any other sample, so it cannot tell which of them "
            "will count."
        ),
        incidents=(met.WARM_UP_REPLAY,),
        predecessor="Timing / Warmup Bleed",
    ),
    Issue(
        id="timing.clock_drift",
        title="The clock itself is moved or drifts",
        happens="A clock is set, slewed or stepped while it measures, or runs at another rate than other clocks.",
        guard="clocks_agree",
        protection=(
            "Times come from the monotonic clock and from the GPU's events, never from the time of day. Each sample "
            "also carries the bracket that the supervisor took with its own clock in its own process, and the two must "
            "be consistent."
        ),
        predecessor="Timing / Clock Drift",
    ),
    Issue(
        id="timing.profiler_overhead",
        title="A profiler slows what it observes",
        happens="Tracing adds time to each launch, more on one side, and that time is reported as the work's.",
        guard="global_state",
        protection=(
            "Counted samples are taken without any profiler. The worker tells whether a profiler of Python or torch "
            "runs in its "
            "process, before the import of the code and after its last call. CUPTI watches a few more calls "
            "afterwards, which are "
            "compared with the samples and never counted among them."
        ),
        incidents=(met.API_TRACING,),
        predecessor="Timing / Profiler Overhead",
    ),
    Issue(
        id="timing.clocks_disagree",
        title="Two clocks contradict each other",
        happens="The times by events and by CUPTI differ too much: at least one does not measure the work.",
        guard="clocks_agree",
        protection=(
            "Events, CUPTI and the counted samples must agree within 5 % or 1 µs. If not, the row is UNTRUSTED and "
            "shows all three figures; no clock silently stands in for another. Where CUPTI is the one that is wrong, "
            "since "
            "it slows a kernel or does not see what a kernel launches, and the supervisor's own clock shows that, the "
            "row "
            "of trusted code keeps its times and says so."
        ),
        needs=("cuda", "cupti"),
        incidents=(met.TWO_CLOCKS, met.FLUSH_COUNTED),
    ),
    Issue(
        id="timing.launch_not_hidden",
        title="The host's time is counted as the GPU's",
        happens=(
            "Where the GPU idles until the host has launched, events count the wait. A call that waits for the GPU by "
            "itself cannot be queued ahead, so its launches show in the device's time."
        ),
        guard="clocks_agree",
        protection=(
            "A blocking kernel holds the GPU until the whole call is queued. Where the call waits by itself and the "
            "blocking kernel gives up, the samples say so, and a disagreement with CUPTI is told as this finding."
        ),
        needs=("cuda",),
        severity=SOFT,
        incidents=(met.EVENTS_INFLATE, met.SYNC_COUNTED, met.LAUNCH_COUNTED),
    ),
    Issue(
        id="timing.not_audited",
        title="No second witness for the time",
        happens="The profiler gave no whole record of the calls, and the events alone are believed.",
        guard="cupti_ledger",
        protection=(
            "The row carries a warning with the reason. Nothing is estimated in the place of the missing record, and "
            "the other checks go on without it."
        ),
        needs=("cuda",),
        severity=SOFT,
        incidents=(met.NO_ACTIVITY, met.SILENT_FALLBACK),
        owed="a machine with a CUDA GPU",
    ),
    Issue(
        id="timing.faster_than_light",
        title="Faster than the machine can be",
        happens=(
            "A time lies below what moving the bytes or doing the operations takes at the best rate that this machine "
            "reaches. Such a time is a mistake of the cost, the clock or the implementation, or a lie."
        ),
        guard="faster_than_light",
        protection=(
            "A result whose whole interval lies beyond 1.02 of the bound has the ceilings measured twice more, and is "
            "then INVALID. It is refused before any summary sees it."
        ),
        severity=ALWAYS,
        incidents=(met.FABRICATED_TIMES, met.TIME_FLOOR, met.PERSISTING_RATE),
    ),
    Issue(
        id="timing.interference",
        title="Taking turns changes what is measured",
        happens="Implementations that alternate find other caches, clocks and memory than each would find alone.",
        guard="interleaved",
        protection=(
            "From the tier `standard` on, every implementation is also sampled alone. Intervals that lie apart by more "
            "than 5 % of the time are a finding with both figures."
        ),
        severity=SOFT,
        incidents=(met.TAKING_TURNS, met.BATCH_DISTURBS),
    ),
    Issue(
        id="timing.cache_not_cold",
        title="Inputs that still lie in the cache",
        happens="Inputs used a moment ago, or left by a flush, lie in the last-level cache, which is measured.",
        guard="cold_cache",
        protection=(
            "Before each sample twice the last-level cache is written, unless the working set evicts itself or the "
            "workload declares that it lives in the cache. Whether the flush does its work is measured: a read that is "
            "nearer to hot than to cold after it is a finding."
        ),
        severity=SOFT,
        incidents=(met.HOT_GRAPH, met.HOT_L2),
    ),
    Issue(
        id="timing.persisting_cache",
        title="Lines made to persist in the cache",
        happens="The code marks operands as persisting in the L2; a flush by writing cannot evict them.",
        guard="own_process",
        protection=(
            "The judge renews the values and writes over the cache from a process of its own: while that uses the GPU, "
            "nothing of the code's persists. Its lines are released and its limit is reset besides, before each call, "
            "and "
            "what slips through is held against the memory's bandwidth by the speed of light."
        ),
        needs=("cuda",),
        severity=ALWAYS,
        incidents=(met.PERSISTING_RESET, met.PERSISTING_RATE, met.PERSISTING_LINES),
    ),
)
