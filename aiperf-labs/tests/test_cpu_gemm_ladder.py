"""The traffic that the steps of the ladder save, counted in a cache with sets of least recently used lines."""

from collections import OrderedDict, defaultdict
from collections.abc import Iterator

import pytest

from aiperf_labs import cpu_gemm_ladder
from aiperf_labs.ladders import ladder

LINE, FLOAT, TALL, WIDE, DEPTH, ROWS, COLUMNS = 64, 4, 6, 16, 256, 96, 512
PANELS = 3  # of 16 columns of B


def misses(lines: Iterator[int], sets: int, ways: int) -> int:
    """The number of lines that a cache of this shape fetches."""
    cache: dict[int, OrderedDict[int, None]] = defaultdict(OrderedDict)
    fetched = 0
    for line in lines:
        held = cache[line % sets]
        if line in held:
            held.move_to_end(line)
            continue
        fetched += 1
        held[line] = None
        if len(held) > ways:
            held.popitem(last=False)
    return fetched


def column_of_tiles(row_bytes: int) -> Iterator[int]:
    """The lines of B that the tiles of 96 rows read, one tile after the other."""
    return (k * row_bytes // LINE for _ in range(ROWS // TALL) for k in range(DEPTH))


@pytest.mark.parametrize(("n", "again"), [(768, True), (784, False), (1024, True)])
def test_rows_that_share_a_set_are_fetched_for_each_tile(n: int, again: bool) -> None:
    fetched = misses(column_of_tiles(FLOAT * n), sets=64, ways=8)
    assert fetched == (DEPTH * ROWS // TALL if again else DEPTH)
    assert misses(column_of_tiles(FLOAT * WIDE), sets=64, ways=8) == DEPTH  # packed


def test_blocks_take_less_of_a_and_b_from_beyond_the_second_level_cache() -> None:
    n = cpu_gemm_ladder.bench.task.presets["cpu"]["n"]
    lines = n * n * FLOAT // LINE

    def lines_of(first: int, rows: range, columns: range) -> Iterator[int]:
        return (first + (i * n + j) * FLOAT // LINE for i in rows for j in columns[:: LINE // FLOAT])

    def by_tiles() -> Iterator[int]:
        for j in range(0, PANELS * WIDE, WIDE):
            yield from lines_of(lines, range(n), range(j, j + WIDE))
            yield from lines_of(0, range(n), range(n))

    def by_blocks() -> Iterator[int]:
        for i in range(0, n, ROWS):
            for j in range(0, n, COLUMNS):
                for k in range(0, n, DEPTH):
                    yield from lines_of(lines, range(k, k + DEPTH), range(j, min(j + COLUMNS, n)))
                    yield from lines_of(0, range(i, i + ROWS), range(k, k + DEPTH))

    mebibyte = {"sets": 1, "ways": (1 << 20) // LINE}
    assert misses(by_tiles(), **mebibyte) == PANELS * (lines + n)  # all of A for each, and its lines of B
    assert misses(by_blocks(), **mebibyte) <= lines * (n // ROWS + -(-n // COLUMNS))


def test_the_ladder_ends_with_threads() -> None:
    steps = [one.name for one in ladder(cpu_gemm_ladder.bench, "cpu").steps]
    assert steps == ["by_rows", "register_tile", "blocked", "packed", "threads"]
