"""What a query has beside the filters of rows, and addresses with a query."""

from collections.abc import Mapping, Sequence
from urllib.parse import urlencode

from aiperf_analysis.filters import NAMES

# What the server itself takes from a query.
OWN = ("format", "q", "sort", "cursor", "limit", "page")


def others(query: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """What a query gives beside the filters and what the server takes: options of an analysis. Empty texts are none."""
    kept = {name: [text for text in texts if text] for name, texts in query.items() if name not in (*NAMES, *OWN)}
    return {name: texts for name, texts in kept.items() if texts}


def with_query(path: str, pairs: Sequence[tuple[str, str]]) -> str:
    """An address with a query."""
    return f"{path}?{urlencode(pairs)}" if pairs else path
