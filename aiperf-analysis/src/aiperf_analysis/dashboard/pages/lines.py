"""Lines of lists: runs, and rows that are not believed."""

from attrs import frozen

LAST_RUNS = 10
MOST = 12  # lines of a list; the page behind it has all


@frozen(kw_only=True)
class RunLine:
    """A run in a list.

    name: the name of its folder.
    ending: how it ended: empty where all is well.
    verdicts: the counts of verdicts of its variants, the most frequent first.
    distrusted: how many rows are not believed.
    loads, fleets: how many loads on servers and fleets of machines it holds.
    """

    id: str
    name: str
    created: str
    hardware: str
    targets: tuple[str, ...]
    rows: int
    verdicts: tuple[tuple[str, int], ...]
    distrusted: int
    ending: str
    labels: tuple[tuple[str, str], ...]
    loads: int
    fleets: int


@frozen(kw_only=True)
class Distrusted:
    """A row of a newest result that is not believed."""

    target: str
    row: str
    size: str
    verdict: str
    reason: str
    href: str
