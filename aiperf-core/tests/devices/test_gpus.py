import sys
from types import SimpleNamespace

import pytest
from made_up_driver import Driver, NVMLError

from aiperf_core.devices.gpus import gpus
from aiperf_core.devices.nvml import held

GPU = {
    "DeviceGetCount": 1,
    "SystemGetDriverVersion": "570.86.15",
    "DeviceGetHandleByIndex": "handle",
    "DeviceGetName": "NVIDIA H200",
    "DeviceGetUUID": b"GPU-1",
    "DeviceGetMemoryInfo": SimpleNamespace(total=150_754_820_096),
    "DeviceGetCudaComputeCapability": (9, 0),
    "DeviceGetNumGpuCores": 16896,
    "DeviceGetEnforcedPowerLimit": 700_000,
    "DeviceGetClockInfo": 345,
    "DeviceGetMaxClockInfo": 1980,
    "DeviceGetTemperature": 31,
    "DeviceGetMigMode": [0, 1],
    "DeviceGetPersistenceMode": 1,
    "DeviceGetEccMode": [1, 1],
}


@pytest.fixture
def install(put_driver):
    return lambda **answers: put_driver(Driver(**{**GPU, **answers}))


def test_everything_a_gpu_tells(install):
    nvml = install()
    assert gpus() == (
        [
            {
                "index": 0,
                "name": "NVIDIA H200",
                "uuid": "GPU-1",
                "memory_bytes": 150_754_820_096,
                "capability": "9.0",
                "cores": 16896,
                "power_limit_w": 700.0,
                "sm_clock_hz": 345_000_000,
                "sm_clock_max_hz": 1_980_000_000,
                "memory_clock_hz": 345_000_000,
                "memory_clock_max_hz": 1_980_000_000,
                "temperature_c": 31,
                "mig": False,
                "persistence": True,
                "ecc": True,
            }
        ],
        "570.86.15",
    )
    assert (nvml.asked[0], nvml.asked[-1]) == (("Init",), ("Shutdown",))
    assert all("Get" in name for name, *_ in nvml.asked[1:-1])


def test_what_a_gpu_does_not_tell_is_none(install):
    unsupported = NVMLError("Not Supported")
    install(DeviceGetMigMode=unsupported, DeviceGetEnforcedPowerLimit=unsupported, DeviceGetMemoryInfo=unsupported)
    (gpu,), _ = gpus()
    assert (gpu["mig"], gpu["power_limit_w"], gpu["memory_bytes"]) == (None, None, None)


def test_an_old_library_lacks_functions(install):
    nvml = install()
    del nvml.answers["DeviceGetNumGpuCores"]
    (gpu,), _ = gpus()
    assert gpu["cores"] is None


def test_a_gpu_that_is_lost_still_counts(install):
    install(DeviceGetHandleByIndex=NVMLError("GPU is lost"))
    assert gpus() == ([{"index": 0}], "570.86.15")


def test_no_driver(install):
    install(Init=NVMLError("Driver Not Loaded"))
    assert gpus() == ([], None)


def test_no_library(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert gpus() == ([], None)


def test_nvml_is_held_for_those_who_ask_meanwhile_and_let_go_of_in_the_end(install):
    nvml = install()
    with held():
        assert nvml.asked == [("Init",)]
        gpus()
        assert (nvml.times("Init"), nvml.times("Shutdown")) == (2, 1)
    assert (nvml.times("Init"), nvml.times("Shutdown")) == (2, 2)
    assert nvml.asked[-1] == ("Shutdown",)


def test_where_there_is_no_nvml_none_is_held(install):
    nvml = install(Init=NVMLError("no driver"))
    with held():
        pass
    assert nvml.asked == [("Init",)]
