"""Fewer points for a picture of many, with their extremes: what a reader looks for must not be dropped."""

from collections.abc import Sequence


def kept(values: Sequence[float], most: int) -> list[int]:
    """The places of at most `most` values, in their order: the first, the last, and the extremes of equal pieces.

    Values have no NaN. `most` is at least 4.
    """
    count = len(values)
    if count <= most:
        return list(range(count))
    pieces = (most - 2) // 2
    found = {0, count - 1}
    for piece in range(pieces):
        part = range(piece * count // pieces, (piece + 1) * count // pieces)
        found |= {min(part, key=values.__getitem__), max(part, key=values.__getitem__)}
    return sorted(found)
