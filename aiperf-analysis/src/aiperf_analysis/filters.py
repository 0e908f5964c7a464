"""What selects rows, as the common options of `aiperf analyze` do."""

from collections.abc import Mapping, Sequence

from attrs import field, frozen

from aiperf_core.errors import UsageError
from aiperf_core.names import words

NAMES = ("target", "class", "device", "label")


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
    def narrows_rows(self) -> bool:
        """Whether they select among the rows of a run, so that a run may have none left."""
        return bool(self.targets or self.hardware or self.device)

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
