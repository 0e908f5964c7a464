"""Request and response types of dashboard handlers."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from attrs import field, frozen

from aiperf_analysis.filters import Filters
from aiperf_core.errors import UsageError
from aiperf_core.names import words

if TYPE_CHECKING:
    from starlette.requests import Request

    from aiperf_analysis.dashboard.registry import Endpoint, Page
    from aiperf_analysis.dashboard.site import Site
    from aiperf_core.report.result import Table


@frozen(kw_only=True)
class Asked:
    """A request.

    path: the parts of the address, such as the `id` of `/run/{id}`.
    query: the texts of each name.
    of: the page or the endpoint.
    request: the request itself, for handlers that stream.
    """

    site: "Site"
    path: Mapping[str, str]
    query: Mapping[str, Sequence[str]]
    of: "Page | Endpoint"
    request: "Request"

    def one(self, name: str, default: str = "") -> str:
        """The last text of a name."""
        return next((text for text in reversed(self.query.get(name, ())) if text), default)

    def page_of(self, total: int, length: int) -> tuple[int, int]:
        """The page that the query asks for, within the pages of a list, and the number of pages. Raises UsageError."""
        pages = max(1, -(-total // length))
        return min(max(whole_number("page", self.one("page", "1")), 1), pages), pages

    @property
    def analysis(self) -> str:
        """The analysis that the page or the endpoint shows."""
        return self.of.analysis or ""

    @property
    def filters(self) -> Filters:
        """What selects rows. Raises UsageError for a label without a name."""
        return Filters.of(self.query)


@frozen(kw_only=True)
class View:
    """A page to be rendered.

    template: its file in `templates/`.
    title: its heading, which may come from a bundle.
    data: what the template shows.
    command: the command line that gives the same, as arguments; empty for none.
    api: the address of the same as JSON; with `format=csv` as CSV where `csv` is true.
    crumbs: the pages above it, as pairs of title and address.
    redirect: an address to go to instead.
    again_s: after this time a browser loads the page again; 0 for never.
    """

    template: str = ""
    title: str = ""
    data: dict[str, Any] = field(factory=dict)
    command: Sequence[str] = ()
    api: str = ""
    csv: bool = False
    crumbs: Sequence[tuple[str, str]] = ()
    status: int = 200
    redirect: str = ""
    again_s: int = 0


@frozen(kw_only=True)
class Answer:
    """An answer of the API: a JSON document, and its tables for CSV."""

    document: Any
    tables: "Sequence[Table]" = ()
    status: int = 200
    headers: Mapping[str, str] = field(factory=dict)


def whole_number(name: str, text: str, most: int = 10**6) -> int:
    """A parameter that is a whole number from 0 to `most`. Raises UsageError."""
    if not (text.isascii() and text.isdecimal() and len(text) <= 9 and int(text) <= most):
        raise UsageError(f"{name} takes a whole number up to {most:,}; got {words(text[:40])!r}.")
    return int(text)
