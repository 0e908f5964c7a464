"""What starts ranks leaves the GPUs to them."""

import inspect
import os
from typing import Any

import pytest
import torch
from torch.distributed.elastic.rendezvous import dynamic_rendezvous

from aiperf_core.harness.processes.fork_server import gpus_untouched
from aiperf_core.harness.ranks.launcher import launch_config, name_steps_alike

VARIABLE = "PYTORCH_NVML_BASED_CUDA_CHECK"


@pytest.fixture
def two_gpus(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A torch that sees two GPUs by NVML; who asks CUDA itself is in the list."""
    asked: list[str] = []

    def ask(*_: Any) -> int:
        asked.append("cudaGetDeviceCount")
        return 2

    monkeypatch.setattr(torch.cuda, "_is_compiled", lambda: True)
    monkeypatch.setattr(torch.cuda, "_device_count_nvml", lambda: 2)
    monkeypatch.setattr(torch._C, "_cuda_getDeviceCount", ask, raising=False)
    return asked


def test_ranks_are_configured_without_asking_cuda(two_gpus: list[str]) -> None:
    config = launch_config(2)
    assert two_gpus == []
    assert getattr(config, "numa_options", None) is None
    assert torch.cuda.is_available()
    assert two_gpus  # as a rank asks that may


@pytest.mark.parametrize("before", [None, "0"])
def test_the_environment_is_as_before(monkeypatch: pytest.MonkeyPatch, before: str | None) -> None:
    if before is None:
        monkeypatch.delenv(VARIABLE, raising=False)
    else:
        monkeypatch.setenv(VARIABLE, before)
    with gpus_untouched():
        assert os.environ[VARIABLE] == "1"
    assert os.environ.get(VARIABLE) == before


def test_a_rendezvous_does_not_look_at_the_stack(monkeypatch: pytest.MonkeyPatch) -> None:
    def look(*_: Any) -> None:
        raise AssertionError("the stack was inspected")

    monkeypatch.setattr(inspect, "stack", look)
    monkeypatch.setattr(dynamic_rendezvous, "get_method_name", dynamic_rendezvous.get_method_name)
    name_steps_alike()
    assert dynamic_rendezvous.get_method_name() == "step"
