"""Reads documents of kind `fleet` for `aiperf show` and `aiperf recheck`."""

from collections.abc import Iterable

from aiperf_core.results.bundle import Bundle
from aiperf_core.results.models import Document, Manifest
from aiperf_core.results.seal_check import Difference
from aiperf_fleet import keeping, tables


class FleetReader:
    """The reader of this package's documents."""

    def recheck(self, bundle: Bundle, manifest: Manifest, document: Document) -> Iterable[Difference]:
        """Compare the machines again, and look at the seals of the bundles."""
        return keeping.recheck(bundle, manifest, document)

    def render(self, document: Document) -> Iterable[str]:
        """The tables of `aiperf fleet status`."""
        result = keeping.read(document)
        return tables.lines(result.tasks, result.machines, result.state)
