"""Cases of the issues of tamper."""

from aiperf_core.validity.cases import Case
from aiperf_redteam.cases_leak import candidate

TAMPER = "aiperf_redteam.tamper"
TIMING_CLOCKS = "aiperf_redteam.timing_clocks"
TIMING_CACHE = "aiperf_redteam.timing_cache"

CASES: tuple[Case, ...] = (
    Case(issue="tamper.clock", module=TIMING_CLOCKS, implementation="moved_note"),
    Case(issue="tamper.clock", module=TIMING_CLOCKS, implementation="asks_who_calls", honest=True),
    Case(issue="tamper.synchronize", module=TAMPER, implementation="no_waiting", device="cuda"),
    Case(issue="tamper.synchronize", module=TAMPER, implementation="waits", device="cuda", honest=True),
    Case(issue="tamper.comparison", module=TAMPER, implementation="patched_comparison"),
    Case(issue="tamper.comparison", module=TAMPER, implementation="own_body", honest=True),
    Case(issue="tamper.code_objects", module=TAMPER, implementation="swapped_body"),
    Case(issue="tamper.code_objects", module=TAMPER, implementation="own_body", honest=True),
    Case(issue="tamper.tolerance", module=TAMPER, implementation="widened_tolerance"),
    Case(issue="tamper.tolerance", module=TAMPER, implementation="asks_for_flags", honest=True),
    Case(issue="tamper.random_numbers", module=TAMPER, implementation="easy_numbers"),
    Case(issue="tamper.random_numbers", module=TAMPER, implementation="in_halves", honest=True),
    Case(issue="tamper.problem_size", module=TAMPER, implementation="shrunk"),
    Case(issue="tamper.problem_size", module=TAMPER, implementation="shrunk", device="cuda"),
    Case(issue="tamper.problem_size", module=TAMPER, implementation="in_halves", honest=True),
    Case(issue="tamper.problem_size", module=TAMPER, implementation="in_halves", device="cuda", honest=True),
    Case(issue="tamper.iteration_count", module=TAMPER, implementation="fewer_calls"),
    Case(issue="tamper.iteration_count", module=TAMPER, implementation="in_halves", honest=True),
    Case(issue="tamper.cache_flush", module=TIMING_CACHE, implementation="unflushed_table", gains="silence"),
    Case(issue="tamper.cache_flush", module=TIMING_CACHE, implementation="in_halves", honest=True),
    Case(issue="tamper.do_bench", module=TAMPER, implementation="patched_do_bench", gains="silence"),
    Case(issue="tamper.do_bench", module=TAMPER, implementation="imports_do_bench", honest=True),
    Case(issue="tamper.statistics", module=TAMPER, implementation="patched_statistics"),
    Case(issue="tamper.statistics", module=TAMPER, implementation="prints", honest=True),
    Case(issue="tamper.result_writer", module=TAMPER, implementation="patched_writer"),
    Case(issue="tamper.result_writer", module=TAMPER, implementation="prints", honest=True),
    Case(issue="tamper.forged_messages", module=TAMPER, implementation="impostor"),
    Case(issue="tamper.forged_messages", module=TAMPER, implementation="prints", honest=True),
    Case(issue="tamper.early_exit", module=TAMPER, implementation="leaves"),
    Case(issue="tamper.early_exit", module=TAMPER, implementation="prints", honest=True),
    *candidate("tamper.dropped_files", "drops_files", "reads_own_file", held_by=("files",)),
    Case(issue="tamper.dropped_files", module=TAMPER, implementation="keeps_file", honest=True),
    Case(issue="tamper.baseline", module=TAMPER, implementation="slowed_baseline"),
    Case(issue="tamper.baseline", module=TAMPER, implementation="own_body", honest=True),
    Case(issue="tamper.global_flags", module=TAMPER, implementation="loose_flags"),
    Case(issue="tamper.global_flags", module=TAMPER, implementation="asks_for_flags", honest=True),
    Case(issue="tamper.function_mode", module=TAMPER, implementation="never_left", gains="silence"),
    Case(issue="tamper.function_mode", module=TAMPER, implementation="left_again", honest=True),
    *candidate(
        "tamper.harness_processes",
        "stops_baseline",
        "signals_itself",
        held_by=("signals", "system_calls"),
        needs=("processors>=2",),
        gains="verdict",
        other_guards=("conditions",),  # the baseline loses its processor in each sample
    ),
    Case(
        issue="tamper.harness_processes",
        module="aiperf_redteam.judged",
        implementation="owns_pipe",
        gains="word",
        candidate=True,
        held_by=("system_calls",),
    ),
    Case(issue="tamper.harness_processes", module=TAMPER, implementation="signals_itself", honest=True),
)
