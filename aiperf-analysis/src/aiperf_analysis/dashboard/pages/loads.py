"""Loads on servers: the documents of the kind `load` in the bundles."""

from aiperf_analysis.dashboard.asked import Asked
from aiperf_analysis.dashboard.pages import load_tables
from aiperf_analysis.dashboard.pages.kinds import Content, Kind
from aiperf_calc.load_documents import KIND, load_of
from aiperf_core.names import words
from aiperf_core.report.result import Origin
from aiperf_core.results.models import Document


def _content(_: Asked, found: Document, origin: Origin) -> Content:
    load = load_of(found, f"{KIND}/{words(found.name)}")
    return Content(load_tables.tables(load, origin), load_tables.sentences(load), load_tables.drawings(load, origin))


LOADS = Kind(KIND, "on servers", "No bundle here holds a load on a server; a run of aiperf load writes them.", _content)
page, every, page_of_one, one = LOADS.page, LOADS.every, LOADS.page_of_one, LOADS.one
