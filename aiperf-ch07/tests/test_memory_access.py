"""The order of `ch07.memory_access:permuted`."""

import pytest

from aiperf_ch07.memory_access import step_for

# One element; around the width of a warp; primes; and sizes that leave every kernel's last block and quad partly full.
SIZES = [1, 2, 3, 31, 32, 33, 4099, 8192, 65537, 1000003]


@pytest.mark.parametrize("n", [*SIZES, 1 << 25, 1 << 28])
def test_the_permuted_order_visits_every_element_once(n: int) -> None:
    step = step_for(n)
    if n <= 65537:
        assert sorted(index * step % n for index in range(n)) == list(range(n))
    # Indices are multiplied in 64 bits.
    assert n * step < 1 << 63
