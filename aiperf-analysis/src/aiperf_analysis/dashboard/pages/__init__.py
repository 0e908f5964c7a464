"""The pages: a file each, with a function `page(asked) -> View`."""

from aiperf_analysis.dashboard.registry import COMPARE, RUNS, Page

_HERE = "aiperf_analysis.dashboard.pages"
# Analyses of files instead of bundles.
OF_FILES = ("trace", "trace-diff")
# Analyses under the heading of advice.
ADVICE = ("recommend", "improvements", "coverage", "targets", "context")

PAGES: tuple[Page, ...] = (
    Page(
        path="/",
        name="overview",
        title="Overview",
        question="What ran last, what got worse, and what is not trusted?",
        load=f"{_HERE}.overview:page",
        section=RUNS,
    ),
    Page(
        path="/runs",
        name="runs",
        title="Runs",
        question="Which runs are there?",
        load=f"{_HERE}.runs:page",
        section=RUNS,
    ),
    Page(
        path="/rows",
        name="rows",
        title="Rows",
        question="Which rows of all runs match?",
        load=f"{_HERE}.rows:page",
        section=RUNS,
    ),
    Page(
        path="/compare",
        name="compare",
        title="Compare",
        question="What differs between two runs, and what became faster or slower?",
        load=f"{_HERE}.compare:page",
        section=RUNS,
    ),
    Page(
        path="/roofline",
        name="roofline",
        title="Roofline",
        question="How near is each implementation to what its machine allows?",
        load=f"{_HERE}.roofline:page",
        section=COMPARE,
    ),
    Page(
        path="/target/{t:path}",
        name="target",
        title="Target",
        question="How fast is this target on each kind of machine, why, and how did that change?",
        load=f"{_HERE}.target:page",
    ),
    Page(
        path="/run/{id}",
        name="run",
        title="Run",
        question="What did this run measure, on which machine, and can it be trusted?",
        load=f"{_HERE}.run:page",
    ),
    Page(
        path="/run/{id}/recheck",
        name="recheck",
        title="Recheck",
        question="Do the seal and the figures of this run hold?",
        load=f"{_HERE}.recheck:page",
        method="POST",
    ),
    Page(
        path="/samples/{id}",
        name="samples",
        title="Samples",
        question="Which times were measured, in which order, and how do they spread?",
        load=f"{_HERE}.samples:page",
    ),
)
