"""Labels do not cover each other."""

from itertools import combinations, pairwise

from hypothesis import given
from hypothesis import strategies as st

from aiperf_core.render.labels import Box, Label, around, place, spread

PAGE = Box(0, 0, 600, 400)
HEIGHTS = st.lists(st.floats(0, 400), min_size=1, max_size=12)


def overlaps(boxes: list[Box]) -> list[tuple[Box, Box]]:
    return [(one, other) for one, other in combinations(boxes, 2) if one.overlap(other) > 1e-6]


def test_five_marks_at_one_place() -> None:
    labels = [Label(300, 200 + index / 10, 80, "one") for index in range(5)]
    spots = place(labels, 11, PAGE, [])
    assert overlaps([spot.box for spot in spots]) == []
    assert [spot.y for spot in spots] == sorted(spot.y for spot in spots)
    assert not any(spot.turned for spot in spots)
    assert abs(sum(spot.y for spot in spots) / 5 - 200.2) < 1e-6, "they are centred on their marks"


def test_a_label_alone_stands_beside_its_mark() -> None:
    (spot,) = place([Label(300, 200, 80, "one")], 11, PAGE, [])
    assert (spot.y, spot.turned) == (200, False)
    assert spot.x > 300


def test_at_the_edge_labels_turn() -> None:
    (spot,) = place([Label(580, 200, 80, "one")], 11, PAGE, [])
    assert spot.turned
    assert spot.box.right < 580


def test_a_line_is_not_covered() -> None:
    line = [Box(at, 195, at + 4, 199) for at in range(250, 420, 3)]
    spots = place([Label(300, 190 + index, 80, "one") for index in range(3)], 11, PAGE, line)
    assert all(spot.box.overlap(piece) == 0 for spot in spots for piece in line)


def test_columns_side_by_side() -> None:
    labels = [Label(x, 200 + 3 * index, 70, str(x)) for x in (200, 240) for index in range(5)]
    spots = place(labels, 11, PAGE, [])
    assert overlaps([spot.box for spot in spots]) == []
    assert all(spot.box.overlap(around(one.x, one.y)) == 0 for spot in spots for one in labels)


@given(HEIGHTS)
def test_spreading_keeps_order_and_distance(heights: list[float]) -> None:
    wanted = sorted(heights, reverse=True)
    found = spread(wanted, 11)
    assert all(above - below >= 11 - 1e-6 for above, below in pairwise(found))
    assert abs(sum(found) - sum(wanted)) < 1e-6 * max(1, len(wanted)) * 400


@given(HEIGHTS.filter(lambda heights: all(abs(a - b) >= 11 for a, b in combinations(heights, 2))))
def test_what_has_room_stays_where_it_is(heights: list[float]) -> None:
    wanted = sorted(heights, reverse=True)
    assert all(abs(a - b) < 1e-6 for a, b in zip(spread(wanted, 11), wanted, strict=True))
