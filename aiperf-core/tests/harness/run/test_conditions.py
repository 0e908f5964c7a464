"""The state of the device beside the samples: what a report of progress tells of it."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from aiperf_core.described import DescribedImplementation
from aiperf_core.devices import cpu_telemetry
from aiperf_core.devices.cpu_telemetry import CpuLoad
from aiperf_core.harness.run.conditions import Conditions
from aiperf_core.harness.run.participant import Participant
from aiperf_core.measurements import DeviceState, Reading, Spread


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


def test_the_load_is_read_over_a_whole_round(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where each block is too short for a reading of the load: the blocks of this round have none."""

    def ticks(user: int, idle: int, own: int) -> None:
        (tmp_path / "stat").write_text(f"cpu {user} 0 0 {idle} 0 0 0 0\n")
        (tmp_path / "7").mkdir(exist_ok=True)
        (tmp_path / "7" / "stat").write_text(f"7 (worker) R {' '.join(['0'] * 10)} {own} 0\n")

    ticks(user=0, idle=0, own=0)
    conditions = Conditions(SimpleNamespace(telemetry=lambda: _Telemetry(gpu=False)))  # type: ignore[arg-type]
    conditions._load = CpuLoad(tmp_path)
    one = Participant(DescribedImplementation("wide", "variant", "cpu", "wide.py:1"), "wide")
    for number in range(2):
        ticks(user=1000 + 100 * number, idle=1000, own=50)
        conditions.begin_round([7])
        conditions.read(one, [7])
        monkeypatch.setattr(cpu_telemetry, "SHARES_AFTER_S", 60.0 * number)  # the second round is too short
        ticks(user=1060 + 100 * number, idle=1040, own=80)
        conditions.end_round([one], [7])
    (load,) = one.recorder.loads
    assert (load.cpu_busy, load.cpu_own, load.steal) == (0.6, 0.3, 0.0)
    background = one.recorder.observations("exact").conditions
    assert background is not None
    assert (background.readings, background.background) == (2, Spread(0.3, 0.3, 0.3))
