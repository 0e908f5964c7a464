"""The records of pages and endpoints. Routes, navigation, the API and its OpenAPI document are made from them."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from attrs import field, frozen

from aiperf_core.plugins import Plugins

# The headings of the navigation, in their order. A page without one is reached by links only.
RUNS, COMPARE, ADVISE, MACHINES = "Results", "Analyses", "Advice", "Machines"
SECTIONS = (RUNS, COMPARE, ADVISE, MACHINES)
# Analyses of files instead of bundles.
OF_FILES = ("trace", "trace-diff")


def _loaded(place: str) -> Callable[..., Any]:
    module, _, name = place.partition(":")
    found: Callable[..., Any] = getattr(import_module(module), name)
    return found


@frozen(kw_only=True)
class Page:
    """A page.

    path: its address, such as `/run/{id}`.
    name: its name, unique among pages.
    title: of the navigation and the heading.
    question: what the page answers.
    load: its function `(Asked) -> View`, as `package.module:function`. It is imported with the first request.
    section: its heading in the navigation; empty for a page that is reached by links only.
    analysis: the analysis that it shows, whose generated page it replaces.
    method: `GET`, or `POST` for an action, which then needs the cookie and the origin of this server.
    needs_server: whether it is useless as a file, so that a static site leaves it out.
    needs: contents of the site, of which one fills the page; without them it stands behind "More". Empty for no such
        need.
    is_aside: whether it always stands behind "More".
    """

    path: str
    name: str
    title: str
    question: str
    load: str
    section: str = ""
    analysis: str | None = None
    method: str = "GET"
    needs_server: bool = False
    needs: tuple[str, ...] = ()
    is_aside: bool = False

    def resolve(self) -> Callable[..., Any]:
        """Import the function."""
        return _loaded(self.load)


@frozen(kw_only=True)
class Parameter:
    """A parameter of an endpoint.

    place: `path` or `query`.
    schema: its JSON Schema.
    """

    name: str
    about: str
    place: str = "query"
    schema: Mapping[str, Any] = field(factory=lambda: {"type": "string"})
    required: bool = False


@frozen(kw_only=True)
class Endpoint:
    """An endpoint of the API.

    path: below `/api/v1`, or a whole path for an old address.
    name: its name, unique among endpoints: the `operationId`.
    load: its function `(Asked) -> Answer`, as `package.module:function`.
    schema: the JSON Schema of the answer; `{"$ref": ...}` of a component is possible.
    csv: whether `?format=csv` gives its tables.
    scope: the token that it needs: `read`, or `add`.
    successor: of an old address, the one that replaces it.
    analysis: the analysis that it calls.
    media: the type of the answer where it is not JSON.
    """

    path: str
    name: str
    summary: str
    load: str
    method: str = "GET"
    parameters: tuple[Parameter, ...] = ()
    schema: Mapping[str, Any] = field(factory=lambda: {"type": "object"})
    csv: bool = False
    scope: str = "read"
    successor: str | None = None
    analysis: str | None = None
    media: str = "application/json"

    @property
    def address(self) -> str:
        """Its whole path."""
        return self.path if self.successor else f"/api/v1{self.path}"

    def resolve(self) -> Callable[..., Any]:
        """Import the function."""
        return _loaded(self.load)


def analyses(plugins: Plugins) -> list[str]:
    """The names of the analyses that a page can show: of bundles, not of files."""
    return [name for name in plugins.analyses if name not in OF_FILES]
