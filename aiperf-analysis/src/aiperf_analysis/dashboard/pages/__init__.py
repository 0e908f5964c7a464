"""The pages: a file each, with a function `page(asked) -> View`."""

from collections.abc import Iterable
from typing import Any

from aiperf_analysis.dashboard.registry import ADVISE, COMPARE, MACHINES, RUNS, Page, analyses
from aiperf_core.plugins import Plugins

_HERE = "aiperf_analysis.dashboard.pages"
# Titles of analyses other than their names.
TITLES = {
    "overview": "Gains",
    "improvements": "Mechanisms",
    "targets": "Goals",
    "context": "For a language model",
    "whatif": "What-if",
    "tradeoff": "Trade-offs",
}
# Contents of a site without which the page of an analysis is empty (see `Page.needs`).
NEEDS = {"leaderboard": ("standard", "audit"), "power": ("energy",), "cost": ("prices",), "targets": ("goals",)}
# Analyses under the heading of advice.
ADVICE = ("recommend", "improvements", "coverage", "targets", "context")


def _page(path: str, name: str, title: str, question: str, load: str, section: str = "", **more: Any) -> Page:
    return Page(path=path, name=name, title=title, question=question, load=f"{_HERE}.{load}", section=section, **more)


PAGES: tuple[Page, ...] = (
    _page(
        "/", "overview", "Overview", "What ran last, what got worse, and what is not trusted?", "overview:page", RUNS
    ),
    _page("/live", "live", "Live", "Which runs are going on now?", "live:page", RUNS, needs_server=True),
    _page(
        "/live/{id}",
        "live-run",
        "Live run",
        "What is this run measuring now, and how sure is it already?",
        "live:page_of_one",
        needs_server=True,
    ),
    _page("/live/{id}/results", "live-results", "Results", "Where are its results?", "live:results", needs_server=True),
    _page("/runs", "runs", "Runs", "Which runs are there?", "runs:page", RUNS),
    _page("/rows", "rows", "Rows", "Which rows of all runs match?", "rows:page", RUNS),
    _page(
        "/compare",
        "compare",
        "Compare",
        "What differs between two runs, and what became faster or slower?",
        "compare:page",
        RUNS,
    ),
    _page(
        "/validity",
        "validity",
        "Validity",
        "What is not trusted, why, and which guards are proven?",
        "validity:page",
        RUNS,
    ),
    _page(
        "/roofline",
        "roofline",
        "Roofline",
        "How near is each implementation to what its machine allows?",
        "roofline:page",
        COMPARE,
    ),
    _page(
        "/target/{t:path}",
        "target",
        "Target",
        "How fast is this target on each kind of machine, why, and how did that change?",
        "target:page",
    ),
    _page(
        "/lesson/{t}",
        "lesson",
        "Lesson",
        "Why is each step faster, and what does its code do differently?",
        "lesson:page",
        needs_server=True,
    ),
    _page("/run/{id}", "run", "Run", "What did this run measure, on which machine, and can it be trusted?", "run:page"),
    _page(
        "/run/{id}/recheck",
        "recheck",
        "Recheck",
        "Do the seal and the figures of this run hold?",
        "recheck:page",
        method="POST",
        needs_server=True,
    ),
    _page(
        "/samples/{id}",
        "samples",
        "Samples",
        "Which times were measured, in which order, and how do they spread?",
        "samples:page",
    ),
    _page(
        "/series/{key}",
        "series",
        "Series",
        "How did this figure change from run to run?",
        "series:page",
    ),
    _page(
        "/machines",
        "machines",
        "Machines",
        "Which machines measured, and which of a kind is slow?",
        "machines:page",
        MACHINES,
    ),
    _page("/machine/{id}", "machine", "Machine", "What does this machine reach?", "machines:page_of_one"),
    _page("/traces", "traces", "Traces", "Which traces are there?", "traces:page", MACHINES, needs=("traces",)),
    _page("/trace/{id}", "trace", "Trace", "Where does the time of this trace go?", "traces:page_of_one"),
    _page(
        "/profiles",
        "profiles",
        "Profiles",
        "Which profiles are there, and what do they show?",
        "profiles:page",
        MACHINES,
        needs=("profiles",),
    ),
    _page("/loads", "loads", "Loads", "Which loads on servers were measured?", "loads:page", MACHINES, needs=("load",)),
    _page("/load/{id}", "load", "Load", "How did the server answer under this load?", "loads:page_of_one"),
    _page(
        "/fleets",
        "fleets",
        "Fleets",
        "Which fleets of machines ran a suite?",
        "fleets:page",
        MACHINES,
        needs=("fleet",),
    ),
    _page(
        "/fleet/{id}", "fleet", "Fleet", "What became of its tasks, and which machine is slow?", "fleets:page_of_one"
    ),
    _page(
        "/checklist",
        "checklist",
        "Checklist",
        "What is recommended, and what do results prove?",
        "checklist:page",
        ADVISE,
    ),
    _page(
        "/calc",
        "calc",
        "Calculators",
        "How large is a cache, and what does a token cost?",
        "calc:page",
        ADVISE,
        needs_server=True,
    ),
    _page("/glossary", "glossary", "Glossary", "What does a term mean?", "glossary:page", ADVISE, is_aside=True),
)


def every(plugins: Plugins) -> list[Page]:
    """All pages: those of `PAGES`, and of each analysis of bundles that has none there."""
    own = {page.analysis for page in PAGES}
    taken = {page.path for page in PAGES}
    return [*PAGES, *(_generated(name, plugins, taken) for name in analyses(plugins) if name not in own)]


def _generated(name: str, plugins: Plugins, taken: Iterable[str]) -> Page:
    path = f"/{name}"
    return Page(
        path=f"/analyses/{name}" if path in taken or name in ("api", "static", "login") else path,
        name=f"analysis-{name}",
        title=TITLES.get(name, name.capitalize().replace("-", " ")),
        question=plugins.analyses[name].record.summary,
        load=f"{_HERE}.analysis:page",
        section=ADVISE if name in ADVICE else COMPARE,
        analysis=name,
        needs=NEEDS.get(name, ()),
    )
