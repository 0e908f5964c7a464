"""A report as PDF: the HTML page, printed by WeasyPrint of the extra `aiperf-core[report]`."""

import importlib
import logging
from typing import Any

from aiperf_core.errors import AiperfError
from aiperf_core.report import svg


def check() -> None:
    """Raise where WeasyPrint or one of its system libraries is missing."""
    try:
        importlib.import_module("weasyprint")
    except ImportError:
        raise AiperfError(
            "--format pdf needs the package 'weasyprint': pip install 'aiperf-core[report]'. "
            "Without it, print the page of --format html from a browser."
        ) from None
    except OSError as error:  # of Pango
        raise AiperfError(
            f"weasyprint is installed but lacks a library of the system: {error}. "
            "On Debian: apt install libpango-1.0-0 libpangoft2-1.0-0 libharfbuzz-subset0"
        ) from None


def render(page: str) -> bytes:
    """The printed page."""
    weasyprint: Any = importlib.import_module("weasyprint")
    # WeasyPrint warns of every property that paper does not have.
    logging.getLogger("weasyprint").setLevel(logging.CRITICAL)
    document = weasyprint.HTML(string=_with_styles(page), url_fetcher=_nothing)
    data: bytes = document.write_pdf()
    return data


def _with_styles(page: str) -> str:
    """The page with a style sheet in each picture: WeasyPrint draws pictures apart from the page, without variables."""
    # In texts of a bundle, quotes are escaped.
    opening = 'xmlns="http://www.w3.org/2000/svg">'
    return page.replace(opening, f"{opening}<style>{svg.style_sheet(plain=True)}</style>")


def _nothing(url: str, *_: object, **__: object) -> Any:
    """Refuse every load: a page needs nothing from elsewhere."""
    raise ValueError(f"a report loads nothing; {url[:80]!r} was asked for")
