"""Cases of the issues of compile."""

from aiperf_core.validity.cases import Case

COMPILING = "aiperf_redteam.compiling"
STATISTICAL_LUCK = "aiperf_redteam.statistical_luck"

CASES: tuple[Case, ...] = (
    Case(issue="compile.compilation_cache_hit", module=COMPILING, implementation="folded"),
    Case(issue="compile.compilation_cache_hit", module=COMPILING, implementation="folded", device="cuda"),
    Case(issue="compile.compilation_cache_hit", module=COMPILING, implementation="compiled", honest=True),
    Case(
        issue="compile.compilation_cache_hit", module=COMPILING, implementation="compiled", device="cuda", honest=True
    ),
    Case(issue="compile.trace_reuse", module=COMPILING, implementation="traced_numbers"),
    Case(issue="compile.trace_reuse", module=COMPILING, implementation="traced_numbers", device="cuda"),
    Case(issue="compile.trace_reuse", module=COMPILING, implementation="traced", honest=True),
    Case(issue="compile.trace_reuse", module=COMPILING, implementation="traced", device="cuda", honest=True),
    Case(issue="compile.mode_inconsistency", module=COMPILING, implementation="checked_in_another_mode"),
    Case(issue="compile.mode_inconsistency", module=COMPILING, implementation="checked_in_another_mode", device="cuda"),
    Case(issue="compile.mode_inconsistency", module=COMPILING, implementation="eager_at_first", honest=True),
    Case(
        issue="compile.mode_inconsistency",
        module=COMPILING,
        implementation="eager_at_first",
        device="cuda",
        honest=True,
    ),
    Case(issue="compile.inductor_asymmetry", module=COMPILING, implementation="turns_options", gains="silence"),
    Case(issue="compile.inductor_asymmetry", module=COMPILING, implementation="reads_options", honest=True),
    Case(
        issue="compile.autotuning_variance",
        module=STATISTICAL_LUCK,
        implementation="tuned_by_noise",
        tier="standard",
        alone=True,
    ),
    Case(
        issue="compile.autotuning_variance",
        module=STATISTICAL_LUCK,
        implementation="by_rule",
        tier="standard",
        honest=True,
    ),
    Case(issue="compile.symbolic_shape_exploit", module=COMPILING, implementation="by_shape"),
    Case(issue="compile.symbolic_shape_exploit", module=COMPILING, implementation="by_shape", device="cuda"),
    Case(issue="compile.symbolic_shape_exploit", module=COMPILING, implementation="chooses_by_shape", honest=True),
    Case(
        issue="compile.symbolic_shape_exploit",
        module=COMPILING,
        implementation="chooses_by_shape",
        device="cuda",
        honest=True,
    ),
)
