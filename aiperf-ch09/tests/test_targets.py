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


@pytest.mark.parametrize(("layout", "pieces"), [("APART", 18), ("FOURS", 18), ("WARPS", 12)])
def test_the_threads_of_a_block_cover_a_tile_once(layout: str, pieces: int) -> None:
    # As in `Place` of micro_tiling_matmul.cu.
    thread, step = numpy.arange(256), numpy.arange(8)
    warp, lane = thread // 32, thread % 32
    y = {"APART": thread // 16, "FOURS": thread // 16 * 4, "WARPS": warp // 4 * 64 + lane // 4 * 4}[layout]
    x = {"APART": thread % 16, "FOURS": thread % 16 * 4, "WARPS": warp % 4 * 32 + lane % 4 * 4}[layout]
    rows, columns = (
        first[:, None]
        + (16 * step if layout == "APART" else step // 4 * (64 if layout == "FOURS" else apart) + step % 4)
        for first, apart in ((y, 32), (x, 16))
    )
    covered = numpy.zeros((128, 128), int)
    numpy.add.at(covered, (rows[:, :, None], columns[:, None, :]), 1)
    assert (covered == 1).all()
    assert {len({*x[warp == w]}) + len({*y[warp == w]}) for w in range(8)} == {pieces}
