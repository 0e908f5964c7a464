"""Every target of the chapter is right at the sizes of its lesson; `pytest --aiperf` tests the smallest and awkward ones."""

import pytest

from aiperf_core.plugins import load_plugins
from aiperf_core.testing import Measure, problems

ON_CPU = [one.name for one in load_plugins().targets if one.group == "ch08" and "cpu" in one.devices]


@pytest.mark.long
@pytest.mark.parametrize("target", ON_CPU)
def test_right_on_the_cpu_at_the_sizes_of_the_lesson(aiperf_measure: Measure, target: str) -> None:
    assert problems(aiperf_measure(target, size="cpu")) == []
