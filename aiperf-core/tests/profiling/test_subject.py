import gc
import json
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from attrs import asdict, evolve

from aiperf_core import float32_precision
from aiperf_core.devices.cpu_kind import CpuKind
from aiperf_core.devices.device import CPU
from aiperf_core.profiler import Job, Pace
from aiperf_core.profiling import subject


@pytest.fixture(autouse=True)
def _process_as_before():
    """Restore the threads and the garbage collection of this process, which a profiled subject changes."""
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)
    gc.enable()


BENCH = """
import torch
from aiperf_core import Benchmark, Cost, exact
from aiperf_core.errors import SkipError

bench = Benchmark(goal="speed", clock="wall", cache="warm")
SEEN = []


@bench.workload(state="total", smoke={"n": 4})
def inputs(n, device, generator):
    return {"a": torch.rand(n, generator=generator), "total": torch.zeros(n)}


@bench.reference(tolerance=exact)
def reference(a, total):
    return total + a


@bench.cost
def cost(n):
    return Cost(bytes_read=8 * n, bytes_written=4 * n)


@bench.baseline(device="cpu", kind="naive")
def added(a, total):
    SEEN.append(float(total.sum()))
    total += a
    return total


@bench.variant(device="cpu", why="prepared")
class Prepared:
    def prepare(self, a):
        self.out = torch.empty_like(a)

    def run(self, a, total):
        return torch.add(a, total, out=self.out)


@bench.variant(device="cpu", why="never")
def skipped(a, total):
    raise SkipError("needs a day off")


@bench.variant(device="cpu", why="broken")
def broken(a, total):
    raise ValueError("no")
"""


class Counting:
    """A tool that counts what its window frames."""

    pace = Pace(windows=3, seconds=10.0, window_s=1.0)

    def __init__(self, job: Job) -> None:
        self.job = job
        self.log: list[str] = []

    def window(self, folder: Path) -> "Counting":
        return self

    @contextmanager
    def whole(self) -> Any:
        self.log.append("whole")
        yield
        self.log.append("end")

    @contextmanager
    def call(self) -> Any:
        self.log.append("call")
        yield


@pytest.fixture
def job(site: Any) -> Job:
    site.write("aiperf_sums.py", BENCH)
    return Job(
        target="acme.sums", module="aiperf_sums", implementation="added", device="cpu", params={"n": 4}, cache="warm"
    )


def test_a_call_that_changes_its_inputs_finds_them_as_they_were(job: Job, tmp_path: Path) -> None:
    tool: Any = Counting(job)
    told = subject.profile(job, CpuKind(), tool, tmp_path)
    import aiperf_sums  # type: ignore[import-not-found]

    # The very first call, which shows how large an output is, is the only one before which nothing has to be restored.
    assert set(aiperf_sums.SEEN) == {0.0}
    assert (told["calls"], told["in_a_row"], len(told["call_s"])) == (3, 1, 3)
    assert tool.log == ["whole", "call", "call", "call", "end"]
    assert told["cost"]["bytes_read"] == 32


def test_short_calls_without_state_fill_a_window(job: Job, site: Any, tmp_path: Path) -> None:
    site.write("aiperf_sums.py", BENCH.replace('state="total", ', "").replace("total += a", "total = total + a"))
    tool: Any = Counting(job)
    tool.pace = Pace(windows=2, seconds=10.0, window_s=0.01)
    told = subject.profile(job, CpuKind(), tool, tmp_path)
    assert told["in_a_row"] > 10
    assert told["calls"] == 2 * told["in_a_row"]
    assert all(0 < seconds < 0.01 for seconds in told["call_s"])


def test_slow_calls_are_few_and_at_least_one(job: Job, tmp_path: Path) -> None:
    tool: Any = Counting(job)
    tool.pace = Pace(windows=50, seconds=0.0)
    assert subject.profile(job, CpuKind(), tool, tmp_path)["calls"] == 1


def test_a_class_is_prepared_and_called(job: Job, tmp_path: Path) -> None:
    tool: Any = Counting(job)
    assert subject.profile(evolve(job, implementation="prepared"), CpuKind(), tool, tmp_path)["calls"] == 3


def test_products_are_computed_in_full(job: Job, tmp_path: Path) -> None:
    with float32_precision("medium"):
        subject.profile(job, CpuKind(), Counting(job), tmp_path)  # type: ignore[arg-type]
        assert torch.get_float32_matmul_precision() == "highest"


@pytest.mark.parametrize(
    ("implementation", "told"),
    [
        ("skipped", {"error": "needs a day off", "failed": False}),
        ("broken", {"error": "raised ValueError: no", "failed": True}),
    ],
)
def test_what_went_wrong_is_told(job: Job, site: Any, tmp_path: Path, implementation: str, told: Any) -> None:
    site.write("aiperf_counting.py", "class Counting:\n    def __init__(self, job):\n        pass\n")
    request = tmp_path / "request.json"
    wanted = asdict(evolve(job, implementation=implementation))
    request.write_text(json.dumps({"job": wanted, "tool": "aiperf_counting:Counting", "device": CPU.load}))
    assert subject.main(request) == 0
    assert json.loads((tmp_path / subject.TOLD).read_text()) == told
