"""Evaluation: the exam itself is at fault."""

from aiperf_core.validity.issues import ALWAYS, Exclusion, Issue
from aiperf_core.validity.registry import incidents as met

ISSUES = (
    Issue(
        id="evaluation.eval_code_exploitation",
        title="The exam is changed to be passed",
        happens="The code under test reaches into the evaluation and changes what is checked, or how.",
        guard="own_process",
        protection=(
            "Reference, comparison, tolerance, statistics and verdict live in other processes, to which a worker has "
            "only a channel for replies. What it changes in its own process changes nothing there."
        ),
        severity=ALWAYS,
        incidents=(met.METR,),
        predecessor="Evaluation / Eval Code Exploitation",
    ),
    Issue(
        id="evaluation.timeout_manipulation",
        title="Limits are moved",
        happens="Time limits, budgets or numbers of samples are changed so that slowness does not show.",
        guard="self_check",
        protection=(
            "Limits and budgets belong to the supervisor and stand in the manifest. A benchmark can only ask for a "
            "longer "
            "preparation, which is excluded from all timings."
        ),
        severity=ALWAYS,
        excluded=Exclusion(
            construction=("The supervisor never imports code of a target, and its options are frozen."),
            test="aiperf-core/tests/harness/test_exclusions.py::test_code_of_a_target_cannot_move_limits",
        ),
        predecessor="Evaluation / Timeout Manipulation",
    ),
    Issue(
        id="evaluation.metric_definition_gaming",
        title="Speedup means what suits",
        happens="What is compared, and by which measure, is defined after the fact or differently for each result.",
        guard="self_check",
        protection=(
            "There is one definition: the median time of the baseline over that of the variant, on the same values, by "
            "the clock that the benchmark declared before the run. The judge and each worker tell what the benchmark "
            "declares to "
            "them and the hash of its file; a difference is a finding."
        ),
        severity=ALWAYS,
        incidents=(met.MLPERF_INFERENCE, met.HANS, met.CONSTRUCT_VALIDITY, met.MEDICAL_BENCHMARKS),
        predecessor="Evaluation / Metric Definition Gaming",
    ),
    Issue(
        id="evaluation.test_data_leakage",
        title="The test data were known",
        happens="The data of the exam were seen beforehand, in training or in the source.",
        guard="seeds",
        protection=(
            "The data of a run do not exist before it: they are drawn from secret seeds after the code was loaded. The "
            "seeds are published afterwards in the bundle and not used again."
        ),
        severity=ALWAYS,
        incidents=(met.CONTAMINATION_SURVEY, met.CONTAMINATION_NLP),
        predecessor="Evaluation / Test Data Leakage",
        excluded=Exclusion(
            construction="every seed is drawn anew from 62 bits right before its sample",
            test=(
                "aiperf-core/tests/validity/test_exclusions.py::test_seeds_are_drawn_from_62_bits_and_none_comes_twice"
            ),
        ),
    ),
    Issue(
        id="evaluation.benchmark_overfitting",
        title="Good at the benchmark only",
        happens="The code is fitted to the values, sizes or quirks of one benchmark and fails beside it.",
        guard="fresh_values",
        protection=(
            "Fitting to values gains nothing, since they are new for each call. Sizes are known and can be fitted to: "
            "`--set` runs others, and what a variant gives up is written under Breaks in its file."
        ),
        incidents=(met.UNDERSPECIFICATION, met.EPIC_SEPSIS, met.NATURAL_CODE, met.SHIFTED_DATA),
        predecessor="Evaluation / Benchmark Overfitting",
    ),
    Issue(
        id="evaluation.self_modifying_tests",
        title="The tests are rewritten",
        happens="The code that is tested edits its tests, its reference or the harness on disk.",
        guard="sandbox",
        protection=(
            "For code that is not trusted all files are read-only except a folder of its own. Sources are hashed "
            "before and after, and the hashes stand in the manifest."
        ),
        needs=("linux",),
        severity=ALWAYS,
        incidents=(met.METR,),
        predecessor="Evaluation / Self-Modifying Tests",
    ),
    Issue(
        id="evaluation.benchmark_memorization",
        title="The answers were learned by heart",
        happens="A table of expected answers, or of answers for known seeds, takes the place of the work.",
        guard="seeds",
        protection=(
            "Seeds have 62 bits and follow from a secret that is drawn when the run starts. That is more cases than "
            "anyone can learn."
        ),
        severity=ALWAYS,
        incidents=(met.AGENT_SHORTCUTS,),
        predecessor="Evaluation / Benchmark Memorization",
        excluded=Exclusion(
            construction="every seed is drawn anew from 62 bits, so that no table holds all values",
            test=(
                "aiperf-core/tests/validity/test_exclusions.py::test_seeds_are_drawn_from_62_bits_and_none_comes_twice"
            ),
        ),
    ),
    Issue(
        id="evaluation.missing_holdout_sets",
        title="Nothing is held back",
        happens="All cases are public before the exam, so that passing it says nothing of other cases.",
        guard="seeds",
        protection="Judged values come from seeds that did not exist when the code was written or prepared.",
        severity=ALWAYS,
        incidents=(met.AGENT_SHORTCUTS, met.TAY),
        predecessor="Evaluation / Missing Holdout Sets",
        excluded=Exclusion(
            construction="the sampler has an output judged after 12 samples without, however chance falls",
            test="aiperf-core/tests/validity/test_exclusions.py::test_outputs_are_judged_however_chance_falls",
        ),
    ),
    Issue(
        id="evaluation.wide_tolerance",
        title="A tolerance that lets everything pass",
        happens="Differences of the size of the values themselves are tolerated, and wrong code is called right.",
        guard="task_lint",
        protection=(
            "Tolerances come from one table of error budgets, by dtype and length; another needs its reason in "
            "writing. `aiperf lint` shows that half precision, truncation and worthless outputs fail it."
        ),
        severity=ALWAYS,
        incidents=(met.ZEROS_PASS,),
    ),
    Issue(
        id="evaluation.fails_open",
        title="A check that fails counts as passed",
        happens="An exception in a check, a skipped row or a regression ends in a success.",
        guard="self_check",
        protection=(
            "A check that raises makes the row of untrusted code UNTRUSTED, and warns in all other rows. An error of "
            "the judge ends "
            "the target, a skipped row says so with its reason, and each outcome has its own exit code."
        ),
        severity=ALWAYS,
        incidents=(met.EXIT_CODES,),
        excluded=Exclusion(
            construction=(
                "What a check raises is caught as a failure of that check, and each failure becomes a finding."
            ),
            test="aiperf-core/tests/harness/test_exclusions.py::test_a_check_that_raises_is_a_finding_of_the_row",
        ),
    ),
    Issue(
        id="evaluation.unreproducible_result",
        title="Figures that cannot be reproduced",
        happens="Results are published without the samples, versions, seeds or sources from which they came.",
        guard="versions",
        protection=(
            "A bundle holds raw samples, seeds, command line, versions and hashes of the sources. `aiperf recheck` "
            "recomputes the verdict from it, and `aiperf reproduce` runs it again and says what differs."
        ),
        incidents=(met.MLPERF_REPRODUCIBILITY, met.AI_SCIENTIST),
        excluded=Exclusion(
            construction="the schema refuses a result or a manifest without the fields that reproduce it",
            test="aiperf-core/tests/validity/test_exclusions.py::test_a_result_without_what_reproduces_it_is_refused",
        ),
    ),
)
