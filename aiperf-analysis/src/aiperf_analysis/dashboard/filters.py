"""The part of a query that selects rows, as the common options of `aiperf analyze` do."""

from collections.abc import Mapping, Sequence
from urllib.parse import urlencode

from attrs import field, frozen

from aiperf_core.errors import UsageError
from aiperf_core.names import words

NAMES = ("target", "class", "device", "label")
# What the server itself takes from a query.
OWN = ("format", "q", "sort", "cursor", "limit", "page")


@frozen
class Filters:
    """What selects rows; the fields are those of `aiperf_analysis.selection.select`."""

    targets: tuple[str, ...] = ()
    hardware: str | None = None
    device: str | None = None
    labels: tuple[tuple[str, str], ...] = field(default=())

    @classmethod
    def of(cls, query: Mapping[str, Sequence[str]]) -> "Filters":
        """The filters of a query; empty texts select nothing. Raises UsageError for a label without a name."""
        given = {name: [text for text in query.get(name, ()) if text] for name in NAMES}
        return cls(
            tuple(given["target"]),
            next(reversed(given["class"]), None),
            next(reversed(given["device"]), None),
            tuple(sorted(_label(text) for text in given["label"])),
        )

    @property
    def query(self) -> list[tuple[str, str]]:
        """As pairs of a query."""
        return [
            *(("target", one) for one in self.targets),
            *([("class", self.hardware)] if self.hardware else []),
            *([("device", self.device)] if self.device else []),
            *(("label", f"{name}={value}") for name, value in self.labels),
        ]

    @property
    def command(self) -> list[str]:
        """As options of a command."""
        return [part for name, value in self.query for part in (f"--{name}", value)]


def _label(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise UsageError(f"label takes NAME=VALUE, such as label=branch=main; got {words(text[:200])!r}.")
    return name, value


def others(query: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """What a query gives beside the filters and what the server takes: options of an analysis. Empty texts are none."""
    kept = {name: [text for text in texts if text] for name, texts in query.items() if name not in (*NAMES, *OWN)}
    return {name: texts for name, texts in kept.items() if texts}


def with_query(path: str, pairs: Sequence[tuple[str, str]]) -> str:
    """An address with a query."""
    return f"{path}?{urlencode(pairs)}" if pairs else path
