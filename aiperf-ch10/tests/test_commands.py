"""`aiperf ch10 pipelines`: what architectures have, and depths by hand, without a GPU and with a made-up driver."""

import json
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner, Result

from aiperf_ch10 import pipelines
from aiperf_ch10.cli import ch10
from aiperf_core.errors import SkipError, UsageError
from aiperf_core.plugins import load_plugins


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(ch10, ["pipelines", *arguments], standalone_mode=False)


@pytest.fixture(autouse=True)
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> Any:
        raise SkipError("needs a CUDA driver")

    monkeypatch.setattr(pipelines, "cuda_driver", missing)


@pytest.mark.parametrize(
    ("arch", "names"),
    [
        ("sm_80", {"cp.async", "mbarrier"}),
        ("sm_90a", {"cp.async", "mbarrier", "TMA", "clusters", "griddepcontrol", "wgmma", "setmaxnreg"}),
        ("sm_75", set()),
    ],
)
def test_what_an_architecture_has(arch: str, names: set[str]) -> None:
    document = json.loads(invoke("--arch", arch, "--json").output)
    assert {one["name"] for one in document["means"] if one["here"]} == names


def test_blackwell_has_other_products_than_hopper() -> None:
    here = {one.name for one in pipelines.MEANS if one.is_in(100)}
    assert {"tcgen05", "clusterlaunchcontrol"} < here
    assert "wgmma" not in here
    assert "tcgen05" not in {one.name for one in pipelines.MEANS if one.is_in(120)}


def test_depths_by_littles_law() -> None:
    gpu = pipelines.Gpu("made up", "sm_90", 100, 4.096e12)
    assert pipelines.in_flight(gpu, 1e-6) == pytest.approx(40960)
    found = {one.stage_bytes >> 10: one for one in pipelines.depths(gpu, 1e-6, 1)}
    assert [found[kib].stages for kib in (4, 8, 16, 64)] == [11, 6, 4, 2]  # 40 KiB on their way, and one in use
    assert all(one.fits for one in found.values())
    halved = {one.stage_bytes >> 10: one for one in pipelines.depths(gpu, 1e-6, 2)}
    assert (halved[4].stages, halved[64].stages, halved[64].fits) == (6, 2, False)  # 2 blocks of 128 KiB in 228


def test_without_a_gpu() -> None:
    lines = [" ".join(line.split()) for line in invoke().output.splitlines()]
    assert "4.80 TB/s x 800 ns / 132 multiprocessors: 28 KiB on their way in each" in lines
    assert "16 3 48 fits" in lines
    assert lines[-1].startswith("No GPU can be asked: needs a CUDA driver. These figures are those of an H200")


def test_with_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    values = {"COMPUTE_CAPABILITY_MAJOR": 9, "COMPUTE_CAPABILITY_MINOR": 0, "MULTIPROCESSOR_COUNT": 132}
    values |= {"MEMORY_CLOCK_RATE": 3_201_000, "GLOBAL_MEMORY_BUS_WIDTH": 6144}
    driver = SimpleNamespace(
        CUdevice_attribute=SimpleNamespace(**{f"CU_DEVICE_ATTRIBUTE_{name}": name for name in values}),
        cuDeviceGet=lambda number: (0, number),
        cuDeviceGetName=lambda length, device: (0, b"NVIDIA H200\0\0"),
        cuDeviceGetAttribute=lambda name, device: (0, values[name]),
    )
    monkeypatch.setattr(pipelines, "cuda_driver", lambda: driver)
    assert pipelines.this_gpu() == pipelines.Gpu("NVIDIA H200", "sm_90", 132, pytest.approx(4.917e12, rel=1e-3))
    assert "No GPU" not in invoke().output


def test_mistakes_are_named() -> None:
    error = invoke("--arch", "hopper").exception
    assert isinstance(error, UsageError)
    assert str(error) == "'hopper' is not an architecture; one looks like sm_90 or sm_100a"


def test_targets_exist() -> None:
    known = {target.name for target in load_plugins().targets}
    assert {one.target for one in pipelines.MEANS if one.target and one.target.startswith("ch10.")} <= known
