"""Cases of the issues of evaluation."""

from aiperf_core.validity.cases import Case
from aiperf_redteam.cases_leak import candidate

EVALUATION = "aiperf_redteam.evaluation"
EVALUATION_DEFINITION = "aiperf_redteam.evaluation_definition"
EVALUATION_TOLERANCE = "aiperf_redteam.evaluation_tolerance"

CASES: tuple[Case, ...] = (
    Case(issue="evaluation.eval_code_exploitation", module=EVALUATION, implementation="rewrites_judge"),
    Case(issue="evaluation.eval_code_exploitation", module=EVALUATION, implementation="imports_harness", honest=True),
    Case(issue="evaluation.benchmark_overfitting", module=EVALUATION, implementation="fitted"),
    Case(issue="evaluation.benchmark_overfitting", module=EVALUATION, implementation="fitted", device="cuda"),
    Case(issue="evaluation.benchmark_overfitting", module=EVALUATION, implementation="looks_first", honest=True),
    Case(
        issue="evaluation.benchmark_overfitting",
        module=EVALUATION,
        implementation="looks_first",
        device="cuda",
        honest=True,
    ),
    Case(issue="evaluation.metric_definition_gaming", module=EVALUATION_DEFINITION, implementation="constant"),
    Case(issue="evaluation.metric_definition_gaming", module=EVALUATION, implementation="looks_first", honest=True),
    *candidate("evaluation.self_modifying_tests", "edits_sources", "reads_own_file", held_by=("files",)),
    *candidate("evaluation.self_modifying_tests", "marks_sources", "copies_own_file", held_by=("system_calls",)),
    Case(issue="evaluation.self_modifying_tests", module=EVALUATION, implementation="reads_source", honest=True),
    Case(issue="evaluation.wide_tolerance", module=EVALUATION_TOLERANCE, implementation="constant"),
    Case(issue="evaluation.wide_tolerance", module=EVALUATION, implementation="looks_first", honest=True),
)
