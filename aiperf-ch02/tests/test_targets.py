"""The shares of `wave_quantization.cu`, proven on the host; `pytest --aiperf` tests that every target is right."""

import pytest

from aiperf_core.plugins import load_plugins
from aiperf_core.testing import Measure, problems

THREADS, MOST, TILE = 512, 20, 8192
ON_CPU = [one.name for one in load_plugins().targets if one.group == "ch02" and "cpu" in one.devices]


@pytest.mark.long
@pytest.mark.parametrize("target", ON_CPU)
def test_right_on_the_cpu_at_the_sizes_of_the_lesson(aiperf_measure: Measure, target: str) -> None:
    assert problems(aiperf_measure(target, size="cpu")) == []


def groups_of(points: int) -> list[int]:
    """The sizes of the groups in which a warp computes the points of its threads."""
    sizes = []
    for groups in range(-(-points // MOST), 0, -1):
        sizes.append(points // groups)
        points -= sizes[-1]
    return sizes


@pytest.mark.parametrize("points", range(1, 200))
def test_groups_are_even_and_fit_in_registers(points: int) -> None:
    sizes = groups_of(points)
    assert sum(sizes) == points
    assert max(sizes) <= MOST
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize("blocks", [1, 2, 108, 132])
@pytest.mark.parametrize("tiles", [1, 3, 133, 265])
def test_shares_cover_every_point_once(tiles: int, blocks: int) -> None:
    n, covered = tiles * TILE, 0
    for block in range(blocks):
        begin, end = n * block // blocks, n * (block + 1) // blocks
        for first_of_warp in range(begin, begin + THREADS, 32):
            count = -(-(end - first_of_warp) // THREADS) if first_of_warp < end else 0
            # The last lane's last point, if it counts as many as the first, is the last before the end, or beyond it.
            covered += sum(min(32, max(0, end - first_of_warp - k * THREADS)) for k in range(count))
            assert first_of_warp + count * THREADS >= end
    assert covered == n
