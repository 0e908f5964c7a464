"""A lesson: what a target asks, the code of each step, the mechanism, and an exercise, as the docs have it."""

from markupsafe import Markup

from aiperf_analysis.dashboard.asked import Asked, View
from aiperf_analysis.dashboard.shown import quoted
from aiperf_analysis.sources.errors import NotFoundError
from aiperf_core.names import words
from aiperf_learn.pages.separate import fragment


def page(asked: Asked) -> View:
    """The lesson of the installed target of that name. Raises NotFoundError for another name, and off loopback."""
    name = asked.path["t"]
    if not asked.site.settings.shows_lessons:
        raise NotFoundError("lessons are shown to readers on this machine only; write one as a file by: aiperf page")
    target = next((target for target in asked.site.plugins.targets if target.name == name), None)
    if target is None:
        raise NotFoundError(f"no target '{words(name[:200])}' is installed here. The targets: aiperf list")
    return View(
        template="lesson.html.jinja",
        title=name,
        data={"lesson": Markup(fragment(target))},
        command=["page", name, "--out", "lesson.html"],
        crumbs=[("Results", f"/target/{quoted(name)}")],
    )
