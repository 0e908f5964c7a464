"""Addresses that the lanes of a warp access with one instruction, as grids: lines of global memory, or banks."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from attrs import frozen

from aiperf_core import units
from aiperf_core.report.result import Axis, Drawing, Span
from aiperf_learn.mechanisms.values import LANES
from aiperf_learn.mechanisms.warp import Access, Trace

SECTOR, LINE = 32, 128  # bytes
BANKS, BANK = 32, 4  # and the bytes of each
MOST_ROWS = 6  # of a grid
_WORDS = {"load": "loads", "store": "stores", "atomic": "adds to"}

# Lanes by the first byte that they access and the bytes of the access.
Taken = dict[tuple[int, int], list[int]]


@frozen
class Footprint:
    """Memory that one execution of a load or a store touches.

    space: `global` or `shared`.
    taken: the lanes by their bytes, from the first line on.
    """

    space: str
    taken: tuple[tuple[tuple[int, int], tuple[int, ...]], ...]

    @property
    def lanes(self) -> int:
        """Lanes that take part."""
        return sum(len(lanes) for _, lanes in self.taken)

    @property
    def bytes(self) -> int:
        """Different bytes that the lanes ask for."""
        return len({byte for (start, width), _ in self.taken for byte in range(start, start + width)})

    @property
    def sectors(self) -> int:
        """Sectors of 32 bytes of global memory that hold a byte that a lane asks for."""
        return len(self._pieces(SECTOR))

    @property
    def lines(self) -> int:
        """Lines of 128 bytes that hold a byte that a lane asks for."""
        return len(self._pieces(LINE))

    def _pieces(self, size: int) -> set[int]:
        return {byte // size for (start, width), _ in self.taken for byte in range(start, start + width)}

    @property
    def passes(self) -> int:
        """Times that shared memory must be read or written: a bank gives one word of four bytes each time."""
        return len(list(self.wavefronts()))

    def wavefronts(self) -> Iterator[dict[int, tuple[int, list[int]]]]:
        """Passes, each with the words that the banks give, and the lanes that get them.

        Accesses of 8 and of 16 bytes are made by half and by quarter warps.
        """
        width = max(width for (_, width), _ in self.taken)
        at_once = LANES * BANK // max(width, BANK)
        for first in range(0, LANES, at_once):
            queues: dict[int, dict[int, list[int]]] = {}
            for (start, wide), lanes in self.taken:
                for word in range(start // BANK, (start + wide - 1) // BANK + 1):
                    inside = [lane for lane in lanes if first <= lane < first + at_once]
                    if inside:
                        queues.setdefault(word % BANKS, {}).setdefault(word, []).extend(inside)
            for number in range(max(map(len, queues.values()), default=0)):
                yield {bank: list(words.items())[number] for bank, words in queues.items() if number < len(words)}


def footprint(access: Access) -> Footprint:
    """The footprint of an access. Its first line, or the first row of banks, is number 0."""
    first = min(offset for offset in access.offsets if offset is not None) // LINE * LINE
    taken: Taken = {}
    for lane, offset in enumerate(access.offsets):
        if offset is not None:
            taken.setdefault((offset - first, access.width), []).append(lane)
    return Footprint(access.space, tuple((piece, tuple(lanes)) for piece, lanes in sorted(taken.items())))


@frozen
class Grid:
    """A footprint, and the accesses that have it, such as `tiled, padded: loads a and stores out`."""

    footprint: Footprint
    accesses: str


def grids(traces: Iterable[tuple[str, Trace]], space: str) -> list[Grid]:
    """The footprints of implementations in a space: of loads, of stores and of atomics the one with most traffic.

    traces: of each implementation its name and its trace. Equal footprints are one grid.
    """
    known: dict[Footprint, dict[str, list[str]]] = {}
    for name, trace in traces:
        for kind in _WORDS:
            access = _heaviest([a for a in trace.accesses if a.space == space and a.kind == kind])
            if access is not None:
                memory = "" if space == "shared" else f" {access.memory.removesuffix('_ptr')}"
                words = known.setdefault(footprint(access), {}).setdefault(name, [])
                words.append(f"{_WORDS[kind]}{memory}")
    return [Grid(each, _told(names)) for each, names in known.items()]


def _told(names: Mapping[str, Sequence[str]]) -> str:
    """Accesses in words; implementations that do the same are named together."""
    alike: dict[str, list[str]] = {}
    for name, words in names.items():
        alike.setdefault(" and ".join(words), []).append(name)
    return "; ".join(f"{', '.join(each)}: {words}" for words, each in alike.items())


def _heaviest(accesses: Sequence[Access]) -> Access | None:
    """Find the site with most traffic, and of its executions the first one in which most lanes take part."""
    sites: dict[object, list[Access]] = {}
    for access in accesses:
        sites.setdefault(access.site, []).append(access)
    if not sites:
        return None

    def traffic(executions: Sequence[Access]) -> int:
        marks = [footprint(access) for access in executions[:4]]
        return sum(mark.passes if mark.space == "shared" else mark.sectors for mark in marks) * len(executions)

    executions = max(sites.values(), key=traffic)
    return max(executions, key=lambda access: sum(offset is not None for offset in access.offsets))


def global_drawing(target: str, traces: Sequence[tuple[str, Trace]]) -> Drawing | None:
    """Lines of global memory that a warp's request touches; None where no address is known."""
    chosen = grids(traces, "global")
    if not chosen:
        return None
    spans = [span for grid in chosen for span in _lines(grid)]
    counts = "; ".join(f"{_sectors(grid.footprint)} ({grid.accesses})" for grid in chosen)
    return Drawing(
        name=f"addresses-{target}",
        title="What a warp asks of global memory at once",
        kind="cells",
        message=f"Lines of 128 bytes with the bytes that the 32 lanes of a warp ask for: {counts}.",
        x=Axis(title="byte of a line of 128", unit="count", ends=(0, LINE), places={str(at): float(at) for at in
                                                                                range(0, LINE + 1, SECTOR)}),
        y=Axis(title="line", unit="count"),
        spans=spans,
        borders={f"sector {at // SECTOR}": float(at) for at in range(SECTOR, LINE, SECTOR)},
    )  # fmt: skip


def shared_drawing(target: str, traces: Sequence[tuple[str, Trace]]) -> Drawing | None:
    """Banks of shared memory that a warp's request meets, a row for each pass; None where no address is known."""
    chosen = grids(traces, "shared")
    if not chosen:
        return None
    counts = "; ".join(f"{_passes(grid.footprint)} ({grid.accesses})" for grid in chosen)
    return Drawing(
        name=f"banks-{target}",
        title="What a warp asks of shared memory at once",
        kind="cells",
        message=f"The 32 banks of shared memory, each with the lane that it serves in a pass: {counts}.",
        x=Axis(title="bank", unit="count", ends=(0, BANKS), places={str(at): at + 0.5 for at in (0, 8, 16, 24, 31)}),
        y=Axis(title="pass", unit="count"),
        spans=[span for grid in chosen for span in _banks(grid)],
    )


def _sectors(mark: Footprint) -> str:
    return (
        f"{units.plural('sector', mark.sectors)} in {units.plural('line', mark.lines)} for "
        f"{units.plural('byte', mark.bytes)}"
    )


def _passes(mark: Footprint) -> str:
    least = -(-mark.bytes // (BANKS * BANK))
    count = f"{mark.passes} {'pass' if mark.passes == 1 else 'passes'}"
    return count if least == mark.passes else f"{count} where {least} would do"


def _drawn(count: int) -> str:
    return f", the first {MOST_ROWS} drawn" if count > MOST_ROWS else ""


def _label(lanes: Sequence[int]) -> str:
    """The lanes in words: `lane 3`, `lanes 0 to 31`, `lanes 0, 4`."""
    if len(lanes) == 1:
        return f"lane {lanes[0]}"
    ordered = sorted(set(lanes))
    together = ordered == list(range(ordered[0], ordered[-1] + 1))
    return f"lanes {ordered[0]} to {ordered[-1]}" if together else f"lanes {', '.join(map(str, ordered))}"


def _short(lanes: Sequence[int]) -> str:
    ordered = sorted(set(lanes))
    return str(ordered[0]) if len(ordered) == 1 else f"{ordered[0]}-{ordered[-1]}" if len(ordered) == LANES else ""


def _lines(grid: Grid) -> Iterator[Span]:
    """The first lines of a footprint: sectors that are fetched, and on them the bytes that lanes ask for."""
    mark = grid.footprint
    group = f"{_sectors(mark)}{_drawn(mark.lines)}. {grid.accesses}"
    for number, line in enumerate(sorted(mark._pieces(LINE))[:MOST_ROWS], 1):
        row = {"lane": f"line {number}", "group": group}
        asked = sorted((start, width, lanes) for (start, width), lanes in mark.taken if start // LINE == line)
        bytes_asked = {byte for start, width, _ in asked for byte in range(start, start + width)}
        for sector in sorted(sector for sector in mark._pieces(SECTOR) if sector * SECTOR // LINE == line):
            for begin, length in _gaps(sector * SECTOR, bytes_asked):
                label = f"{units.plural('byte', length)} of a sector that no lane asks for"
                yield Span(label=label, start=begin % LINE, length=length, kind="fetched in vain", **row)
        for start, width, lanes in asked:
            yield Span(
                label=f"{_label(lanes)}: bytes {start % LINE} to {start % LINE + width - 1}", start=start % LINE,
                length=width, kind="asked for", short=_short(lanes), **row,
            )  # fmt: skip


def _gaps(begin: int, asked: set[int]) -> Iterator[tuple[int, int]]:
    """The begin and the length of each piece of a sector that no lane asks for."""
    length = 0
    for byte in range(begin, begin + SECTOR + 1):
        if byte < begin + SECTOR and byte not in asked:
            length += 1
        elif length:
            yield byte - length, length
            length = 0


def _banks(grid: Grid) -> Iterator[Span]:
    """The first passes of a footprint."""
    mark = grid.footprint
    group = f"{_passes(mark)}{_drawn(mark.passes)}. {grid.accesses}"
    for number, words in enumerate(mark.wavefronts()):
        if number == MOST_ROWS:
            return
        for bank, (word, lanes) in sorted(words.items()):
            yield Span(
                label=f"bank {bank}: word {word} for {_label(lanes)}", lane=f"pass {number + 1}", start=bank, length=1,
                kind="asked for", short=_short(lanes), group=group,
            )  # fmt: skip
