"""Compile: compilers keep, change or hide something."""

from aiperf_core.validity.issues import ALWAYS, SOFT, Exclusion, Issue

ISSUES = (
    Issue(
        id="compile.compilation_cache_hit",
        title="Compiled code with the answer in it",
        happens="A compiler's cache returns code into which values of an earlier run were folded as constants.",
        guard="fresh_values",
        protection=(
            "Code may come from a cache, values may not: those of every sample are new. Whether compiling was paid for "
            "is settled by the uncounted samples, alike for all."
        ),
        needs=("compiler",),
        severity=ALWAYS,
        predecessor="Compile / Compilation Cache Hit",
    ),
    Issue(
        id="compile.trace_reuse",
        title="A trace that no longer fits",
        happens="A recorded trace runs again although it holds branches, addresses or numbers of old inputs.",
        guard="fresh_values",
        protection="Inputs are refreshed at the same addresses before every sample; a trace of old values is wrong.",
        needs=("compiler",),
        severity=ALWAYS,
        predecessor="Compile / Trace Reuse",
    ),
    Issue(
        id="compile.mode_inconsistency",
        title="Checked in one mode, timed in another",
        happens="The verified code is compiled, or compiled in another mode; the timed code is not.",
        guard="judged_output",
        protection="The timed call's own output is judged, and the code learns only afterwards that it was.",
        needs=("compiler",),
        severity=ALWAYS,
        predecessor="Compile / Mode Inconsistency",
    ),
    Issue(
        id="compile.inductor_asymmetry",
        title="Compiler options on one side only",
        happens="Global options of the compiler differ between the sides, and the gain is that of the option.",
        guard="global_state",
        protection=(
            "All workers start as forks of one server, with the same environment and options. Options of the process "
            "that an implementation turns are found when the state is compared; options that it passes itself are its "
            "mechanism, and stand in its source."
        ),
        needs=("compiler",),
        severity=SOFT,
        predecessor="Compile / Inductor Asymmetry",
    ),
    Issue(
        id="compile.guard_failure_hidden",
        title="A recompilation is left out",
        happens="A guard fails, the code is compiled once more, and that call is dropped as an outlier.",
        guard="self_check",
        protection="No sample is dropped: a call that compiles again stays, and widens the interval.",
        excluded=Exclusion(
            construction=(
                "The sampler keeps each timed sample as soon as it is answered, before anything looks at its time, and "
                "no code "
                "removes one."
            ),
            test="aiperf-core/tests/harness/test_exclusions.py::test_a_slow_call_stays_among_the_samples",
        ),
        predecessor="Compile / Guard Failure Hidden",
    ),
    Issue(
        id="compile.autotuning_variance",
        title="Tuning picks another kernel each time",
        happens="An autotuner decides by noisy timings, and one lucky choice is reported.",
        guard="own_process",
        protection="Rounds of fresh processes tune anew and widen the interval; the ledger names the kernels that ran.",
        needs=("compiler",),
        severity=SOFT,
        predecessor="Compile / Autotuning Variance",
    ),
    Issue(
        id="compile.symbolic_shape_exploit",
        title="Other code for other shapes",
        happens="Verification uses shapes for which the generated code is right, and timing uses others.",
        guard="judged_output",
        protection="Judged are the timed calls at the timed shapes. There are no shapes for verification.",
        needs=("compiler",),
        severity=ALWAYS,
        predecessor="Compile / Symbolic Shape Exploit",
    ),
)
