import sys

import pytest


@pytest.fixture
def put_driver(monkeypatch):
    """Put a made-up NVML in place of the library; all its GPUs are visible, in its order."""
    for name in ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"):
        monkeypatch.delenv(name, raising=False)

    def put(nvml):
        monkeypatch.setitem(sys.modules, "pynvml", nvml)
        return nvml

    return put
