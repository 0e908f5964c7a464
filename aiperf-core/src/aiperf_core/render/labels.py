"""Places labels beside columns of marks so that none covers another, a mark or a line.

Coordinates are pixels; y counts upwards. The labels of a column are stacked in the order of their marks, so that their
leader lines never cross. A stack stands at the right or at the left of its marks. It moves up or down where it would
cover something.
"""

import math
from collections.abc import Iterable, Iterator, Sequence

from attrs import frozen

GAP = 10.0  # between the middle of a mark and its label
RADIUS = 5.5  # of a mark
# How far the first label of a stack may be from its mark, in heights of a label: upwards and downwards.
HIGHEST, LOWEST, STEP = 4.0, 8.0, 0.5


@frozen
class Box:
    """A rectangle."""

    left: float
    bottom: float
    right: float
    top: float

    def overlap(self, other: "Box") -> float:
        """The area that both cover."""
        wide = min(self.right, other.right) - max(self.left, other.left)
        high = min(self.top, other.top) - max(self.bottom, other.bottom)
        return wide * high if wide > 0 and high > 0 else 0.0

    @property
    def area(self) -> float:
        """The covered area."""
        return (self.right - self.left) * (self.top - self.bottom)


@frozen
class Placed:
    """The place of a label: the end of its middle line at the mark (the right end if `turned`), and its box."""

    x: float
    y: float
    turned: bool
    box: Box


@frozen
class Label:
    """A label to place: the middle of its mark, its width, and the column of its mark."""

    x: float
    y: float
    width: float
    column: str


def place(labels: Sequence[Label], height: float, page: Box, taken: Iterable[Box]) -> list[Placed]:
    """A place for each label, all of one height. `taken` is covered already.

    Columns are placed one after the other, from the left and from the right; the order with the lower cost is used.
    """
    covered = [*taken, *(around(one.x, one.y) for one in labels)]
    columns: dict[str, list[int]] = {}
    for index in sorted(range(len(labels)), key=lambda index: (labels[index].x, -labels[index].y)):
        columns.setdefault(labels[index].column, []).append(index)
    ways = (list(columns.values()), list(columns.values())[::-1])
    _, placed = min((_served(way, labels, height, page, covered) for way in ways), key=lambda found: found[0])
    return [placed[index] for index in range(len(labels))]


def _served(
    columns: Sequence[Sequence[int]], labels: Sequence[Label], height: float, page: Box, covered: Sequence[Box]
) -> tuple[float, dict[int, Placed]]:
    """The cost of placing columns in this order, and the places of their labels."""
    occupied, total = [*covered], 0.0
    placed: dict[int, Placed] = {}
    for indices in columns:
        stack = [labels[index] for index in indices]
        cost, best = _cheapest(stack, height, occupied, page)
        occupied += [spot.box for spot in best]
        placed.update(zip(indices, best, strict=True))
        total += cost
    return total, placed


def around(x: float, y: float) -> Box:
    """The box of a mark."""
    return Box(x - RADIUS, y - RADIUS, x + RADIUS, y + RADIUS)


def spread(wanted: Sequence[float], height: float) -> list[float]:
    """Heights at least `height` apart, with the least sum of squared distances to the wanted ones (from the top down).

    Labels that would collide are thereby centred together on their marks.
    """
    groups: list[
        list[float]
    ] = []  # of each: the sum of the heights wanted for its first member, and the number of members
    for index, value in enumerate(wanted):
        groups.append([value + index * height, 1])
        while len(groups) > 1 and groups[-2][0] / groups[-2][1] < groups[-1][0] / groups[-1][1]:
            total, count = groups.pop()
            groups[-1][0] += total
            groups[-1][1] += count
    firsts = [total / count for total, count in groups for _ in range(int(count))]
    return [first - index * height for index, first in enumerate(firsts)]


def _stacks(stack: Sequence[Label], height: float) -> Iterator[list[Placed]]:
    """Ways to place the labels of a column, top label first."""
    near = spread([one.y for one in stack], height)
    steps = int((HIGHEST + LOWEST) / STEP)
    caps = [stack[0].y + height * (HIGHEST - STEP * step) for step in range(steps + 1)]
    for turned in (False, True):
        yield [_placed(one, y, turned, height) for one, y in zip(stack, near, strict=True)]
        for cap in caps:
            lowered = [min(y, cap - index * height) for index, y in enumerate(near)]
            yield [_placed(one, y, turned, height) for one, y in zip(stack, lowered, strict=True)]
            raised = [y + cap - near[0] for y in near]
            yield [_placed(one, y, turned, height) for one, y in zip(stack, raised, strict=True)]


def _placed(one: Label, y: float, turned: bool, height: float) -> Placed:
    left = one.x - GAP - one.width if turned else one.x + GAP
    box = Box(left, y - height / 2, left + one.width, y + height / 2)
    return Placed(left + one.width if turned else left, y, turned, box)


def _cheapest(
    stack: Sequence[Label], height: float, occupied: Sequence[Box], page: Box
) -> tuple[float, Sequence[Placed]]:
    """The cost of the cheapest way to place the labels of a column, and that way."""
    least, best = math.inf, list[Placed]()
    beside: dict[bool, list[Box]] = {}  # what labels at a side of their marks can cover
    for spots in _stacks(stack, height):
        away = sum(abs(spot.y - one.y) for spot, one in zip(spots, stack, strict=True)) / height
        outside = sum(spot.box.area - spot.box.overlap(page) for spot in spots)
        cost = away + 0.5 * sum(spot.turned for spot in spots) + 50 * outside
        # What it covers takes long to find, and only adds to the cost.
        if cost < least:
            side = spots[0].turned
            if side not in beside:
                left, right = min(spot.box.left for spot in spots), max(spot.box.right for spot in spots)
                beside[side] = [other for other in occupied if other.left < right and left < other.right]
            cost += 5 * sum(spot.box.overlap(other) for spot in spots for other in beside[side])
        if cost < least:
            least, best = cost, spots
    return least, best
