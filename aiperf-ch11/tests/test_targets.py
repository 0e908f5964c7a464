"""What is special to the chapter's targets; `pytest --aiperf` tests every target at the smallest and at awkward sizes."""

from typing import Any

import pytest
import torch

from aiperf_ch11 import event_dag, host_sync_removal
from aiperf_core.benchmark import call_with
from aiperf_core.plugins import load_plugins
from aiperf_core.testing import Measure, problems

ON_CPU = [one.name for one in load_plugins().targets if one.group == "ch11" and "cpu" in one.devices]


def drawn(bench: Any, size: dict[str, float]) -> dict[str, Any]:
    """All that an implementation may ask for."""
    given: dict[str, Any] = {**size, "device": "cpu", "generator": torch.Generator().manual_seed(1)}
    return {**size, **call_with(bench.task.inputs, given)}


@pytest.mark.parametrize(("batch", "width"), [(32, 512), (64, 64), (8, 256)])
def test_some_gradients_are_clipped_and_some_are_not(batch: int, width: int) -> None:
    given = drawn(host_sync_removal.bench, {"steps": 40, "batch": batch, "width": width})
    norms = run_of("read_each_step", given)["metrics"][:, 1]
    clipped = int((norms > host_sync_removal.rate_and_limit(batch, width)[1]).sum())
    assert 2 <= clipped <= 38


def test_the_device_decides_as_the_host_does() -> None:
    size: dict[str, float] = {"steps": 9, "batch": 5, "width": 67}
    by_host = run_of("read_each_step", drawn(host_sync_removal.bench, size))
    for name in ("on_device", "one_late"):
        by_device = run_of(name, drawn(host_sync_removal.bench, size))
        torch.testing.assert_close(by_device, by_host)


def run_of(name: str, given: dict[str, Any]) -> Any:
    """The output of an implementation of `host_sync_removal`."""
    (one,) = (one for one in host_sync_removal.bench.implementations_on("cpu") if one.name == name)
    instance = one.code()
    call_with(instance.prepare, given)
    return call_with(instance.run, given)


@pytest.mark.parametrize(("stages", "tiles"), [(4, 6), (3, 1), (2, 13)])
def test_launches_in_any_order_that_the_events_allow(stages: int, tiles: int) -> None:
    given = drawn(event_dag.bench, {"stages": stages, "tiles": tiles, "rows": 3, "width": 31})
    launched = event_dag.Events()
    launched.results, launched.spare = (torch.full((stages, *given["x"].shape), torch.nan) for _ in range(2))
    waiting = [(stage, tile) for stage in range(stages) for tile in range(tiles)]
    over: set[tuple[int, int]] = set()
    while waiting:  # the last one of which all inputs are there: far from the order of stages
        ready = [(s, t) for s, t in waiting if not s or {(s - 1, t), (s - 1, (t - 1) % tiles)} <= over]
        stage, tile = ready[-1]
        launched.launch(given["x"], given["weights"][stage], stage, tile)
        waiting.remove((stage, tile))
        over.add((stage, tile))
    torch.testing.assert_close(launched.results[-1], event_dag.reference(given["x"], given["weights"]))


@pytest.mark.long
@pytest.mark.parametrize("target", ON_CPU)
def test_right_on_the_cpu_at_the_sizes_of_the_lesson(aiperf_measure: Measure, target: str) -> None:
    assert problems(aiperf_measure(target, size="cpu")) == []
