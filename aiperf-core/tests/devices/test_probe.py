import ctypes
import sys
from types import SimpleNamespace

import pytest
from made_up_driver import Driver, NVMLError

from aiperf_core.devices import probe
from aiperf_core.devices.probe import Gpu, Nvidia, has_cuda_device, nvidia


@pytest.fixture
def driver(put_driver):
    """Install a made-up driver with a number of GPUs; some of its functions may fail."""

    def put(gpus=1, **answers):
        return put_driver(
            Driver(
                **{
                    "DeviceGetCount": gpus,
                    "SystemGetDriverVersion": "580.95",
                    "SystemGetCudaDriverVersion_v2": 13020,
                    "DeviceGetHandleByIndex": lambda index: index,
                    "DeviceGetCudaComputeCapability": (9, 0),
                    "DeviceGetName": lambda handle: f"GPU {handle}",
                    "DeviceGetMemoryInfo": SimpleNamespace(total=1 << 30),
                    **answers,
                }
            )
        )

    return put


@pytest.fixture(autouse=True)
def plain(monkeypatch, put_driver):
    """Without a real libcuda."""
    monkeypatch.setattr(probe, "_count_through_libcuda", lambda: 0)


def test_gpus_are_described_and_nvml_is_closed(driver):
    nvml = driver(2)
    assert nvidia() == Nvidia("580.95", "13.2", (Gpu("GPU 0", 1 << 30, "9.0"), Gpu("GPU 1", 1 << 30, "9.0")))
    assert nvml.open == 0


@pytest.mark.parametrize(
    ("answers", "problem"),
    [
        ({"gpus": 0}, "the NVIDIA driver is loaded but reports no GPU"),
        ({"DeviceGetCount": NVMLError("Unknown Error")}, "the NVIDIA driver answers with an error: Unknown Error"),
    ],
)
def test_a_driver_without_gpus_says_why(driver, answers, problem):
    nvml = driver(**answers)
    assert nvidia().problem == problem
    assert nvml.open == 0


@pytest.mark.parametrize(
    ("vendor", "kind", "problem"),
    [
        ("0x10de", "0x030200", "an NVIDIA GPU is in this machine but its driver is not loaded"),
        ("0x10de", "0x040300", "no NVIDIA GPU was found"),  # the sound of one passed through alone
        ("0x1002", "0x030000", "no NVIDIA GPU was found"),
    ],
)
def test_without_a_driver_the_bus_tells(monkeypatch, driver, tmp_path, vendor, kind, problem):
    driver(Init=NVMLError("Driver Not Loaded"))
    device = tmp_path / "0000:00:04.0"
    device.mkdir()
    (device / "vendor").write_text(vendor + "\n")
    (device / "class").write_text(kind + "\n")
    (tmp_path / "0000:00:05.0").mkdir()
    monkeypatch.setattr(probe, "Path", lambda _: tmp_path)
    assert nvidia() == Nvidia(problem=problem)


def test_without_nvml(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert nvidia() == Nvidia(problem="nvidia-ml-py is not installed")


@pytest.mark.parametrize(
    ("visible", "found"), [(None, True), ("0", True), ("0,1", True), ("GPU-1", True), ("", False), ("-1", False)]
)
def test_devices_can_be_hidden(monkeypatch, driver, visible, found):
    driver()
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert has_cuda_device() is found


@pytest.mark.parametrize(
    ("starts", "through_libcuda", "found"), [(False, 1, True), (False, 0, False), (True, 1, False)]
)
def test_libcuda_is_asked_where_nvml_does_not_answer(monkeypatch, driver, starts, through_libcuda, found):
    driver(0, Init=None if starts else NVMLError("Driver Not Loaded"))
    monkeypatch.setattr(probe, "_count_through_libcuda", lambda: through_libcuda)
    assert has_cuda_device() is found


def test_libcuda_counts(monkeypatch):
    monkeypatch.undo()

    class Libcuda:
        cuInit = staticmethod(lambda flags: 0)  # noqa: N815, the driver's own name

        @staticmethod
        def cuDeviceGetCount(pointer):  # noqa: N802, the driver's own name
            pointer._obj.value = 3
            return 0

    monkeypatch.setattr(ctypes, "CDLL", lambda name: Libcuda)
    assert probe._count_through_libcuda() == 3
    monkeypatch.setattr(Libcuda, "cuInit", staticmethod(lambda flags: 100))
    assert probe._count_through_libcuda() == 0


def test_without_libcuda(monkeypatch):
    monkeypatch.undo()

    def missing(name):
        raise OSError(name)

    monkeypatch.setattr(ctypes, "CDLL", missing)
    assert probe._count_through_libcuda() == 0


@pytest.mark.gpu
def test_the_gpu_of_this_machine_is_found(monkeypatch):
    monkeypatch.undo()
    found = nvidia()
    assert found.problem == ""
    assert found.gpus[0].memory_bytes > 1 << 30
    assert has_cuda_device()
