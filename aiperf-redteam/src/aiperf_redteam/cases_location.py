"""Cases of the issues of location."""

from aiperf_core.validity.cases import Case
from aiperf_redteam.cases_output import pair

LOCATION = "aiperf_redteam.location"
TIMING_FIRST_CALLS = "aiperf_redteam.timing_first_calls"

CASES: tuple[Case, ...] = (
    Case(issue="location.setup_pre_computation", module=LOCATION, implementation="prepared_answer"),
    Case(issue="location.setup_pre_computation", module=LOCATION, implementation="prepared_answer", device="cuda"),
    Case(issue="location.setup_pre_computation", module=LOCATION, implementation="prepared_buffer", honest=True),
    Case(
        issue="location.setup_pre_computation",
        module=LOCATION,
        implementation="prepared_buffer",
        device="cuda",
        honest=True,
    ),
    Case(issue="location.graph_capture_cheat", module=LOCATION, implementation="captured_answer", device="cuda"),
    Case(
        issue="location.graph_capture_cheat",
        module=LOCATION,
        implementation="captured_work",
        device="cuda",
        honest=True,
    ),
    Case(issue="location.warmup_computation", module=LOCATION, implementation="first_answer"),
    Case(issue="location.warmup_computation", module=LOCATION, implementation="first_answer", device="cuda"),
    Case(issue="location.warmup_computation", module=LOCATION, implementation="first_buffer", honest=True),
    Case(
        issue="location.warmup_computation", module=LOCATION, implementation="first_buffer", device="cuda", honest=True
    ),
    Case(issue="location.background_thread", module=LOCATION, implementation="thread_between"),
    Case(issue="location.background_thread", module=LOCATION, implementation="thread_within", honest=True),
    Case(issue="location.background_thread", module=LOCATION, implementation="joined_thread", honest=True),
    Case(issue="location.lazy_evaluation_skip", module=LOCATION, implementation="promise"),
    Case(issue="location.lazy_evaluation_skip", module=LOCATION, implementation="promise", device="cuda"),
    Case(issue="location.lazy_evaluation_skip", module=LOCATION, implementation="view_of_buffer", honest=True),
    Case(
        issue="location.lazy_evaluation_skip",
        module=LOCATION,
        implementation="view_of_buffer",
        device="cuda",
        honest=True,
    ),
    Case(
        issue="location.jit_compilation_timing",
        module=TIMING_FIRST_CALLS,
        implementation="compiled_ahead",
        tier="standard",
    ),
    Case(
        issue="location.jit_compilation_timing",
        module=TIMING_FIRST_CALLS,
        implementation="lazy",
        honest=True,
        tier="standard",
    ),
    Case(issue="location.child_process", module=LOCATION, implementation="child_between"),
    Case(issue="location.child_process", module=LOCATION, implementation="child_before", honest=True),
    Case(issue="location.work_between_calls", module=LOCATION, implementation="interrupted"),
    Case(issue="location.work_between_calls", module=LOCATION, implementation="counts_releases", honest=True),
    *pair(
        "location.cpu_spillover",
        "spillover:on_the_host",
        "spillover:reads_numbers",
        ("cuda",),
        tier="standard",
    ),
)
