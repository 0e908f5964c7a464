"""Result bundles from Python: select runs, read them as records or Arrow tables, compare, verify and follow them.

A *source* of rows is a bundle, its path, an address such as `BUNDLE:TARGET`, a run of a store, a store, or several of
these.
"""

from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from aiperf_core.report.arrow import rows_table, samples_table
    from aiperf_core.results.address import Address
    from aiperf_core.results.bundle import Bundle
    from aiperf_core.results.listing import Run, Store, Unreadable
    from aiperf_core.results.models import Document, Manifest, Row, TargetResult, Verdict
    from aiperf_core.results.records import read_payload
    from aiperf_core.stats.compare import Compared, Comparison
    from aiperf_core.stats.intervals import Blocks, log_contrast
    from aiperf_core.stats.recheck import Recheck
    from aiperf_core.stats.trend import Point, Trend

# Where the names of this module are defined. They are imported when they are used, so that a command that lists targets
# pays for none of them.
_HOMES = {
    "results.address": ("Address",),
    "report.arrow": ("rows_table", "samples_table"),
    "results.bundle": ("Bundle",),
    "results.listing": ("Run", "Store", "Unreadable"),
    "results.models": ("Document", "Manifest", "Row", "TargetResult", "Verdict"),
    "results.records": ("read_payload",),
    "stats.compare": ("Compared", "Comparison"),
    "stats.intervals": ("Blocks", "log_contrast"),
    "stats.recheck": ("Recheck",),
    "stats.trend": ("Point", "Trend"),
}

__all__ = [
    "Address",
    "Blocks",
    "Bundle",
    "Compared",
    "Comparison",
    "Document",
    "Manifest",
    "Point",
    "Recheck",
    "Row",
    "Run",
    "Store",
    "TargetResult",
    "Trend",
    "Unreadable",
    "Verdict",
    "compare",
    "from_json",
    "log_contrast",
    "open_bundle",
    "read_payload",
    "rows_table",
    "samples_table",
    "to_json",
    "trend",
    "verify",
]


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"aiperf_core.{home}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def open_bundle(path: str | Path) -> "Bundle":
    """Open a bundle for reading. Raises BundleError where there is none."""
    from aiperf_core.results.bundle import Bundle

    return Bundle.open(Path(path))


def compare(left: str | Path, right: str | Path, floor: float | None = None) -> "Comparison":
    """Compare two bundles or parts of them, as `aiperf compare` does.

    left, right: a bundle, or an address such as `BUNDLE:TARGET` or `BUNDLE:TARGET:IMPLEMENTATION`. A bundle is named as
        on the command line: a path, a name in `artifacts/runs` or the start of it, or `latest`.
    floor: the smallest relative difference that matters; None takes the larger of the two runs'.

    Raises UsageError where the two have nothing in common, and BundleError for a bundle that cannot be read.
    """
    from aiperf_core.results.address import find
    from aiperf_core.stats.compare import compare

    return compare(find(str(left)), find(str(right)), floor)


def verify(
    path: str | Path, *, seal: str | None = None, signers: str | Path | None = None, identity: str | None = None
) -> "Recheck":
    """Check a bundle's seal, and compute its figures again from its samples, as `aiperf recheck` does.

    seal: the seal that was noted when the bundle was closed.
    signers: a file of allowed signers, one of whom must have signed the bundle.
    identity: the signer that is expected; None accepts any of `signers`.

    The answer has the differences; `holds` is true where there is none. Raises BundleError for a bundle that cannot be
    read or is not signed as it should be.
    """
    from aiperf_core.results.signing import verify
    from aiperf_core.stats.recheck import recheck

    bundle = open_bundle(path)
    if signers is not None:
        verify(bundle, Path(signers), identity)
    return recheck(bundle, expected_seal=seal)


def trend(runs: "Iterable[Run]", target: str, implementation: str | None = None) -> "list[Trend]":
    """The times of a target's implementations over runs; see `Trend`.

    runs: the runs of a store, in any order.
    implementation: None stands for all implementations.
    """
    from aiperf_core.stats.trend import trends

    return trends(runs, target, implementation)


def to_json(record: Any) -> str:
    """A record of a result, or a `RunRequest`, as JSON text."""
    from aiperf_core.results import jsontext, structure

    return jsontext.dumps(structure.document(record))


def from_json(record: type[Any], text: str) -> Any:
    """A record from JSON text, such as `from_json(RunRequest, text)`; fields that have a default may be missing.

    Raises ValueError that names the first place that does not fit.
    """
    from aiperf_core.results import jsontext, structure

    return structure.structure(jsontext.loads(text.encode()), record, structure.PARTIAL)
