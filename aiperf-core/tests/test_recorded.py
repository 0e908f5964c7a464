"""A recording plays its entries in order; a library with the driver's entry points takes notes in its place."""

import ctypes
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from aiperf_core import recorded
from aiperf_core.errors import KernelError, SkipError
from aiperf_core.kernels import HostSource
from aiperf_core.kernels.host_compiler import find_compiler
from aiperf_core.kernels.launcher import BoundLaunch, Frame, launch_of
from aiperf_core.recorded import Memory, Recording

# Each entry point writes a line. An allocation gets the addresses 1000, 2000, ...; the call number `fail_at` fails.
DRIVER = r"""
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static char log_text[1 << 16];
static int calls, fail_at = -1;
static uint64_t allocated;

const char* text(void) { return log_text; }
void start(int at) { log_text[0] = 0, calls = 0, fail_at = at, allocated = 0; }

static int note(const char* format, ...) {
  va_list values;
  va_start(values, format);
  size_t used = strlen(log_text);
  vsnprintf(log_text + used, sizeof log_text - used, format, values);
  va_end(values);
  return calls++ == fail_at ? 700 : 0;
}

typedef void* at;
typedef long long ll;
int cuLaunchKernel(at f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, at s,
                   at* p, at* extra) {
  return note("launch %lld (%u,%u,%u) (%u,%u,%u) %u on %lld: %lld\n", (ll)f, gx, gy, gz, bx, by, bz, shared, (ll)s,
              *(ll*)p[0]);
}
// The structs of cuda.h.
typedef struct { int id; char pad[4]; union { char pad[64]; int programmatic; } value; } CUlaunchAttribute;
typedef struct { unsigned gx, gy, gz, bx, by, bz, shared; at stream; CUlaunchAttribute* attrs; unsigned count; } CUlaunchConfig;
int cuLaunchKernelEx(const CUlaunchConfig* c, at f, at* p, at* extra) {
  return note("early %lld (%u,%u,%u) (%u,%u,%u) %u on %lld: %lld, attribute %d is %d of %u\n", (ll)f, c->gx, c->gy, c->gz,
              c->bx, c->by, c->bz, c->shared, (ll)c->stream, *(ll*)p[0], c->attrs->id, c->attrs->value.programmatic, c->count);
}
int cuEventRecord(at event, at s) { return note("record %lld on %lld\n", (ll)event, (ll)s); }
int cuStreamWaitEvent(at s, at event, unsigned flags) { return note("wait for %lld on %lld\n", (ll)event, (ll)s); }
int cuMemcpyAsync(uint64_t to, uint64_t from, uint64_t size, at s) {
  memcpy((at)to, (at)from, size);
  return note("copy %lld on %lld\n", (ll)size, (ll)s);
}
int cuMemAlloc_v2(uint64_t* to, uint64_t size) {
  *to = allocated += 1000;
  return note("allocate %lld\n", (ll)size);
}
int cuMemFree_v2(uint64_t from) { return note("free %lld\n", (ll)from); }
int cuMemAllocFromPoolAsync(uint64_t* to, uint64_t size, at pool, at s) {
  *to = allocated += 1000;
  return note("allocate %lld of pool %lld on %lld\n", (ll)size, (ll)pool, (ll)s);
}
int cuMemFreeAsync(uint64_t from, at s) { return note("free %lld on %lld\n", (ll)from, (ll)s); }
int cuStreamSynchronize(at s) { return note("finish stream %lld\n", (ll)s); }
int cuEventSynchronize(at event) { return note("finish event %lld\n", (ll)event); }
int cuGraphLaunch(at graph, at s) { return note("graph %lld on %lld\n", (ll)graph, (ll)s); }
int cuStreamBeginCapture_v2(at s, int mode) { return note("capture %lld in mode %d\n", (ll)s, mode); }
int cuStreamEndCapture(at s, at* graph) {
  *graph = (at)(allocated += 1000);
  return note("end of capture %lld\n", (ll)s);
}
int cuGraphInstantiateWithFlags(at* executable, at graph, ll flags) {
  *executable = (at)(allocated += 1000);
  return note("instantiate %lld with %lld\n", (ll)graph, flags);
}
typedef struct { int result; at node, from; } CUgraphExecUpdateResultInfo;
int cuGraphExecUpdate_v2(at executable, at graph, CUgraphExecUpdateResultInfo* info) {
  memset(info, 0, sizeof *info);
  return note("update %lld by %lld\n", (ll)executable, (ll)graph);
}
typedef struct { at f; unsigned gx, gy, gz, bx, by, bz, shared; at *p, *extra; at kernel, context; } CUDA_KERNEL_NODE_PARAMS;
int cuGraphExecKernelNodeSetParams_v2(at executable, at node, const CUDA_KERNEL_NODE_PARAMS* c) {
  return note("node %lld of %lld: %lld (%u,%u,%u) (%u,%u,%u) %u: %lld%s\n", (ll)node, (ll)executable, (ll)c->f, c->gx, c->gy, c->gz,
              c->bx, c->by, c->bz, c->shared, *(ll*)c->p[0], c->extra || c->kernel || c->context ? " and more" : "");
}
int cuGraphDestroy(at graph) { return note("destroy graph %lld\n", (ll)graph); }
int cuGraphExecDestroy(at executable) { return note("destroy executable %lld\n", (ll)executable); }
"""


class Driver:
    """The library that takes notes."""

    def __init__(self, folder: Path) -> None:
        (folder / "driver.c").write_text(DRIVER)
        command = (
            *find_compiler().command,
            "-shared",
            "-fPIC",
            str(folder / "driver.c"),
            "-o",
            str(folder / "cuda.so"),
        )
        subprocess.run(command, check=True)
        self.library = ctypes.CDLL(str(folder / "cuda.so"))
        self.library.text.restype = ctypes.c_char_p
        self.start()

    def start(self, fail_at: int = -1) -> None:
        self.library.start(fail_at)

    @property
    def lines(self) -> list[str]:
        text: bytes = self.library.text()
        return text.decode().splitlines()


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Driver:
    try:
        return Driver(tmp_path_factory.mktemp("driver"))
    except SkipError as error:
        pytest.skip(str(error))


@pytest.fixture
def driver(library: Driver, monkeypatch: pytest.MonkeyPatch) -> Driver:
    """The driver with streams 100 (the current one), 101, ... and events 10, 11, ..."""
    streams, events = iter(range(101, 200)), iter(range(10, 100))

    def event() -> SimpleNamespace:
        return SimpleNamespace(cuda_event=next(events), record=lambda stream: None)

    library.start()
    monkeypatch.setattr(recorded, "_library", lambda: library.library)
    monkeypatch.setattr(torch.cuda, "Stream", lambda: SimpleNamespace(cuda_stream=next(streams)))
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: SimpleNamespace(cuda_stream=100))
    monkeypatch.setattr(torch.cuda, "Event", event)
    return library


class Kernel:
    """A kernel of one parameter, an address or a number, whose launches are bound without a GPU."""

    def bound(self, args: list[Any], grid: Any, block: Any, shared_bytes: int) -> BoundLaunch:
        frame = Frame(8, [0])
        ctypes.c_int64.from_buffer(frame.parameters).value = args[0] or 0
        return BoundLaunch("kernel 'scale' in lesson.cu", 7, launch_of(grid, block, shared_bytes, None), frame)


kernel: Any = Kernel()


def test_launches_are_played_in_order_and_again(driver: Driver) -> None:
    calls = Recording()
    calls.launch(kernel, 5, grid=3, block=256)
    calls.launch(kernel, 6, grid=(1, 2, 3), block=(4, 5), shared_bytes=64)
    calls.launch(kernel, 7, grid=2, block=32, early=True)
    assert (len(calls), driver.lines) == (3, [])
    calls.play()
    once = [
        "launch 7 (3,1,1) (256,1,1) 0 on 100: 5",
        "launch 7 (1,2,3) (4,5,1) 64 on 100: 6",
        "early 7 (2,1,1) (32,1,1) 0 on 100: 7, attribute 6 is 1 of 1",
    ]
    assert driver.lines == once
    calls.play()
    assert driver.lines == 2 * once


def test_further_streams_begin_and_end_with_the_current_one(driver: Driver) -> None:
    calls = Recording(streams=3)
    there = calls.record(stream=1)
    calls.wait(there, stream=2)
    calls.play()
    assert driver.lines == [
        "record 10 on 100",
        "wait for 10 on 101",
        "wait for 10 on 102",
        "record 11 on 101",
        "wait for 11 on 102",
        "record 12 on 101",
        "wait for 12 on 100",
        "record 13 on 102",
        "wait for 13 on 100",
    ]


def test_streams_that_are_given_are_played_on(driver: Driver) -> None:
    given: Any = [SimpleNamespace(cuda_stream=7), SimpleNamespace(cuda_stream=8)]
    calls = Recording(given)
    calls.launch(kernel, 5, grid=1, block=32, stream=2)
    calls.play()
    assert driver.lines[1:4] == ["wait for 10 on 7", "wait for 10 on 8", "launch 7 (1,1,1) (32,1,1) 0 on 8: 5"]


def test_the_host_waits_for_a_flag(driver: Driver) -> None:
    flag = torch.zeros(1, dtype=torch.int32)
    calls = Recording()
    calls.await_flag(flag)
    calls.launch(kernel, 5, grid=1, block=32)
    player = threading.Thread(target=calls.play)
    player.start()
    player.join(0.05)
    assert (player.is_alive(), driver.lines) == (True, [])
    flag[0] = 1
    player.join(10)
    assert driver.lines == ["launch 7 (1,1,1) (32,1,1) 0 on 100: 5"]
    with pytest.raises(KernelError, match=r"^a flag is one int32 in the host's memory; got 2 of torch.int32 on cpu$"):
        calls.await_flag(torch.zeros(2, dtype=torch.int32))


def test_memory_is_an_argument_at_the_address_that_a_play_got(driver: Driver) -> None:
    calls, pool = Recording(streams=2), SimpleNamespace(handle=44)
    whole = calls.allocate(64)
    calls.launch(kernel, whole, grid=1, block=32)
    part = calls.allocate(1 << 40, stream=1, pool=pool)  # type: ignore[arg-type]
    calls.launch(kernel, part, grid=1, block=32, stream=1)
    calls.free(part, stream=1)
    calls.free(whole)
    for _ in range(2):
        driver.start()
        calls.play()
        assert driver.lines[2:-2] == [
            "allocate 64",
            "launch 7 (1,1,1) (32,1,1) 0 on 100: 1000",
            f"allocate {1 << 40} of pool 44 on 101",
            "launch 7 (1,1,1) (32,1,1) 0 on 101: 2000",
            "free 2000 on 101",
            "free 1000",
        ]


def test_copies_waits_of_the_host_and_graphs(driver: Driver) -> None:
    calls, source = Recording(streams=2), torch.arange(3.0)
    destination = torch.zeros(3)
    calls.copy(destination, source, stream=1)
    arrived = calls.record(stream=1)
    calls.finish(arrived)
    calls.finish(1)
    calls.graph(55)
    calls.play()
    assert destination.tolist() == [0, 1, 2]
    assert driver.lines[2:-2] == [
        "copy 12 on 101",
        "record 11 on 101",
        "finish event 11",
        "finish stream 101",
        "graph 55 on 100",
    ]


def test_a_graph_is_captured_made_updated_and_destroyed(driver: Driver) -> None:
    calls = Recording(streams=2)
    calls.capture(stream=1)
    calls.launch(kernel, 5, grid=2, block=32, stream=1)
    graph = calls.end_capture(stream=1)
    executable = calls.instantiate(graph)
    calls.update(executable, graph)
    calls.set_node(executable, 66, kernel, 6, grid=(3, 4, 5), block=(32, 2), shared_bytes=7)
    calls.set_node(55, 77, kernel, 8, grid=1, block=1)
    calls.graph(executable, stream=1)
    calls.destroy(graph)
    calls.destroy(executable)
    for _ in range(2):
        driver.start()
        calls.play()
        assert driver.lines[2:-2] == [
            "capture 101 in mode 2",
            "launch 7 (2,1,1) (32,1,1) 0 on 101: 5",
            "end of capture 101",
            "instantiate 1000 with 0",
            "update 2000 by 1000",
            "node 66 of 2000: 7 (3,4,5) (32,2,1) 7: 6",
            "node 77 of 55: 7 (1,1,1) (1,1,1) 0: 8",
            "graph 2000 on 101",
            "destroy graph 1000",
            "destroy executable 2000",
        ]


def test_the_host_chooses_a_graph_when_it_comes_to_it(driver: Driver) -> None:
    calls, choice = Recording(), torch.tensor([1], dtype=torch.int32)
    calls.choose(choice, (55, 66))
    calls.play()
    choice[0] = 0
    calls.play()
    assert driver.lines == ["graph 66 on 100", "graph 55 on 100"]
    with pytest.raises(KernelError, match=r"^a choice is one int32 in the host's memory; got 2 of torch.int64 on cpu$"):
        Recording().choose(torch.tensor([0, 1]), (55, 66))


def test_the_host_works_between_the_calls(driver: Driver, make_host: Callable[[str], HostSource]) -> None:
    source = make_host(
        """
        #include <stdint.h>
        void add(const int64_t* arguments) {
          float* values = (float*)arguments[0];
          values[arguments[1]] += 1;
        }
        void two(const int64_t* arguments, int more) {}
        """
    )
    values, seen = torch.zeros(3), torch.zeros(3)
    calls = Recording()
    calls.call(source.function("add"), values, 2)
    calls.copy(seen, values)
    calls.call(source.function("add"), values, 1)
    calls.play()
    assert (values.tolist(), seen.tolist()) == ([0, 1, 1], [0, 0, 1])
    calls, two = Recording(), source.function("two")
    with pytest.raises(
        KernelError, match=r"'two' .* cannot be recorded; accepted is void f\(const int64_t\* arguments\)$"
    ):
        calls.call(two, values)


@pytest.fixture
def make_host(tmp_path: Path) -> Callable[[str], HostSource]:
    def make(text: str) -> HostSource:
        (tmp_path / "lesson.c").write_text(text)
        return HostSource(tmp_path / "lesson.c")

    return make


@pytest.mark.parametrize(
    ("fail_at", "message"),
    [
        (0, "allocation of 64 bytes (entry 0, stream 0)"),
        (1, "launch of kernel 'scale' in lesson.cu (entry 1, stream 0)"),
        (2, "early launch of kernel 'scale' in lesson.cu (entry 2, stream 0)"),
        (3, "wait of the host for a stream (entry 3, stream 0)"),
    ],
)
def test_the_entry_that_failed_is_named_and_the_rest_is_left(
    driver: Driver, monkeypatch: pytest.MonkeyPatch, fail_at: int, message: str
) -> None:
    monkeypatch.setattr(recorded, "reason_of", lambda status: f"status {status}")
    calls = Recording()
    calls.allocate(64)
    calls.launch(kernel, 1, grid=1, block=32)
    calls.launch(kernel, 1, grid=1, block=32, early=True)
    calls.finish()
    driver.start(fail_at)
    with pytest.raises(KernelError) as caught:
        calls.play()
    assert str(caught.value) == f"{message} failed: status 700"
    assert len(driver.lines) == fail_at + 1


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (lambda calls: calls.record(stream=2), "no stream 2 for the event record; this recording has 0 to 1"),
        (
            lambda calls: calls.finish(-1),
            "no stream -1 for the wait of the host for a stream; this recording has 0 to 1",
        ),
        (
            lambda calls: calls.copy(torch.zeros(2, 3), torch.zeros(3, 2).t()),
            "a copy takes contiguous tensors of as many bytes; got 24 bytes of shape (2, 3) for 24 of shape (2, 3)",
        ),
        (
            lambda calls: calls.copy(torch.zeros(2), torch.zeros(3)),
            "a copy takes contiguous tensors of as many bytes; got 12 bytes of shape (3,) for 8 of shape (2,)",
        ),
        (
            lambda calls: calls.launches(),
            "this recording is more than a chain of launches: there is the event record (entry 0, stream 0)",
        ),
    ],
)
def test_wrong_entries_are_refused(driver: Driver, record: Callable[[Recording], object], message: str) -> None:
    calls = Recording(streams=2)
    with pytest.raises(KernelError) as caught:
        record(calls)
    assert str(caught.value) == message


def test_a_played_recording_is_closed(driver: Driver) -> None:
    calls = Recording()
    calls.play()
    with pytest.raises(KernelError) as caught:
        calls.finish()
    assert str(caught.value) == (
        "a recording takes no wait of the host for a stream after it was played; record everything in prepare"
    )


def test_a_chain_of_launches_is_what_a_graph_takes(driver: Driver) -> None:
    calls = Recording()
    calls.launch(kernel, 5, grid=3, block=256)
    calls.launch(kernel, 6, grid=4, block=128, early=True)
    assert [(bound.launch.grid, early) for bound, early in calls.launches()] == [((3, 1, 1), False), ((4, 1, 1), True)]


def test_an_older_driver_is_skipped(monkeypatch: pytest.MonkeyPatch, driver: Driver) -> None:
    monkeypatch.setattr(recorded, "ENTRY_POINTS", (*recorded.ENTRY_POINTS, "cuTomorrow"))
    with pytest.raises(SkipError, match=r"^needs a newer CUDA driver \(.*cuTomorrow"):
        Recording()


def test_without_a_gpu_it_is_skipped() -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(SkipError, match="needs a CUDA"):
        Recording()


@pytest.mark.gpu
def test_on_a_gpu_two_streams_meet() -> None:
    pinned, there = torch.arange(1 << 20, dtype=torch.float32).pin_memory(), torch.zeros(1 << 20, device="cuda")
    back = torch.zeros(1 << 20).pin_memory()
    calls = Recording(streams=2)
    calls.copy(there, pinned, stream=1)
    calls.wait(calls.record(stream=1))
    calls.copy(back, there)
    calls.finish()
    for value in (1, 2):
        pinned.fill_(value)
        calls.play()
        assert back.eq(value).all()


@pytest.mark.gpu
def test_on_a_gpu_a_pool_keeps_what_it_may() -> None:
    held = []
    for kept_bytes in (0, 1 << 30):
        pool, calls = recorded.Pool(kept_bytes), Recording()
        calls.free(calls.allocate(1 << 26, pool=pool))
        calls.finish()
        calls.play()
        held.append(pool.held_bytes)
    assert held[0] < 1 << 26 <= held[1]


def test_memory_says_what_it_is() -> None:
    assert repr(Memory(64)) == "Memory(size_bytes=64, pool=None)"
