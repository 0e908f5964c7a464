"""Read a selection from a store."""

from collections.abc import Mapping, Sequence

from aiperf_analysis.selection import Selection


def select(
    url: str,
    *,
    targets: Sequence[str] = (),
    hardware: str | None = None,
    device: str | None = None,
    labels: Mapping[str, str] | None = None,
) -> Selection:
    """The rows of a store that match the filters, as `aiperf_analysis.selection.select` reads them from bundles."""
    raise NotImplementedError
