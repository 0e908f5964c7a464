"""The peak rates of a device as a result."""

import attrs
import pytest

from aiperf_core.devices.ceiling_figures import unit_of
from aiperf_core.measurements import Ceilings
from aiperf_core.report.ceilings import label_of, view
from aiperf_core.report.cell_text import text

H200 = Ceilings(
    device="NVIDIA H200",
    measured="2026-11-20T09:00:00+00:00",
    copy_bytes_per_s=4.29e12,
    read_bytes_per_s=4.36e12,
    write_bytes_per_s=4.65e12,
    flop_per_s={"bf16": 789e12, "int8": 1.2e15},
    event_overhead_s=2.05e-6,
    cache_bytes=60.0 * (1 << 20),
    sm_clock_hz=1.98e9,
    peer_bytes_per_s={"0-1": 373e9},
    how={"copy_bytes_per_s": "float4 kernel, 4 GiB", "flop_per_s.bf16": "torch.mm, 8192^3"},
    missing={"flop_per_s.fp8": "no kernel", "shared_bytes_per_s": "no kernel", "disk_read_bytes_per_s": "in memory"},
    datasheet={"copy_bytes_per_s": 4.8e12, "flop_per_s.bf16": 989.5e12},
    datasheet_name="NVIDIA H200 Tensor Core GPU datasheet, H200 SXM",
    state={"torch": "2.11", "driver": "570.86", "power_limit_w": "700"},
    took_s=9.34,
)


def cells(ceilings):
    return [[text(cell) for cell in record.cells.values()] for record in view(ceilings).tables[0].records]


def test_a_gpu():
    result = view(H200)
    assert result.title == "NVIDIA H200"
    assert result.summary == ["measured 2026-11-20 09:00 UTC in 9.3 s, torch 2.11, driver 570.86, power limit 700 W"]
    assert cells(H200) == [
        ["memory", "copy (read + write)", "4.29 TB/s", "4.80 TB/s", "89.4 %", "float4 kernel, 4 GiB"],
        ["memory", "read", "4.36 TB/s", "-", "-", "-"],
        ["memory", "write", "4.65 TB/s", "-", "-", "-"],
        ["memory", "last-level cache, size", "60 MiB", "-", "-", "-"],
        ["arithmetic", "bf16 matmul", "789 TFLOP/s", "990 TFLOP/s", "79.7 %", "torch.mm, 8192^3"],
        ["arithmetic", "int8 matmul", "1.20 POP/s", "-", "-", "-"],
        ["launches and clocks", "excess of events", "2.05 µs", "-", "-", "-"],
        ["launches and clocks", "SM clock", "1.98 GHz", "-", "-", "-"],
        ["several GPUs", "GPU 0 to 1", "373 GB/s", "-", "-", "-"],
    ]
    assert "NVIDIA H200 Tensor Core GPU datasheet, H200 SXM" in result.tables[0].note
    assert [(part.what, part.reason) for part in result.left_out] == [
        ("fp8 matmul, shared memory, read", "no kernel"),
        ("disk, read", "in memory"),
    ]


def test_a_busy_machine_and_one_without_a_data_sheet():
    busy = "Other processes took 20 % of the processors meanwhile"
    assert view(attrs.evolve(H200, others_busy=0.2)).summary[1].startswith(busy)
    assert len(view(attrs.evolve(H200, others_busy=0.04)).summary) == 1
    assert view(attrs.evolve(H200, datasheet={}, datasheet_name=None)).tables[0].note == ""


def test_many_pairs_are_shown_by_their_ends():
    rates = {f"{a}-{b}": 3e11 + a + 10 * b for a in range(4) for b in range(4) if a != b}
    names = [row[1] for row in cells(attrs.evolve(H200, peer_bytes_per_s=rates)) if "GPU" in row[1]]
    assert names == ["slowest of 12: GPU 1 to 0", "fastest of 12: GPU 2 to 3"]


@pytest.mark.parametrize(
    ("key", "label", "unit"),
    [
        ("copy_bytes_per_s", "copy (read + write)", "B/s"),
        ("transfer_bytes_per_s.pageable_from_device", "device to pageable host", "B/s"),
        ("timer_call_s.process_time", "call of process_time", "s"),
        ("all_reduce_bytes_per_s", "all_reduce_bytes_per_s", "B/s"),
    ],
)
def test_labels(key, label, unit):
    assert (label_of(key), unit_of(key)) == (label, unit)
