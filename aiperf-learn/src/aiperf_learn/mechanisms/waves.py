"""Blocks of a launch on the multiprocessors of an H200, wave by wave."""

from collections.abc import Iterator, Sequence

from attrs import frozen

from aiperf_core import units
from aiperf_core.errors import AiperfError
from aiperf_core.report.result import Axis, Drawing, Span
from aiperf_learn.mechanisms.occupancy import GPU, MULTIPROCESSORS, blocks_at_once
from aiperf_learn.mechanisms.rehearsal import Launch


@frozen
class Waves:
    """Waves of a launch.

    blocks: of the grid. each: blocks that a multiprocessor holds at once.
    """

    blocks: int
    each: int

    @property
    def full(self) -> int:
        """Waves in which every multiprocessor has as many blocks as it holds."""
        return self.blocks // (self.each * MULTIPROCESSORS)

    @property
    def rest(self) -> int:
        """Blocks of the last wave; 0 where all waves are full."""
        return self.blocks % (self.each * MULTIPROCESSORS)


def waves(launch: Launch) -> Waves | None:
    """The waves of a launch, whose blocks are taken to last equally long.

    None for a kernel that the compiler refuses or does not have for this GPU, and for a block that does not fit.
    """
    shape = launch.recorded.shape
    try:
        each, _ = blocks_at_once(launch.source, launch.recorded.kernel, launch.threads, shape.shared_bytes)
    except AiperfError:
        return None
    return Waves(launch.blocks, each) if each else None


def drawing(target: str, launches: Sequence[tuple[str, Waves]]) -> Drawing:
    """The first wave and the last of each launch, a column for each multiprocessor. launches: with their names."""
    merged: dict[Waves, list[str]] = {}
    for name, each in launches:
        merged.setdefault(each, []).append(name)
    texts = [f"{_words(each)}. {', '.join(names)}" for each, names in merged.items()]
    return Drawing(
        name=f"waves-{target}",
        title=f"Blocks on the {MULTIPROCESSORS} multiprocessors of an {GPU.removeprefix('NVIDIA ')}",
        kind="cells",
        message=f"{'; '.join(texts)}. The compiler's registers and shared memory decide how many blocks fit.",
        x=Axis(
            title="multiprocessor",
            unit="count",
            ends=(0, MULTIPROCESSORS),
            places={str(at): float(at) for at in range(0, MULTIPROCESSORS + 1, 33)},
        ),
        y=Axis(title="wave", unit="count"),
        spans=[span for each, text in zip(merged, texts, strict=True) for span in _rows(each, text)],
    )


def _words(each: Waves) -> str:
    places = each.each * MULTIPROCESSORS
    size = f"{units.plural('block', each.blocks)}, {each.each} at once on each"
    share = units.percent(each.rest / places)
    if not each.full:
        return f"{share} of a wave: {size}"
    return f"{units.plural('full wave', each.full)}{f' and {share} of one' if each.rest else ''}: {size}"


def _rows(each: Waves, group: str) -> Iterator[Span]:
    if each.full:
        label = f"{each.each} {'block' if each.each == 1 else 'blocks'} on each"
        lane = "each wave" if each.full > 1 else "first wave" if each.rest else "the wave"
        yield Span(label=label, short=label, lane=lane, start=0, length=MULTIPROCESSORS, kind="filled", group=group)
    if each.rest:
        # Blocks go to the multiprocessors in turn.
        low, more = divmod(each.rest, MULTIPROCESSORS)
        lane = "last wave" if each.full else "the wave"
        for start, length, count in ((0, more, low + 1), (more, MULTIPROCESSORS - more, low)):
            if length and count:
                label = f"{count} of {each.each}"
                kind = "filled" if count == each.each else "partly filled"
                yield Span(label=f"{label} blocks", short=label, lane=lane, start=start, length=length, kind=kind,
                           group=group)  # fmt: skip
