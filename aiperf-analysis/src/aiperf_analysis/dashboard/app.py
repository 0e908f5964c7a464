"""The application: a route for each page and endpoint, and errors as pages or as problem documents."""

import inspect
import logging
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import parse_qs

import anyio
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Scope

from aiperf_analysis.dashboard import guard, problems, templating
from aiperf_analysis.dashboard.api import respond
from aiperf_analysis.dashboard.asked import Asked, View
from aiperf_analysis.dashboard.registry import Endpoint, Page
from aiperf_analysis.dashboard.settings import Settings
from aiperf_analysis.dashboard.site import Site
from aiperf_analysis.sources.errors import GoneError, NotFoundError
from aiperf_analysis.sources.source import Source
from aiperf_core.errors import AiperfError, UsageError
from aiperf_core.plugins import Plugins, load_plugins

_LOG = logging.getLogger("aiperf.dashboard")
GZIP_FROM = 1024  # bytes of an answer

Handler = Callable[[Request], Awaitable[Response]]


def create_app(source: Source, settings: Settings | None = None, plugins: Plugins | None = None) -> Starlette:
    """The application of a source.

    plugins: what is installed; None loads it.
    """
    site = Site(source, settings or Settings(), plugins or load_plugins())
    routes = [
        Route("/static/{name}", templating.static, methods=["GET"]),
        Route("/login", _login, methods=["GET", "POST"]),
        *(_route(site, one) for one in site.endpoints),
        *(_route(site, one) for one in sorted(site.pages, key=lambda page: "{" in page.path)),
    ]
    app = Starlette(
        routes=routes,
        middleware=[
            Middleware(guard.Guard, settings=site.settings, refuse=_refuser(site)),
            Middleware(GZipMiddleware, minimum_size=GZIP_FROM),
        ],
        exception_handlers={HTTPException: _on_http, Exception: _on_bug},
    )
    app.state.site = site
    return app


def _route(site: Site, one: Page | Endpoint) -> Route:
    path = one.path if isinstance(one, Page) else one.address
    return Route(path, _handler(site, one), methods=[one.method], name=one.name)


def _handler(site: Site, one: Page | Endpoint) -> Handler:
    """Call a handler in a thread within the time limit, and make its view or answer a response."""

    async def handle(request: Request) -> Response:
        asked = Asked(site=site, path=dict(request.path_params), query=_query(request), of=one, request=request)
        try:
            function = one.resolve()
            with anyio.fail_after(site.settings.answer_s):
                if isinstance(one, Page) and (found := await run_in_threadpool(site.reading)) is not None:
                    return templating.reading(site, one.path, found)
                if inspect.iscoroutinefunction(function):
                    return await _made(asked, await function(asked))
                return await anyio.to_thread.run_sync(_both, asked, function, abandon_on_cancel=True)
        except TimeoutError:
            return _problem(
                asked, 503, "It took too long", f"No answer within {site.settings.answer_s:g} s. Ask for less."
            )
        except ClientDisconnect:
            return Response(status_code=400)
        except AiperfError as error:
            status, title = _status(error)
            return _problem(asked, status, title, str(error))
        except Exception as error:
            return await _on_bug(request, error)

    return handle


def _both(asked: Asked, function: Callable[[Asked], Any]) -> Response:
    return _response(asked, function(asked))


async def _made(asked: Asked, found: Any) -> Response:
    return found if isinstance(found, Response) else await run_in_threadpool(_response, asked, found)


def _response(asked: Asked, found: Any) -> Response:
    if isinstance(found, Response):
        return found
    if isinstance(found, View):
        if found.redirect:
            return RedirectResponse(found.redirect, status_code=303)
        return templating.page(asked, found)
    return respond(asked, found)


def _query(request: Request) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, text in request.query_params.multi_items():
        found.setdefault(name, []).append(text)
    return found


def _status(error: AiperfError) -> tuple[int, str]:
    if isinstance(error, NotFoundError):
        return 404, "Not found"
    if isinstance(error, GoneError):
        return 503, "The results cannot be read"
    if isinstance(error, UsageError):
        return 400, "Wrong request"
    return 422, "No result"


def _problem(asked: Asked, status: int, title: str, text: str) -> Response:
    if isinstance(asked.of, Endpoint):
        return problems.document(status, title, text)
    return templating.error(asked.site, asked.request, status, title, text)


def _refuser(site: Site) -> guard.Refuse:
    def refuse(scope: Scope, status: int, title: str, text: str) -> ASGIApp:
        if scope["path"].startswith("/api/"):
            return problems.document(status, title, text)
        if status == 401:
            return templating.login(site, status)
        return templating.error(site, Request(scope), status, title, text)

    return refuse


async def _login(request: Request) -> Response:
    """Exchange the token for the cookie of this server."""
    site: Site = request.app.state.site
    if request.method == "GET":
        return templating.login(site, 200)
    try:
        body = (await request.body()).decode(errors="replace")
    except ClientDisconnect:
        return templating.error(site, request, 413, "Body too large", "A token is shorter.")
    token = next(iter(parse_qs(body, max_num_fields=8).get("token", [])), "") if body.count("&") < 8 else ""
    if site.settings.token is None or guard.same(token.strip(), site.settings.token):
        return templating.with_cookie(RedirectResponse("/", status_code=303), site.settings)
    return templating.login(site, 403)


async def _on_http(request: Request, error: Exception) -> Response:
    """An address or a method that no route has."""
    status = getattr(error, "status_code", 500)
    titles = {404: "Not found", 405: "Method not allowed"}
    title = titles.get(status, "Wrong request")
    text = "Nothing has this address." if status == 404 else str(getattr(error, "detail", ""))
    if request.url.path.startswith("/api/"):
        return problems.document(status, title, text)
    return templating.error(request.app.state.site, request, status, title, text)


async def _on_bug(request: Request, error: Exception) -> Response:
    """An error of ours: the log has the traceback, the reader a sentence."""
    _LOG.error("%s %s", request.method, request.url.path, exc_info=error)
    title, text = "An error of aiperf", "The server's output has the details. Please report it."
    if request.url.path.startswith("/api/"):
        return problems.document(500, title, text)
    return templating.error(request.app.state.site, request, 500, title, text)
