"""Reads documents of kind `load` for `aiperf show` and `aiperf recheck`."""

from collections.abc import Iterable

from aiperf_core.results.bundle import Bundle
from aiperf_core.results.models import Document, Manifest
from aiperf_core.results.seal_check import Difference
from aiperf_load import keeping, tables


class LoadReader:
    """The reader of this package's documents."""

    def recheck(self, bundle: Bundle, manifest: Manifest, document: Document) -> Iterable[Difference]:
        """Compute the figures again from the columns of the requests."""
        return keeping.recheck(bundle, manifest, document)

    def render(self, document: Document) -> Iterable[str]:
        """The tables of `aiperf load show`."""
        return tables.lines(keeping.read(document))
