"""The Triton kernels of the chapter: right by Triton's interpreter, and compiled for every architecture; neither needs a GPU."""

import importlib.util
from pathlib import Path

import pytest
import torch

from aiperf_ch14 import custom_op, triton_softmax
from aiperf_ch14.descriptors import described
from aiperf_core.errors import SkipError
from aiperf_core.kernels.check import compile_all
from aiperf_core.testing import interpreted

INTERPRETED = Path(__file__).with_name("interpreted_kernels.py")
needs_triton = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="needs triton")


RIGHT = """\
triton_softmax.one_block is right at 4 sizes
triton_softmax.online is right at 4 sizes
triton_matmul.small_tiles is right at 6 sizes
triton_matmul.large_tiles is right at 6 sizes
triton_matmul.staged is right at 6 sizes
triton_matmul.grouped is right at 6 sizes
triton_matmul.persistent is right at 6 sizes
triton_matmul.descriptors is right at 4 sizes
fp8_block_gemm.widened is right at 5 sizes
fp8_block_gemm.promoted is right at 6 sizes
fp8_block_gemm.descriptors is right at 4 sizes
triton_flash_attention.tiled is right at 5 sizes
triton_flash_attention.skipped is right at 5 sizes
triton_flash_attention.powers_of_two is right at 5 sizes
triton_flash_attention.staged is right at 5 sizes
triton_flash_attention.wide is right at 5 sizes
triton_flash_attention.descriptors is right at 5 sizes
gemm_epilogue.one_pass is right at 4 sizes
gemm_epilogue.dual is right at 5 sizes
gemm_epilogue.descriptors is right at 3 sizes
custom_op.triton_op is right at 5 sizes
"""


def test_right_when_interpreted() -> None:
    assert interpreted(INTERPRETED) == RIGHT


@needs_triton
@pytest.mark.filterwarnings("ignore:TRITON_DEFAULT_FP_FUSION is unset:UserWarning")
def test_compiled_for_every_architecture() -> None:
    outcomes = list(compile_all([("ch14.triton_softmax", triton_softmax.__name__)], ("sm_80", "sm_90")))
    assert [one.reason for one in outcomes if one.status != "ok"] == []
    names = ("one_block", "one_block", "one_block", "online")  # at the presets cuda, short and long
    assert [(one.arch, one.kernel) for one in outcomes] == [
        (arch, name) for arch in ("sm_80", "sm_90") for name in names
    ]


@pytest.mark.parametrize(
    ("columns", "block", "warps"), [(1, 1, 1), (257, 512, 1), (8192, 8192, 16), (65536, 65536, 32)]
)
def test_a_block_holds_a_row(columns: int, block: int, warps: int) -> None:
    assert triton_softmax.block_of(columns) == block
    assert triton_softmax.warps_of(block) == warps


@pytest.mark.parametrize(
    ("columns", "vector", "pieces"), [(1, 1, 1), (521, 1, 4), (4096, 8, 2), (4104, 8, 4), (16384, 8, 8)]
)
def test_the_threads_of_a_block_hold_a_row(columns: int, vector: int, pieces: int) -> None:
    assert (custom_op.vector_of(columns), custom_op.pieces_of(columns)) == (vector, pieces)
    assert columns <= custom_op.THREADS * vector * pieces


def test_operators_tell_torch_their_shape() -> None:
    x, weight = torch.empty(3, 40, device="meta"), torch.empty(40, device="meta")
    for operator in (torch.ops.aiperf_ch14.norm_gelu_triton, torch.ops.aiperf_ch14.norm_gelu_cuda):
        assert operator(x, weight, weight).shape == x.shape


@needs_triton
def test_descriptors_take_aligned_rows() -> None:
    with pytest.raises(SkipError) as caught:
        described(torch.empty(3, 7, dtype=torch.bfloat16), (2, 8))
    assert str(caught.value) == "copies rows of multiples of 16 bytes; these have 14"


def test_a_row_too_long_for_registers_is_skipped() -> None:
    with pytest.raises(SkipError) as caught:
        triton_softmax.block_of(65537)
    assert str(caught.value) == "holds a row of up to 65536 columns in registers; this one has 65537"
