"""What `pytest --aiperf` does not test of the targets."""

from pathlib import Path

import numpy
import pytest

from aiperf_ch09 import norm_fusion
from aiperf_core.errors import SkipError
from aiperf_core.testing import interpreted

INTERPRETED = Path(__file__).with_name("interpreted_kernels.py")
KERNELS = "row_in_registers several_rows tile"


def test_triton_kernels_are_right_when_interpreted() -> None:
    said = "".join(f"{name} is right\n" for name in KERNELS.split())
    assert interpreted(INTERPRETED) == said


def test_a_row_too_long_for_a_program_is_skipped() -> None:
    assert norm_fusion.block_of(1025) == 2048
    with pytest.raises(SkipError) as caught:
        norm_fusion.block_of(norm_fusion.LONGEST + 1)
    assert str(caught.value) == "holds a row of up to 32768 columns; this one has 32769"


@pytest.mark.parametrize(("rectangles", "pieces"), [(False, 18), (True, 12)])
@pytest.mark.parametrize("fours", [False, True])
def test_the_threads_of_a_block_cover_a_tile_once(fours: bool, rectangles: bool, pieces: int) -> None:
    # As in `product` and `place` of micro_tiling_matmul.cu.
    thread, step = numpy.arange(256), numpy.arange(8)
    warp, lane = thread // 32, thread % 32
    x = warp % 2 * 8 + lane % 8 if rectangles else thread % 16
    y = warp // 2 * 4 + lane // 8 if rectangles else thread // 16
    columns, rows = (step // 4 * 64 + 4 * t[:, None] + step % 4 if fours else t[:, None] + 16 * step for t in (x, y))
    covered = numpy.zeros((128, 128), int)
    numpy.add.at(covered, (rows[:, :, None], columns[:, None, :]), 1)
    assert (covered == 1).all()
    assert {len({*x[warp == w]}) + len({*y[warp == w]}) for w in range(8)} == {pieces}
