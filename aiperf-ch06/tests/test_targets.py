"""Index arithmetic of kernels, proven on the host; `pytest --aiperf` tests that every target is right."""

import numpy as np
import pytest

from aiperf_ch06 import unified_memory
from aiperf_core.errors import SkipError
from aiperf_core.plugins import load_plugins
from aiperf_core.testing import Measure, problems

LANES, SIDE = np.arange(32), 32
ON_CPU = [one.name for one in load_plugins().targets if one.group == "ch06" and "cpu" in one.devices]


@pytest.mark.long
@pytest.mark.parametrize("target", ON_CPU)
def test_right_on_the_cpu_at_the_sizes_of_the_lesson(aiperf_measure: Measure, target: str) -> None:
    assert problems(aiperf_measure(target, size="cpu")) == []


def banks_met(places: np.ndarray) -> int:
    """The number of different banks among the places of words."""
    return len(set((places % 32).tolist()))


def test_rows_and_columns_of_a_tile_meet_all_banks() -> None:
    places = {
        "one_bank": lambda r, c: r * SIDE + c,
        "padded": lambda r, c: r * (SIDE + 1) + c,
        "swizzled": lambda r, c: r * SIDE + (r ^ c),
    }
    met = {
        name: ({banks_met(place(LANES, one)) for one in range(SIDE)}, {banks_met(place(one, LANES)) for one in LANES})
        for name, place in places.items()
    }
    assert met == {"one_bank": ({1}, {32}), "padded": ({32}, {32}), "swizzled": ({32}, {32})}
    for name, place in places.items():
        assert len({place(r, c) for r in range(SIDE) for c in range(SIDE)}) == SIDE * SIDE, name


def test_managed_memory_is_refused_beyond_its_limit() -> None:
    with pytest.raises(SkipError) as caught:
        unified_memory.Managed((64 << 20) // 4 + 1, object())
    assert str(caught.value) == "manages 64 MiB at most; 16777217 values take 64.0 MiB"
