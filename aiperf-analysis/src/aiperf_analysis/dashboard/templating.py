"""Templates to pages. All that is not markup of ours is escaped, and shown without control characters."""

import functools
import hashlib
import shlex
from importlib import resources
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from aiperf_analysis.dashboard import cells, filters, guard, shown
from aiperf_analysis.dashboard.asked import Asked, View
from aiperf_analysis.dashboard.registry import SECTIONS, Page
from aiperf_analysis.dashboard.settings import Settings
from aiperf_analysis.dashboard.site import Site
from aiperf_analysis.sources.source import Reading, id_of
from aiperf_core import units
from aiperf_core.names import words
from aiperf_core.report import html, layout, svg
from aiperf_core.report.metrics import METRICS
from aiperf_learn.glossary.terms import Term, find

PACKAGE = "aiperf_analysis.dashboard"
MOST_LINES = 5000


@functools.cache
def environment() -> Environment:
    """The environment of the templates, with the functions that they call."""
    made = Environment(
        loader=PackageLoader(PACKAGE, "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=cells.plain,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals |= {
        "asset": asset,
        "svg": svg.markup,
        "row_address": shown.row_address,
        "target_address": shown.target_address,
        "id_of": id_of,
        "plural": units.plural,
        "with_query": filters.with_query,
        "moment": moment,
        "lines": lines,
        "breakable": cells.breakable,
        "filled": shown.filled,
        "opened": shown.opened,
        "lines_of": cells.body,
        "verdict": cells.verdict,
        "term_of": term_of,
    }
    return made


def term_of(heading: str) -> Term | None:
    """The term of a column of figures; None for other columns."""
    return find(heading) if heading in _FIGURES else None


_FIGURES = {metric.title for metric in METRICS.values()}


def lines(text: str) -> Markup:
    """A long text with its lines, each without control characters."""
    return Markup("\n").join(Markup("{}").format(_kept(line)) for line in text.split("\n")[:MOST_LINES])


def _kept(line: str) -> str:
    """A line with the blanks at its begin."""
    return line[: len(line) - len(line.lstrip(" "))] + words(line)


def moment(created: str) -> str:
    """A time in ISO 8601 as a date and a time; another text as it is."""
    return created[:16].replace("T", " ") if created[10:11] == "T" else created


def page(asked: Asked, view: View) -> Response:
    """A view as a page."""
    assert isinstance(asked.of, Page)
    csv = ""
    if view.api and view.csv:
        csv = f"{view.api}{'&' if '?' in view.api else '?'}format=csv"
    body = environment().get_template(view.template).render(
        view.data,
        **_common(asked.site, asked.of.path),
        page=asked.of,
        view=view,
        asked=asked,
        title=view.title or asked.of.title,
        command=shlex.join(["aiperf", *view.command]) if view.command else "",
        csv=csv,
    )  # fmt: skip
    response = HTMLResponse(body, view.status, {"refresh": str(view.again_s)} if view.again_s else None)
    has_cookie = guard.cookie(asked.request.headers, asked.site.settings) == asked.site.settings.session
    if asked.site.settings.token is None and not has_cookie:
        with_cookie(response, asked.site.settings)
    return response


def reading(site: Site, path: str, found: Reading) -> Response:
    """The page of a server that still reads its results. The source is asked nothing, and a browser loads it again."""
    body = (
        environment()
        .get_template("reading.html.jinja")
        .render(**_common(site, path, is_sorted=False), title="Reading the results", reading=found)
    )
    return HTMLResponse(body, headers={"refresh": "1"})


def error(site: Site, request: Request, status: int, title: str, text: str) -> Response:
    """An error as a page."""
    return HTMLResponse(
        environment().get_template("error.html.jinja").render(
            **_common(site, request.url.path, is_sorted=status < 500), title=title, status=status, text=text
        ),
        status,
    )  # fmt: skip


def login(site: Site, status: int) -> Response:
    """The page that takes a token."""
    body = environment().get_template("login.html.jinja").render(title="Token", wrong=status == 403)
    return HTMLResponse(body, status, {"www-authenticate": "Bearer"} if status == 401 else {})


def with_cookie(response: Response, settings: Settings) -> Response:
    """The response with the cookie of this server."""
    response.set_cookie(
        guard.cookie_name(settings),
        settings.session,
        httponly=True,
        samesite="strict",
        secure=settings.secure,
        path="/",
    )
    return response


def _common(site: Site, path: str, *, is_sorted: bool = True) -> dict[str, Any]:
    """The data of every page. On the page of a server's error, the navigation asks the source nothing."""
    shown_pages = [one for one in site.pages if not (site.settings.exported and one.needs_server)]
    listed = [one for one in shown_pages if one.section]
    more = [one for one in listed if is_sorted and (one.is_aside or not site.fills(one))]
    sections = [(name, [one for one in listed if one.section == name and one not in more]) for name in SECTIONS]
    return {"site": site, "sections": [(name, some) for name, some in sections if some], "more": more, "path": path}


# --- files of the browser


async def static(request: Request) -> Response:
    """A file of `static/`, which a browser keeps: its address has its hash."""
    found = assets().get(request.path_params["name"])
    if found is None:
        return Response("there is no such file\n", 404, media_type="text/plain")
    content, media, _ = found
    return Response(content, headers={"cache-control": "public, max-age=31536000, immutable"}, media_type=media)


MEDIA = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}


@functools.cache
def assets() -> dict[str, tuple[bytes, str, str]]:
    """The files of `static/` by name: content, type and hash. The style sheet has those of pictures and lessons."""
    from aiperf_learn.pages.html import style_sheet

    found = {}
    for file in sorted(resources.files(PACKAGE).joinpath("static").iterdir(), key=lambda one: one.name):
        media = MEDIA.get(file.name.rpartition(".")[2])
        if media is None:
            continue
        content = file.read_bytes()
        if file.name == "style.css":
            pictures = f"{svg.style_sheet()}{layout.STYLE}{style_sheet()}"
            content = html.colours("screen").encode() + content + pictures.encode()
        found[file.name] = (content, media, hashlib.sha256(content).hexdigest()[:12])
    return found


def asset(name: str) -> str:
    """The address of a file of `static/`."""
    return f"/static/{name}?{assets()[name][2]}"
