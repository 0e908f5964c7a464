"""The state of the device beside the samples: what a report of progress tells of it."""

from types import SimpleNamespace
from typing import Any

import pytest

from aiperf_core.described import DescribedImplementation
from aiperf_core.harness.run.conditions import Conditions
from aiperf_core.harness.run.participant import Participant
from aiperf_core.measurements import DeviceState, Reading


class _Telemetry:
    """Answers with readings in turn; a light one lacks what is slow to read."""

    nvml = None

    def __init__(self, gpu: bool) -> None:
        self.number, self.gpu = 0, gpu

    def read(self, own_pids: Any = (), *, light: bool = False) -> Reading:
        self.number += 1
        clock = {"sm_clock_hz": 1e9 + self.number} if self.gpu else {}
        slow = {} if light else {"temperature_c": 50.0 + self.number, "cpu_clock_hz": 3e9 + self.number}
        return Reading(at_s=0.0, throttled=(f"reason {self.number}",), **clock, **slow)


@pytest.mark.parametrize(
    ("gpu", "first", "last"),
    [
        (True, (1e9 + 1, None), (1e9 + 9, 58.0)),
        (False, (None, None), (3e9 + 8, 58.0)),
    ],
)
def test_the_state_has_the_newest_of_each_figure(gpu: bool, first: Any, last: Any) -> None:
    telemetry = _Telemetry(gpu)
    conditions = Conditions(SimpleNamespace(telemetry=lambda: telemetry))  # type: ignore[arg-type]
    one = Participant(DescribedImplementation("wide", "variant", "cpu", "wide.py:1"), "wide")
    assert conditions.state is None
    states = []
    for _ in range(9):
        conditions.read(one, [])
        states.append(conditions.state)
    for state, (clock_hz, temperature_c), number in ((states[0], first, 1), (states[-1], last, 9)):
        reasons = (f"reason {number}",)
        assert state == DeviceState(clock_hz=clock_hz, temperature_c=temperature_c, throttled=reasons)
    assert telemetry.number == 9  # the state itself reads nothing
