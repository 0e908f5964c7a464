import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiperf_core.devices.energy import Slope, Step, Watch, per_call, power_between
from aiperf_core.devices.telemetry import open_telemetry
from aiperf_core.harness.run.conditions import Energy, EnergyPlan, measure_energy
from aiperf_core.measurements import Reading

pytestmark = pytest.mark.quiet

IDLE_W, LOAD_W, UPDATE_S = 50.0, 400.0, 0.01
QUICK = EnergyPlan(idle_s=0.15, run_s=0.4, updates=20)


class Device:
    """A device that takes `IDLE_W`, or `LOAD_W` while it works, with a counter that moves every `UPDATE_S`."""

    def __init__(self, *, counter=True, update_s=UPDATE_S):
        self.counter, self.update_s = counter, update_s
        self.start = time.monotonic()
        self.work = []  # from, to
        self.lacking = {}
        if not counter:
            self.lacking["energy_j"] = "NVML: Not Supported"

    def read(self, own_pids=(), *, light=False):
        return Reading(at_s=time.monotonic(), energy_j=self.energy_j())

    def energy_j(self):
        if not self.counter:
            return None
        now = time.monotonic()
        now -= (now - self.start) % self.update_s
        worked = sum(max(0.0, min(stop, now) - begin) for begin, stop in self.work if begin < now)
        return 1000.0 + IDLE_W * (now - self.start) + (LOAD_W - IDLE_W) * worked

    def close(self):
        pass

    def run(self, seconds):
        begin = time.monotonic()
        self.work.append((begin, begin + seconds))
        time.sleep(seconds)
        return 1000, seconds


def test_the_energy_of_a_call():
    device = Device()
    found = measure_energy(device.run, device, QUICK)
    assert isinstance(found, Energy)
    assert (found.method, found.calls) == ("energy counter", 1000)
    assert found.seconds == pytest.approx(0.44, abs=0.05)  # 22 steps and the edges
    each = found.seconds / 1000
    assert found.joules_per_call == pytest.approx(LOAD_W * each, abs=found.resolution_j * 1.01)
    assert found.net_joules_per_call == pytest.approx((LOAD_W - IDLE_W) * each, abs=found.net_resolution_j * 1.01)
    assert found.idle_watts == pytest.approx(IDLE_W, rel=0.1)
    assert found.resolution_j < 0.2 * found.joules_per_call
    assert found.updates >= 10
    assert found.update_s == pytest.approx(UPDATE_S, rel=0.5)


def test_a_slow_counter_is_given_time():
    device = Device(update_s=0.05)
    asked = []
    found = measure_energy(
        lambda seconds: asked.append(seconds) or device.run(seconds), device, EnergyPlan(0.1, 0.1, updates=10)
    )
    assert isinstance(found, Energy)
    assert asked[0] == pytest.approx(12 * 0.05 + 0.2, rel=0.1)
    assert found.joules_per_call == pytest.approx(LOAD_W * found.seconds / 1000, rel=0.1)


def test_a_step_in_the_first_look_does_not_count():
    class Hasty(Device):
        looks = 0

        def energy_j(self):
            self.looks += 1
            return super().energy_j() + (1.0 if self.looks > 2 else 0.0)

    device = Hasty(update_s=0.05)
    found = measure_energy(device.run, device, EnergyPlan(0.01, 0.1, updates=5))
    assert isinstance(found, Energy)
    assert found.idle_watts == pytest.approx(IDLE_W, rel=0.1)


def test_a_counter_that_stands_still():
    device = Device(update_s=3600.0)
    assert measure_energy(device.run, device, EnergyPlan(idle_s=0.01, longest_s=0.1)) == (
        "the energy counter did not move 5 times in 0.1 s"
    )
    assert device.work == []


def test_a_counter_too_slow_for_the_time_there_is():
    device = Device()
    found = measure_energy(device.run, device, EnergyPlan(idle_s=0.1, run_s=0.1, updates=1000, longest_s=1.0))
    assert isinstance(found, str)
    assert found.endswith(" s each, take longer than 1 s")
    assert device.work == []


@pytest.mark.parametrize("update_s", [0.06, 0.4])
def test_a_counter_that_slows_down_under_load(update_s):
    device = Device()

    def run(seconds):
        device.update_s = update_s
        return device.run(seconds)

    found = measure_energy(run, device, QUICK)
    assert isinstance(found, str)
    assert "under load, too few for a figure" in found


def test_a_counter_that_went_backwards():
    device = Device()
    read = device.energy_j
    device.energy_j = lambda: -read()
    found = measure_energy(device.run, device, QUICK)
    assert found == ("the energy counter went backwards: the driver was reloaded, or the counter is faulty")


def test_power_is_never_taken_silently():
    device = Device(counter=False)
    assert measure_energy(device.run, device, QUICK) == "no energy counter: NVML: Not Supported"
    assert device.work == []


@pytest.mark.parametrize(
    ("calls", "took", "reason"),
    [
        (0, 0.4, "the worker reported 0 calls in 0.4 s"),
        (10, 0.0, "the worker reported 10 calls in 0 s"),
        (10, float("nan"), "the worker reported 10 calls in nan s"),
    ],
)
def test_a_worker_that_did_nothing(calls, took, reason):
    device = Device()
    assert measure_energy(lambda seconds: (calls, took), device, QUICK) == reason


@pytest.mark.parametrize("factor", [0.1, 2.0])
def test_a_worker_that_misreports_its_time(factor):
    device = Device()
    found = measure_energy(lambda seconds: (1, device.run(seconds)[1] * factor), device, QUICK)
    assert isinstance(found, str)
    assert found.startswith("the worker reported a run of ")


def test_the_watch_ends_with_a_run_that_fails(monkeypatch):
    device = Device()

    def fail(seconds):
        raise RuntimeError("the worker is gone")

    watching = []
    enter = Watch.__enter__

    def remember(self):
        watching.append(self)
        return enter(self)

    monkeypatch.setattr(Watch, "__enter__", remember)
    with pytest.raises(RuntimeError, match="^the worker is gone$"):
        measure_energy(fail, device, QUICK)
    assert len(watching) == 2
    assert not any(one._thread.is_alive() for one in watching)


def test_the_arithmetic_of_a_call():
    found = per_call(Slope(400.0, 4.0, 30, 0.02), Slope(50.0, 1.0, 20, 0.02), calls=100, seconds=2.0)
    assert (found.joules_per_call, found.net_joules_per_call, found.idle_watts) == (8.0, 7.0, 50.0)
    assert (found.resolution_j, found.net_resolution_j) == pytest.approx((0.08, 0.1))
    assert (found.calls, found.seconds, found.updates, found.update_s) == (100, 2.0, 30, 0.02)


def test_power_needs_two_steps_in_the_window():
    seen = [Step(0.0, 5.0), Step(1.0, 10.0, 0.1), Step(2.0, 20.0, 0.1), Step(3.0, 30.0, 0.1)]
    assert power_between(seen, 0.0, 3.5) == Slope(10.0, pytest.approx(10 * 0.1 / 1.9), 2, 1.0)
    assert power_between(seen, 0.95, 3.5) == Slope(10.0, pytest.approx(10 * 0.1 / 0.9), 1, 1.0)
    assert power_between(seen, 0.95, 2.5) is None
    assert power_between(seen[:2], 0.0, 9.0) is None  # what was seen first is no step


def test_steps_too_close_for_their_gaps():
    assert power_between([Step(0, 0), Step(1.0, 1.0, 0.5), Step(1.2, 2.0, 0.5)], 0, 9) is None


@given(
    watts=st.floats(1, 1000),
    update=st.floats(0.001, 0.2),
    polls=st.lists(st.floats(0.0005, 0.05), min_size=20, max_size=200),
)
def test_the_true_power_is_within_the_uncertainty(watts, update, polls):
    """However unevenly one polls, and whatever the steps of the counter."""
    now = before = 0.37
    value = None
    seen = []
    for wait in polls:
        found = watts * (now // update) * update
        if value is None:
            seen.append(Step(now, found))
        elif found != value:
            seen.append(Step(now, found, now - before))
        value, before, now = found, now, now + wait
    slope = power_between(seen, 0.0, now)
    if slope is not None:
        assert abs(slope.watts - watts) <= slope.uncertainty_w * (1 + 1e-6) + 1e-6 * watts


def test_a_watch_sees_each_change_and_when():
    device = Device()
    with Watch(device.energy_j) as watch:
        time.sleep(0.2)
    assert 10 <= len(watch.seen) <= 22
    assert watch.seen[0].gap_s == 0.0
    for one in watch.seen[1:]:
        late = (one.at_s - device.start) % UPDATE_S
        assert late <= one.gap_s + 1e-3 or one.gap_s >= UPDATE_S
    assert all(before.at_s < after.at_s and before.value < after.value for before, after in pairwise(watch.seen))


def test_a_watch_passes_over_what_is_not_answered():
    values = iter([None, 1.0, None, 1.0, 2.0])
    watch = Watch(lambda: next(values))
    for _ in range(5):
        watch.poll()
    assert [one.value for one in watch.seen] == [1.0, 2.0]


@pytest.mark.gpu
def test_the_energy_of_a_matrix_product():
    import torch

    telemetry = open_telemetry("cuda")
    if telemetry.energy_j() is None:
        assert telemetry.lacking["energy_j"]
        return
    left, right = (torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16) for _ in range(2))

    def run(seconds):
        calls, start = 0, time.monotonic()
        while time.monotonic() - start < seconds:
            for _ in range(20):
                left @ right
            torch.cuda.synchronize()
            calls += 20
        return calls, time.monotonic() - start

    run(0.2)
    time.sleep(2.0)
    found = measure_energy(run, telemetry, EnergyPlan(idle_s=1.0, run_s=1.0, updates=20))
    assert isinstance(found, Energy), found
    watts = found.joules_per_call * found.calls / found.seconds
    assert 10 < found.idle_watts < watts < 2000
    assert found.updates >= 10
    assert found.resolution_j < 0.1 * found.joules_per_call
    telemetry.close()
