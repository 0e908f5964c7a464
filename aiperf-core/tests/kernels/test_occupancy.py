"""Blocks on a multiprocessor, against cases of NVIDIA's occupancy calculator and of its guide."""

import pytest

from aiperf_core.errors import UsageError
from aiperf_core.kernels.occupancy import MULTIPROCESSORS, occupancy


@pytest.mark.parametrize(
    ("arch", "threads", "registers", "shared_bytes", "blocks", "limiters"),
    [
        ("sm_90a", 256, 32, 0, 8, ("threads", "registers")),
        ("sm_90", 256, 33, 0, 6, ("registers",)),  # 40 registers: 12 warps in a quarter
        ("sm_90", 32, 16, 0, 32, ("blocks",)),
        ("sm_90", 128, 32, 227 << 10, 1, ("shared memory",)),  # the most that a block may have
        ("sm_90", 1024, 65, 0, 0, ("registers",)),  # more registers than there are: it cannot be launched
        ("sm_80", 384, 168, 0, 1, ("registers",)),
        ("sm_80", 96, 33, 0, 16, ("registers",)),
        ("sm_86", 256, 32, 0, 6, ("threads",)),
        ("sm_86", 256, 32, 32 << 10, 3, ("shared memory",)),
        ("sm_75", 64, 32, 0, 16, ("threads", "blocks")),
    ],
)
def test_blocks_and_what_limits_them(
    arch: str, threads: int, registers: int, shared_bytes: int, blocks: int, limiters: tuple[str, ...]
) -> None:
    found = occupancy(arch, threads, registers, shared_bytes)
    assert found.blocks == blocks
    assert found.limiters == limiters
    assert 0 <= found.share <= 1


def test_a_full_multiprocessor_and_a_part_of_one() -> None:
    assert occupancy("sm_100a", 1024, 32).share == 1
    assert occupancy("sm_90", 96, 40).share == pytest.approx(48 / 64)  # 12 warps in a quarter


def test_mistakes_are_named() -> None:
    with pytest.raises(UsageError, match=r"^the limits of a multiprocessor of sm_70 are not known; known are sm_75, "):
        occupancy("sm_70", 32, 32)
    with pytest.raises(UsageError, match=r"^1025 threads are none that a kernel can have; accepted are 1 to 1024$"):
        occupancy("sm_90", 1025, 32)
    with pytest.raises(UsageError, match=r"^a block cannot have -1 bytes of shared memory; accepted is a number from"):
        occupancy("sm_90", 32, 32, -1)
    assert all(one.warps * 32 == one.threads for one in MULTIPROCESSORS.values())
