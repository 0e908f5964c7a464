"""The page of a device's ceilings."""

import io
from typing import Any

import attrs
import pytest

from aiperf_core.cli.screen import Screen
from aiperf_core.measurements import Ceilings
from aiperf_core.render.ceilings_page import label_of, render

H200 = Ceilings(
    device="NVIDIA H200",
    measured="2026-11-20T09:00:00+00:00",
    copy_bytes_per_s=4.29e12,
    read_bytes_per_s=4.36e12,
    write_bytes_per_s=4.65e12,
    flop_per_s={"fp32": 51e12, "bf16": 789e12, "int8": 1.2e15},
    event_overhead_s=2.05e-6,
    cache_bytes=60.0 * (1 << 20),
    sm_clock_hz=1.98e9,
    whole=True,
    launch_s=2.5e-6,
    transfer_bytes_per_s={"pinned_to_device": 55.5e9},
    peer_bytes_per_s={"0-1": 373e9},
    all_reduce_bytes_per_s={"2": 329e9},
    how={"copy_bytes_per_s": "float4 kernel, 4 GiB", "flop_per_s.bf16": "torch.mm, 8192^3"},
    missing={"flop_per_s.fp8": "no kernel", "shared_bytes_per_s": "no kernel"},
    datasheet={"copy_bytes_per_s": 4.8e12, "flop_per_s.bf16": 989.5e12},
    datasheet_name="NVIDIA H200 Tensor Core GPU datasheet, H200 SXM",
    state={"torch": "2.11", "driver": "570.86", "power_limit_w": "700"},
    took_s=9.34,
)


def page(ceilings: Ceilings, width: int) -> str:
    stream = io.StringIO()
    screen = Screen(stream, width)
    screen.print(render(ceilings, screen.look, width))
    return stream.getvalue()


@pytest.mark.parametrize("width", [80, 100])
def test_the_page_of_a_gpu(width: int) -> None:
    text = page(H200, width)
    lines = text.splitlines()
    assert lines[0] == "NVIDIA H200"
    assert max(map(len, lines)) <= width
    assert text.isascii()
    assert not any(line.endswith(" ") for line in lines)
    words = [" ".join(line.split()) for line in lines]
    for line in (
        "copy (read + write) 4.29 TB/s 4.80 TB/s 89 % float4 kernel, 4 GiB",
        "bf16 matrix product 789 TFLOP/s 990 TFLOP/s 80 % torch.mm, 8192^3",
        "int8 matrix product 1.20 POP/s",
        "last-level cache, size 60 MiB",
        "excess of events 2.05 us",
        "SM clock 1.98 GHz",
        "GPU 0 to 1 373 GB/s",
    ):
        assert line in words
    assert "  fp8 matrix product, shared memory, read: no kernel" in lines
    heads = [line.split("  ")[0] for line in lines if line and not line.startswith((" ", "-"))]
    sections = ["memory", "arithmetic", "launches and clocks", "transfers", "several GPUs", "not measured"]
    assert [head for head in heads if head in sections] == sections


def test_links_and_disk_of_a_processor() -> None:
    """Two figures of one section may share a reason, and each has its name."""
    cpu = Ceilings("A CPU", "some day", 1e9, 1e9, 1e9, {}, loopback_bytes_per_s=3e9, disk_read_bytes_per_s=8.24e8)
    words = [" ".join(line.split()) for line in page(cpu, 80).splitlines()]
    for line in ("process to process 3.00 GB/s", "disk, read 824 MB/s"):
        assert line in words
    reason = "temporary files are in memory: '/tmp' is tmpfs"
    without = attrs.evolve(cpu, missing=dict.fromkeys(("disk_read_bytes_per_s", "disk_write_bytes_per_s"), reason))
    assert f"  disk, read, disk, write: {reason}" in page(without, 100)


def test_without_a_data_sheet_there_are_no_columns_for_it() -> None:
    text = page(attrs.evolve(H200, datasheet={}, datasheet_name=None), 80)
    assert "data sheet" not in text
    assert "copy (read + write) 4.29 TB/s float4 kernel, 4 GiB" in " ".join(text.split())


def test_the_least_that_there_can_be() -> None:
    text = page(Ceilings("A CPU", "some day", 1e9, 1e9, 1e9, {}), 80)
    assert text.startswith("A CPU\nmeasured some day\n\nmemory")
    assert "arithmetic" not in text


def test_a_busy_machine_is_told() -> None:
    busy = "Other processes took 20 % of the processors meanwhile"
    assert busy in page(attrs.evolve(H200, others_busy=0.2), 80)
    assert busy not in page(attrs.evolve(H200, others_busy=0.04), 80)


@pytest.mark.parametrize("width", [80, 120])
def test_a_long_way_of_measuring_is_wrapped_and_not_cut(width: int) -> None:
    how = "direct, 4 x 1 MiB at once, 256 MiB in '/a/folder/of/temporary/files/with/a/rather_long_name_of_its_own'"
    text = page(attrs.evolve(H200, how={"copy_bytes_per_s": how}), width)
    assert max(map(len, text.splitlines())) <= width
    shown = "".join(text.split())
    assert all(part in shown for part in ("256MiB", "its_own'"))


def test_many_pairs_are_shown_by_their_ends() -> None:
    rates = {f"{a}-{b}": 3e11 + a + 10 * b for a in range(4) for b in range(4) if a != b}
    text = page(attrs.evolve(H200, peer_bytes_per_s=rates), 80)
    assert "slowest of 12: GPU 1 to 0" in text
    assert "fastest of 12: GPU 2 to 3" in text
    assert "GPU 0 to 1" not in text


@pytest.mark.parametrize(
    ("key", "label"),
    [
        ("copy_bytes_per_s", "copy (read + write)"),
        ("transfer_bytes_per_s.pageable_from_device", "device to pageable host"),
        ("timer_call_s.process_time", "call of process_time"),
        ("all_reduce_bytes_per_s", "all_reduce_bytes_per_s"),
    ],
)
def test_labels(key: str, label: str) -> None:
    assert label_of(key) == label


def test_somebody_elses_text_cannot_move_the_cursor() -> None:
    odd: Any = attrs.evolve(
        H200, device="GPU\x1b[2J", how={"copy_bytes_per_s": "\x1b[31mred"}, missing={"launch_s": "\x07"}
    )
    assert "\x1b" not in page(odd, 80)
    assert "\x07" not in page(odd, 80)
