"""The breakdown of traces with known figures, to the nanosecond."""

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiperf_core.profiling.timeline import union_of
from aiperf_traces import breakdown, example, reading, windows
from aiperf_traces.breakdown import Breakdown
from aiperf_traces.building import Builder
from aiperf_traces.model import NONE, Kind, covered, length_within
from aiperf_traces.totals import of_devices
from aiperf_traces.windows import Window


def built(rows, rank=0):
    """A trace of work: (start, end, kind, stream, launch start or None)."""
    builder = Builder()
    number = builder.names.number("kernel")
    thread = builder.threads.number("main")
    for index, (start, end, kind, stream, launch) in enumerate(rows, start=1):
        joined = index if launch is not None else NONE
        builder.add(start, end, kind, number, stream=stream, device=0, correlation=joined)
        if launch is not None:
            call = builder.names.number("cudaLaunchKernel")
            builder.add(launch, launch + 1, Kind.LAUNCH, call, thread=thread, correlation=joined)
    return builder.finish(rank=rank, path="built", tool="kineto")


def read(tmp_path, **job):
    return reading.read([example.write(tmp_path / "trace.json", example.Job(**job))])[0]


@pytest.mark.parametrize("layers", [2, 5])
def test_the_breakdown_of_a_known_trace_is_exact(tmp_path, layers):
    trace = read(tmp_path, steps=3, layers=layers)
    (device,) = breakdown.devices_of(trace)
    first, _, last = windows.of(trace)
    expected = Breakdown(
        window=20_000 * layers + 58_000,
        compute=18_000 * layers + 10_000,
        communication=22_000,
        copies=10_000,
        idle=2000 * layers + 16_000,
        host_bound=15_000,
        waiting=2000 * layers + 1000,
        unknown=0,
        overlapped=18_000,
        communicating=40_000,
    )
    assert breakdown.breakdown(device, first) == expected
    # Nothing was launched after the last gap.
    found = breakdown.breakdown(device, last)
    assert (found.host_bound, found.unknown) == (11_000, 4000)


def slices():
    time = st.integers(0, 60)
    return st.tuples(time, st.integers(0, 20), st.integers(0, 3), st.integers(1, 2), st.one_of(st.none(), time)).map(
        lambda one: (one[0], one[0] + one[1], one[2], one[3], one[4])
    )


@settings(max_examples=150, deadline=None)
@given(st.lists(slices(), min_size=1, max_size=12), st.integers(0, 40), st.integers(1, 40))
def test_the_parts_add_up_to_the_window_and_equal_a_count_of_every_nanosecond(rows, begin, length):
    trace = built(rows)
    (device,) = breakdown.devices_of(trace)
    window = Window("w", 0, begin, begin + length)
    found = breakdown.breakdown(device, window)
    assert found.compute + found.communication + found.copies + found.idle == found.window == length
    assert found.host_bound + found.waiting + found.unknown == found.idle
    kinds = [{kind for start, end, kind, *_ in rows if start <= at < end} for at in range(begin, begin + length)]
    assert found.compute == sum(Kind.COMPUTE in one for one in kinds)
    assert found.communication == sum(Kind.COMMUNICATION in one and Kind.COMPUTE not in one for one in kinds)
    assert found.idle == sum(not one for one in kinds)
    assert found.overlapped == sum({Kind.COMMUNICATION, Kind.COMPUTE} <= one for one in kinds)
    # Each nanosecond counts for one slice.
    _, alone = breakdown.exclusive(trace, device, window)
    assert alone.sum() == found.window - found.idle
    assert (alone >= 0).all()


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 9)), max_size=15), st.integers(0, 60), st.integers(0, 30))
def test_unions(pairs, begin, length):
    starts = np.array([start for start, _ in pairs], dtype=np.int64)
    ends = np.array([start + size for start, size in pairs], dtype=np.int64)
    union = union_of(starts, ends)
    truth = {at for start, size in pairs for at in range(start, start + size)}
    assert length_within(union, begin, begin + length) == len(truth & set(range(begin, begin + length)))
    assert covered(union, np.array([1000]))[0] == len(truth)
    assert (union[0][1:] > union[1][:-1]).all()


@pytest.mark.parametrize(
    ("launch", "reason"),
    [(25, "host_bound"), (20, "host_bound"), (15, "waiting"), (None, "unknown")],
    ids=["after the work before", "when it ended", "before it ended", "without a launch"],
)
def test_the_reason_of_idle_time(launch, reason):
    trace = built([(10, 20, 0, 7, 5), (30, 40, 0, 7, launch)])
    (device,) = breakdown.devices_of(trace)
    found = breakdown.breakdown(device, Window("w", 0, 10, 40))
    assert found.idle == 10
    assert getattr(found, reason) == 10


def test_launch_figures():
    # Two kernels wait from 5 and 6 on, until 10 and 20; the second is shorter than its launch.
    trace = built([(10, 20, 0, 7, 5), (20, 20, 0, 7, 6), (50, 60, 0, 7, 58)])
    (device,) = breakdown.devices_of(trace)
    found = breakdown.launch_figures(trace, device, [Window("w", 0, 0, 100)], small=0)
    assert (found.work, found.matched, found.short, found.early) == (3, 3, 1, 1)
    assert found.delays.tolist() == [4, 13, 0]
    assert (found.queue_most, found.queue_mean) == (2, pytest.approx((5 + 14) / 15))


def test_small_copies_are_counted(tmp_path):
    trace = read(tmp_path, steps=2)
    (device,) = breakdown.devices_of(trace)
    own = windows.of(trace)
    found = breakdown.launch_figures(trace, device, own, small=40_000)
    assert (found.copies, found.small_copies, found.small_bytes, found.small_time) == (2, 2, 80_000, 20_000)
    assert breakdown.launch_figures(trace, device, own, small=39_999).small_copies == 0


def test_sequences_stay_on_a_stream_and_come_again():
    rows = [(10 * at, 10 * at + 5, 0, 7, None) for at in range(6)] + [(500, 590, 0, 9, None)]
    trace = built(rows)
    (device,) = breakdown.devices_of(trace)
    (found,) = breakdown.sequences(trace, device, [Window("w", 0, 0, 1000)], 3, 5)
    assert (found.count, found.time) == (4, 60)


def test_windows_by_name(tmp_path):
    trace = read(tmp_path, steps=3, layers=2)
    assert [one.name for one in windows.of(trace)] == ["ProfilerStep#0", "ProfilerStep#1", "ProfilerStep#2"]
    assert len(windows.of(trace, "layer_*")) == 6
    assert [one.length for one in windows.of(trace, "ProfilerStep#1")] == [98_000]
    (whole,) = windows.of(trace, "whole")
    assert whole.length == 3 * 98_000
    with pytest.raises(Exception, match=r"has no range 'epoch'\. Ranges in it: 'ProfilerStep#0', 'layer_0'"):
        windows.of(trace, "epoch")


def test_pieces_add_up_to_the_window(tmp_path):
    trace = read(tmp_path, steps=3, layers=4)
    found = of_devices(trace, breakdown.devices_of(trace), windows.of(trace))
    assert sum(piece.alone for piece in found.pieces.values()) + found.rest == found.window == 3 * 138_000
    random_piece = random.Random(0).choice(sorted(found.pieces))
    assert len(found.pieces[random_piece].lengths) >= 3
    paths = {piece.path for piece in found.pieces.values() if "vectorized" in piece.name}
    assert paths == {("layer_N", "aten::add")}
