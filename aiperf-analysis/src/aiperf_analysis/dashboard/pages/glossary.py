"""The glossary: all terms with their definitions, each under an anchor."""

from aiperf_analysis.dashboard.asked import Asked, View
from aiperf_core.report.result import Result
from aiperf_learn.glossary.terms import by_section, find, listing


def page(asked: Asked) -> View:
    """All terms by section."""
    return View(
        template="glossary.html.jinja",
        data={"glossary": by_section(), "find": find},
        command=["explain", "--terms"],
        api="/api/v1/glossary",
        csv=True,
    )


def every(_: Asked) -> Result:
    """All terms as a result."""
    return listing()
