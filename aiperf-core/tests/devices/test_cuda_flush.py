"""A flush on a GPU displaces the data of a call, and leaves no written lines for the call to wait for."""

import statistics

import pytest
import torch

MIB = 1 << 20


@pytest.mark.gpu
def test_a_read_after_a_flush_takes_as_long_as_after_other_reads() -> None:
    from aiperf_core.devices.cuda import CudaDevice

    device = CudaDevice()
    data, others = (torch.ones(size // 8, dtype=torch.int64, device="cuda") for size in (32 * MIB, 512 * MIB))

    def read_s(after: object) -> float:
        times = []
        for _ in range(21):
            after()  # type: ignore[operator]
            times.append(device._event_s(data.sum))
        return statistics.median(times)

    flushed, displaced = read_s(device.flush), read_s(others.sum)
    assert flushed == pytest.approx(displaced, rel=0.05)
    assert read_s(lambda: None) < displaced
