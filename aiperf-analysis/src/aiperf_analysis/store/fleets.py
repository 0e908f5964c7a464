"""Fleets in a store: how they ended."""

from collections.abc import Sequence

import sqlalchemy as sa

from aiperf_analysis.fleet_documents import KIND, read
from aiperf_analysis.store import tables
from aiperf_analysis.store.values import Values, as_json
from aiperf_core.results.bundle import Bundle


def contents(bundle: Bundle) -> list[Values]:
    """Rows that the fleets of a bundle add. Raises BundleError for one of another format."""
    return [_content(bundle, name) for name in bundle.documents(KIND)]


def _content(bundle: Bundle, name: str) -> Values:
    document, fleet = read(bundle, name)
    return {
        "name": name,
        "created": document.created,
        "label": fleet.id,
        "engine": fleet.engine,
        "state": fleet.state,
        "tasks": len(fleet.tasks),
        "bundles": fleet.bundles,
        "slow": as_json(fleet.slow),
    }


def insert_fleets(connection: sa.Connection, contents: Sequence[Values], bundle: int) -> None:
    """Insert the fleets of a new bundle."""
    if contents:
        connection.execute(sa.insert(tables.fleet), [{**content, "bundle": bundle} for content in contents])
