"""Cases of the issues of leak."""

from aiperf_core.redteam.cases import Case

LEAK = "aiperf_core.redteam.leak"

CASES: tuple[Case, ...] = (
    Case(issue="leak.heap_scan", module=LEAK, implementation="counts_objects", honest=True),
    Case(issue="leak.frame_walk", module=LEAK, implementation="names_caller", honest=True),
    Case(issue="leak.golden_file", module=LEAK, implementation="reads_own_file", honest=True),
    Case(issue="leak.judge_memory", module=LEAK, implementation="reads_own_memory", honest=True),
    Case(issue="leak.another_answer", module=LEAK, implementation="uses_empty", honest=True),
)

# What these look for is not there, with every guard on; no switch puts it there.
BY_CONSTRUCTION: tuple[Case, ...] = (
    Case(issue="leak.heap_scan", module=LEAK, implementation="heap_scan"),
    Case(issue="leak.frame_walk", module=LEAK, implementation="frame_walk"),
    Case(issue="leak.golden_file", module=LEAK, implementation="golden_file"),
    Case(issue="leak.judge_memory", module=LEAK, implementation="judge_memory"),
    Case(issue="leak.another_answer", module=LEAK, implementation="another_answer"),
)
