"""The checklist: recommendations, and which of them these results prove. Probes run by the command only."""

from aiperf_analysis.dashboard import filters
from aiperf_analysis.dashboard.asked import Asked, View
from aiperf_analysis.dashboard.pages import document
from aiperf_core.errors import UsageError
from aiperf_core.report.result import Result


def page(asked: Asked) -> View:
    """The items of a topic, or those that contain the words of `search`."""
    from aiperf_analysis.advice.items import topics

    result, problem = None, ""
    try:
        result = of_items(asked)
    except UsageError as error:
        problem = str(error)
    given = [(name, asked.one(name)) for name in ("topic", "search") if asked.one(name)]
    return document.view(
        asked,
        result,
        api=filters.with_query("/api/v1/checklist", [*asked.filters.query, *given]),
        command=["checklist", *(part for name, text in given for part in (f"--{name}", text))],
        template="checklist.html.jinja",
        problem=problem,
        filtered=False,
        topics=[one.name for one in topics()],
    )


def of_items(asked: Asked) -> Result:
    """The items as a result. Raises UsageError for an unknown topic, and for words that no item has."""
    from aiperf_analysis.advice import checklist, items
    from aiperf_core.results.machine import machine

    topic, search = asked.one("topic") or None, asked.one("search") or None
    items.chosen(topic, search)
    return asked.site.kept(
        ("checklist", repr(asked.filters), topic or "", search or ""),
        lambda: checklist.checklist(asked.site.source.selection(asked.filters), machine(), topic=topic, search=search),
    )
