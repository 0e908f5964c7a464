"""How true the device time is that aiperf reports, on this GPU.

    python benchmarks/accuracy.py [--out FILE.json] [--calls 30] [--ncu auto|off]

Every case is a call that is timed as a run times it: cache flushed, launch hidden behind a blocking kernel, median of
the samples, less what the events themselves cost. That cost comes from a process of its own, as in a run. The truth is
CUPTI's: from the start of the call's first piece of work to the end of its last, in as many further calls. The bar is 5
% of it or 0.5 us, whichever is more, and for both clocks over the very calls that CUPTI traced (`same`). Beside it
stands what other ways to time the same call say. Ends with 1 when a case misses the bar, and with 2 where there is no
GPU.

CUPTI's tracing is switched on only after all samples were taken. It can itself slow a call of many kernels, and a GPU
that is at its limit of power has other clocks a second later, so `off`, which compares the samples with other calls,
shows more than how true the clock is.

A graph is shown and not counted: between its launch and its first kernel the GPU itself is at work for some
microseconds, which belong to the call and of which CUPTI has no record.

Nsight Compute is asked about calls that are one kernel. It runs each alone, with pauses between. Its bar is as wide and
counts as much, with one exception: where CUPTI is outside of it too, the two references contradict each other, and the
case is shown as `refs differ`, neither passed nor failed. Where it cannot run, nothing counts as passed by it.
"""

import argparse
import csv
import gc
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import torch
from attrs import asdict, evolve, field, frozen

from aiperf_core import atomic
from aiperf_core.devices import cuda_ceilings, probe
from aiperf_core.devices.cuda import CudaDevice
from aiperf_core.devices.ledger import audit
from aiperf_core.devices.measuring import Page, reason
from aiperf_core.errors import AiperfError, ExitCode, SkipError
from aiperf_core.kernels import cuda_source
from aiperf_core.results import jsontext

BAR, BAR_S = 0.05, 0.5e-6
NEEDED_BYTES = 20 << 30
WARM_S = 0.05
NCU_CALLS, NCU_LIMIT_S, METRIC = 5, 75.0, "gpu__time_duration.sum"
KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30

Call = Callable[[], Any]
_source = cuda_source("accuracy.cu")


# --- the cases


@frozen
class Case:
    """A call to be timed. `make` allocates what it needs; `lone` says that it should be a single kernel.

    One that does not count is shown beside the others.
    """

    name: str
    make: Callable[[], Call]
    lone: bool = False
    counts: bool = True


def _nothing() -> Call:
    return partial(_source.kernel("nothing"), grid=1, block=1)


def _floats(size: int) -> torch.Tensor:
    return torch.randn(size // 4, device="cuda")


def _fill(size: int) -> Call:
    target = _floats(size)
    return lambda: target.fill_(1.5)


def _copy(size: int) -> Call:
    source, target = _floats(size), _floats(size)
    return lambda: target.copy_(source)


def _scale(size: int) -> Call:
    source, target = _floats(size), _floats(size)
    return lambda: torch.mul(source, 2.0, out=target)


def _product(n: int) -> Call:
    left, right, out = (torch.randn(n, n, device="cuda", dtype=torch.bfloat16) for _ in range(3))
    return lambda: torch.mm(left, right, out=out)


def _softmax(rows: int, columns: int) -> Call:
    scores = torch.randn(rows, columns, device="cuda")
    out = torch.empty_like(scores)
    return lambda: torch.softmax(scores, -1, out=out)


def _chain(kernels: int, size: int) -> Call:
    values = _floats(size)

    def call() -> None:
        for _ in range(kernels):
            values.add_(1.0)

    return call


def _from_host(size: int, then_scale: bool) -> Call:
    source = torch.ones(size // 4, pin_memory=True)
    target, out = _floats(size), _floats(size)

    def call() -> None:
        target.copy_(source, non_blocking=True)
        if then_scale:
            torch.mul(target, 2.0, out=out)

    return call


def _on_streams(streams: int, size: int) -> Call:
    """Fork from the current stream, work on each, join."""
    first, *others = (_scale(size) for _ in range(streams))
    sides = [torch.cuda.Stream() for _ in others]

    def call() -> None:
        current = torch.cuda.current_stream()
        for side in sides:
            side.wait_stream(current)
        first()
        for side, work in zip(sides, others, strict=True):
            with torch.cuda.stream(side):
                work()
        for side in sides:
            current.wait_stream(side)

    return call


def _not_joined(here_size: int, there_size: int) -> Call:
    """Little work on the current stream, much on another that nobody waits for."""
    here, there, side = _scale(here_size), _scale(there_size), torch.cuda.Stream()

    def call() -> None:
        side.wait_stream(torch.cuda.current_stream())
        here()
        with torch.cuda.stream(side):
            there()

    return call


def _graph(kernels: int, size: int) -> Call:
    chain = _chain(kernels, size)
    chain()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        chain()

    def call() -> Call:
        graph.replay()
        return chain  # keeps the array that the graph writes

    return call


# What makes streams comes last: the end event waits for every stream of the context, and a call without streams of its
# own must not pay for those of others.
CASES = (
    Case("empty kernel", _nothing, lone=True),
    Case("fill 64 KiB", partial(_fill, 64 * KIB), lone=True),
    Case("fill 256 MiB", partial(_fill, 256 * MIB), lone=True),
    Case("scale 64 KiB", partial(_scale, 64 * KIB), lone=True),
    Case("scale 1 MiB", partial(_scale, MIB), lone=True),
    Case("scale 16 MiB", partial(_scale, 16 * MIB), lone=True),
    Case("scale 256 MiB", partial(_scale, 256 * MIB), lone=True),
    Case("memcpy 64 KiB", partial(_copy, 64 * KIB)),
    Case("memcpy 1 MiB", partial(_copy, MIB)),
    Case("memcpy 16 MiB", partial(_copy, 16 * MIB)),
    Case("memcpy 256 MiB", partial(_copy, 256 * MIB)),
    Case("memcpy 4 GiB", partial(_copy, 4 * GIB)),
    Case("softmax fp32 1024 x 1024", partial(_softmax, 1024, 1024), lone=True),
    Case("softmax fp32 16384 x 8192", partial(_softmax, 16384, 8192), lone=True),
    Case("GEMM bf16 256^3", partial(_product, 256), lone=True),
    Case("GEMM bf16 1024^3", partial(_product, 1024), lone=True),
    Case("GEMM bf16 4096^3", partial(_product, 4096), lone=True),
    Case("GEMM bf16 8192^3", partial(_product, 8192), lone=True),
    Case("GEMM bf16 16384^3", partial(_product, 16384), lone=True),
    Case("chain of 20 kernels, 1 MiB", partial(_chain, 20, MIB)),
    Case("chain of 200 kernels, 1 MiB", partial(_chain, 200, MIB)),
    Case("64 MiB from pinned memory", partial(_from_host, 64 * MIB, False)),
    Case("16 MiB from pinned, then scale", partial(_from_host, 16 * MIB, True)),
    Case("2 streams, scale 64 MiB each", partial(_on_streams, 2, 64 * MIB)),
    Case("4 streams, scale 64 MiB each", partial(_on_streams, 4, 64 * MIB)),
    Case("side stream not joined", partial(_not_joined, MIB, 256 * MIB)),
    Case("graph of 20 kernels, 1 MiB", partial(_graph, 20, MIB), counts=False),
    Case("graph of 200 kernels, 1 MiB", partial(_graph, 200, MIB), counts=False),
)


# --- what was found


@frozen
class Row:
    """What every clock said of a case, in seconds.

    `samples_s` and `event_s` are what events said, with their own cost still in; `overhead_s` is what is taken off
    both. `span_s` and `event_s` are of the same calls. `pieces` counts the kernels, copies and fills of a call,
    `hidden` says whether every launch was, and `problem` why CUPTI has nothing to say.
    """

    name: str
    overhead_s: float
    hidden: bool
    samples_s: list[float]
    span_s: list[float] = field(factory=list)
    event_s: list[float] = field(factory=list)
    pieces: int = 0
    problem: str = ""
    do_bench_s: float | None = None
    timer_s: float | None = None
    plain_events_s: list[float] = field(factory=list)
    ncu_s: list[float] = field(factory=list)
    counts: bool = True

    @property
    def aiperf_s(self) -> float:
        """What a run reports of the call with a cold cache."""
        return median(self.samples_s) - self.overhead_s

    @property
    def cupti_s(self) -> float | None:
        """CUPTI's time for the call."""
        return median(self.span_s) if self.span_s else None

    @property
    def same_calls_s(self) -> float | None:
        """The events' time for the calls that CUPTI traced."""
        return median(self.event_s) - self.overhead_s if self.event_s else None


def within(found_s: float, truth_s: float) -> bool:
    """Whether a time is as close to the true one as is claimed."""
    return abs(found_s - truth_s) <= max(BAR * truth_s, BAR_S)


def verdict(row: Row) -> str:
    """`pass`, `FAIL`, or what made the comparison impossible, which is no pass; `shown` where it is not counted."""
    if row.cupti_s is None:
        return "no CUPTI"
    if not row.hidden:
        return "not hidden"
    if not row.counts:
        return "shown"
    return "pass" if row.same_calls_s is not None and within(row.same_calls_s, row.cupti_s) else "FAIL"


def ncu_verdict(row: Row) -> str | None:
    """The same against Nsight Compute, or None where it was not asked."""
    if not row.ncu_s or row.cupti_s is None:
        return None
    truth = median(row.ncu_s)
    if row.hidden and within(row.aiperf_s, truth):
        return "pass"
    return "FAIL" if within(row.cupti_s, truth) else "refs differ"


def missed(rows: list[Row]) -> list[str]:
    """The cases that are not as accurate as is claimed."""
    return [row.name for row in rows if verdict(row) not in ("pass", "shown") or ncu_verdict(row) == "FAIL"]


HEADS = ["case", "work", "CUPTI", "aiperf", "off", "off, %", "same, %", "bar"]
RIVALS = ["do_bench", "Timer", "events", "ncu", "ncu, %", "ncu bar"]


def table(rows: list[Row], notes: dict[str, str]) -> str:
    """All rows, times in microseconds, and how to read them. `notes` says by column why it is empty."""
    cells = [HEADS + RIVALS, *map(_cells, rows)]
    first, *widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = [
        "  ".join([name.ljust(first), *(cell.rjust(width) for cell, width in zip(others, widths, strict=True))])
        for name, *others in cells
    ]
    return "\n".join([lines[0], "-" * max(map(len, lines)), *lines[1:], "", *_legend(rows, notes)])


def _cells(row: Row) -> list[str]:
    truth, ncu = row.cupti_s, median(row.ncu_s) if row.ncu_s else None
    off = None if truth is None else row.aiperf_s - truth
    return [
        row.name,
        str(row.pieces or "-"),
        _us(truth),
        _us(row.aiperf_s),
        "-" if off is None else f"{off * 1e6:+.2f}",
        _percent(row.aiperf_s, truth),
        _percent(row.same_calls_s, truth),
        verdict(row),
        _us(row.do_bench_s),
        _us(row.timer_s),
        _us(median(row.plain_events_s) if row.plain_events_s else None),
        _us(ncu),
        _percent(row.aiperf_s, ncu),
        ncu_verdict(row) or "-",
    ]


def _us(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds * 1e6:,.2f}"


def _percent(found: float | None, truth: float | None) -> str:
    return "-" if found is None or not truth else f"{100 * (found / truth - 1):+.1f}"


def _legend(rows: list[Row], notes: dict[str, str]) -> list[str]:
    against_ncu = [said for said in map(ncu_verdict, rows) if said]
    passed, counted = sum(verdict(row) == "pass" for row in rows), sum(row.counts for row in rows)
    return [
        "Times in microseconds, medians. Lower is not better: the closer to CUPTI the truer.",
        "work      kernels, copies and fills of one call, by CUPTI",
        "CUPTI     start of the first to end of the last; cache flushed before each call",
        "aiperf    device clock, less the events' own cost; cache flushed before each call",
        "same      aiperf's clock against CUPTI over the same calls; `off` compares different calls, traced and not",
        "do_bench  triton.testing.do_bench, median; it flushes the cache too, and does not hide the launch",
        "Timer     torch.utils.benchmark.Timer, wall time of back-to-back calls; cache not flushed",
        "events    record, call, record, wait: launch not hidden, cache not flushed, other streams not waited for",
        f"ncu       Nsight Compute's {METRIC}, calls of one kernel; `refs differ`: from CUPTI too, beyond the bar",
        *(f"{column}: not run: {why}" for column, why in notes.items()),
        *(f"{row.name}: {row.problem}" for row in rows if row.problem),
        f"{passed} of {counted} cases within {BAR:.0%} or {BAR_S * 1e6:g} us of CUPTI",
        *([_tally(against_ncu)] if against_ncu else []),
    ]


def _tally(said: list[str]) -> str:
    return (
        f"{said.count('pass')} of {len(said)} within the same of Nsight Compute, {said.count('FAIL')} not, and in "
        f"{said.count('refs differ')} it differs from CUPTI as well"
    )


def record(rows: list[Row], machine: dict[str, Any], notes: dict[str, str]) -> dict[str, Any]:
    """What goes to the file: raw samples, in seconds, to the nanosecond."""
    return {
        "bar": {"relative": BAR, "seconds": BAR_S},
        "machine": machine,
        "not_run": notes,
        "missed": missed(rows),
        "rows": [
            {
                **_rounded(asdict(row)),
                "aiperf_s": _rounded(row.aiperf_s),
                "cupti_s": _rounded(row.cupti_s),
                "bar": verdict(row),
                "ncu_bar": ncu_verdict(row),
            }
            for row in rows
        ],
    }


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_rounded(item) for item in value]
    return round(value, 9) if isinstance(value, float) else value


# --- the clocks


def warm(call: Call) -> None:
    """Call until lazy loading is over and the GPU's clocks are up."""
    until = time.perf_counter() + WARM_S
    while True:
        call()
        torch.cuda.synchronize()
        if time.perf_counter() > until:
            return


def sampled(device: CudaDevice, case: Case, call: Call, calls: int, overhead_s: float) -> Row:
    """Time calls as a worker does, after one that is not counted."""
    warm(call)
    timed = []
    for _ in range(calls + 1):
        device.flush()
        gc.disable()
        try:
            device.make_ready()
            timed.append(device.time(call, "device"))
        finally:
            gc.enable()
    samples = [one.device_s for one in timed[1:] if one.device_s is not None]
    return Row(case.name, overhead_s, all(one.hidden for one in timed[1:]), samples, counts=case.counts)


def audited(device: CudaDevice, row: Row, call: Call, calls: int) -> Row:
    """The row with what CUPTI has to say."""
    warm(call)
    try:
        found = audit(device, call, calls, flush=True)
    except SkipError as error:
        return evolve(row, problem=str(error))
    pieces = sum(work["count"] for work in found["work"])
    return evolve(row, span_s=found["span_s"], event_s=found["event_s"], pieces=pieces)


def by_do_bench(call: Call) -> float:
    """Triton's, with its own settings; seconds."""
    from triton.testing import do_bench

    return float(do_bench(call, return_mode="median")) / 1e3


def by_timer(call: Call) -> float:
    """Torch's; seconds."""
    from torch.utils.benchmark import Timer

    return float(Timer("call()", globals={"call": call}).blocked_autorange(min_run_time=0.05).median)


def by_events(call: Call, calls: int) -> list[float]:
    """Two events around the call on the current stream, and nothing else; seconds."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    times = []
    for _ in range(calls):
        start.record()
        call()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end) / 1e3)
    return times


def measure(calls: int, overhead_s: float, notes: dict[str, str]) -> list[Row]:
    """All cases by all clocks but Nsight Compute's. CUPTI comes last, so that it disturbs no sample."""
    device, kept = CudaDevice(), []
    for case in CASES:
        _tell(f"timing {case.name}")
        call = case.make()
        warm(call)
        do_bench_s = None
        if "do_bench" not in notes:
            try:
                do_bench_s = by_do_bench(call)
            except Exception as error:  # triton may be missing, or lack the compiler that it starts with
                notes["do_bench"] = reason(error)
        timer_s, plain = by_timer(call), by_events(call, calls)
        row = sampled(device, case, call, calls, overhead_s)
        kept.append((evolve(row, do_bench_s=do_bench_s, timer_s=timer_s, plain_events_s=plain), call))
    _tell("tracing all of them")
    return [audited(device, row, call, calls) for row, call in kept]


# --- other processes


def report_overhead() -> None:
    """In a process of its own: measure what a run measures first, and print the events' own cost in seconds."""
    page = Page(lambda _: None)
    cuda_ceilings.fill(page)
    if "event_overhead_s" in page.missing:
        raise AiperfError(f"what events cost could not be measured: {page.missing['event_overhead_s']}")
    print(page.figures["event_overhead_s"])


def event_overhead() -> float:
    """What events cost, in seconds, from a process that has done nothing else. Raises `AiperfError`."""
    child = subprocess.run(
        [sys.executable, __file__, "--child", "overhead"], capture_output=True, text=True, check=False
    )
    if child.returncode:
        last = (child.stderr.strip().splitlines() or [f"exit code {child.returncode}"])[-1]
        raise AiperfError(f"the process that measures what events cost failed: {last}")
    return float(child.stdout.split()[-1])


def profiled_calls() -> None:
    """In a process under Nsight Compute: some calls of each single kernel, each after a flush and a boundary."""
    from torch.cuda import profiler

    device, boundary = CudaDevice(), _source.kernel("boundary")
    for case in CASES:
        if not case.lone:
            continue
        call = case.make()
        warm(call)
        for _ in range(NCU_CALLS):
            device.flush()
            device.synchronize()
            profiler.start()
            boundary(grid=1, block=1)
            call()
            device.synchronize()
            profiler.stop()


def by_ncu() -> dict[str, list[float]]:
    """Nsight Compute's times in seconds of calls of one kernel, by case. Raises `AiperfError` with the reason."""
    tool = _find_ncu()
    if tool is None:
        raise AiperfError("no ncu on the path, in $CUDA_HOME, /usr/local/cuda or /opt/nvidia/nsight-compute")
    with tempfile.TemporaryDirectory() as folder:
        log, said = Path(folder, "ncu.csv"), Path(folder, "said")
        command = [tool, "--csv", "--log-file", str(log), "--print-units", "base", "--metrics", METRIC]
        command += ["--clock-control", "none", "--cache-control", "none", "--profile-from-start", "off"]
        with said.open("w") as output:
            code = _run_for([*command, sys.executable, __file__, "--child", "ncu"], output, NCU_LIMIT_S)
        text, told = log.read_text(errors="replace") if log.exists() else "", said.read_text(errors="replace")
    kernels = parse_ncu(text)
    if code or not kernels:
        raise AiperfError(ncu_reason(f"{text}\n{told}", code))
    return by_case(kernels, [case.name for case in CASES if case.lone], NCU_CALLS)


def _find_ncu() -> str | None:
    homes = [os.environ.get("CUDA_HOME", ""), "/usr/local/cuda"]
    folders = [Path(home, "bin") for home in homes if home]
    folders += sorted(Path("/opt/nvidia/nsight-compute").glob("*"), reverse=True)
    return shutil.which("ncu") or next((found for one in folders if (found := shutil.which("ncu", path=one))), None)


def _run_for(command: list[str], output: Any, seconds: float) -> int:
    """Run a command; it and what it started are killed when the time is over, which raises `AiperfError`."""
    process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, start_new_session=True)
    try:
        return process.wait(seconds)
    except BaseException as error:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if isinstance(error, subprocess.TimeoutExpired):
            raise AiperfError(f"it took longer than {seconds:g} s") from None
        raise


_UNITS = {"n": 1e-9, "u": 1e-6, "m": 1e-3, "s": 1.0}  # by the first letter: `ns`, `nsecond`, ..., `s`, `second`


def parse_ncu(text: str) -> list[tuple[str, float]]:
    """The kernels that Nsight Compute saw, in order: name and seconds. Raises `AiperfError` where it tells no time."""
    lines = text.splitlines()
    first = next((at for at, line in enumerate(lines) if '"Kernel Name"' in line and '"Metric Value"' in line), None)
    if first is None:
        return []
    kernels = []
    for line in csv.DictReader(one for one in lines[first:] if one.startswith('"')):
        if line["Metric Name"] != METRIC:
            continue
        name, value, unit = line["Kernel Name"], line["Metric Value"], line["Metric Unit"]
        try:
            kernels.append((name, float(value.replace(",", "")) * _UNITS[unit[:1]]))
        except (ValueError, KeyError):
            raise AiperfError(f"it tells no time of the kernel {name[:60]!r}: {value!r} {unit!r}") from None
    return kernels


def ncu_reason(text: str, code: int) -> str:
    """Why Nsight Compute measured nothing, in one line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line.removeprefix("==ERROR==").strip() for line in lines if line.startswith("==ERROR==")]
    told = errors[:1] or lines[-1:] or ["it said nothing"]
    return f"{told[0]} (exit code {code})"


def by_case(kernels: list[tuple[str, float]], names: list[str], calls: int) -> dict[str, list[float]]:
    """The times by case, `calls` each. A case of which a call had another number of kernels than one is left out.

    Raises `AiperfError` where calls are missing.
    """
    found: list[list[float]] = []
    for name, seconds in kernels:
        if name.partition("(")[0] == "boundary":
            found.append([])
        elif found:
            found[-1].append(seconds)
    if len(found) != calls * len(names):
        raise AiperfError(f"it saw {len(found)} of {calls * len(names)} calls")
    groups = {name: found[at * calls : (at + 1) * calls] for at, name in enumerate(names)}
    return {name: [one for (one,) in group] for name, group in groups.items() if all(len(call) == 1 for call in group)}


def with_ncu(row: Row, times: dict[str, list[float]]) -> Row:
    """The row with Nsight Compute's times, if CUPTI agrees that the call is a single piece of work."""
    return evolve(row, ncu_s=times.get(row.name, [])) if row.pieces == 1 else row


# --- the command


def machine() -> dict[str, Any]:
    """What the figures were measured on."""
    return {
        "gpu": torch.cuda.get_device_name(),
        "driver": probe.nvidia().driver,
        "cuda": torch.version.cuda,
        "torch": str(torch.__version__),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def run(out: Path | None, calls: int, ncu: str) -> int:
    """Measure, print, write and return the exit code."""
    free, _ = torch.cuda.mem_get_info()
    if free < NEEDED_BYTES:
        raise AiperfError(f"takes {NEEDED_BYTES >> 30} GiB of GPU memory; {free / GIB:.1f} GiB are free")
    notes: dict[str, str] = {}
    times: dict[str, list[float]] = {}
    _tell("what events cost")
    overhead_s = event_overhead()
    if ncu == "off":
        notes["ncu"] = "--ncu off"
    else:
        _tell("Nsight Compute")
        try:
            times = by_ncu()
        except AiperfError as error:
            notes["ncu"] = str(error)
    rows = [with_ncu(row, times) for row in measure(calls, overhead_s, notes)]
    about = machine() | {"event_overhead_s": round(overhead_s, 9), "calls": calls}
    print(f"{about['gpu']}, driver {about['driver']}, torch {about['torch']}, events cost {overhead_s * 1e6:.2f} us")
    print(table(rows, notes))
    if out is not None:
        atomic.write(out, jsontext.to_bytes(record(rows, about, notes)))
    return ExitCode.FAILED if missed(rows) else ExitCode.OK


def main(arguments: list[str]) -> int:
    """Parse the arguments and run; a mistake or a refusal is told without a traceback."""
    parser = argparse.ArgumentParser(description="How true the device time is that aiperf reports, on this GPU.")
    parser.add_argument("--out", type=Path, metavar="FILE.json", help="write the raw samples here")
    parser.add_argument("--calls", type=_calls, default=30, help="calls by each clock, from 5 on (default 30)")
    parser.add_argument("--ncu", choices=("auto", "off"), default="auto", help="whether to ask Nsight Compute too")
    parser.add_argument("--child", choices=("overhead", "ncu"), help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.out is not None and not options.out.parent.is_dir():
        parser.error(f"--out {options.out}: there is no folder {str(options.out.parent)!r}")
    if not torch.cuda.is_available():
        print(f"accuracy.py needs an NVIDIA GPU; torch {torch.__version__} finds none.", file=sys.stderr)
        return ExitCode.USAGE
    try:
        if options.child is None:
            return run(options.out, options.calls, options.ncu)
        {"overhead": report_overhead, "ncu": profiled_calls}[options.child]()
    except AiperfError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return ExitCode.OK


def _calls(text: str) -> int:
    if not text.isdigit() or int(text) < 5:
        raise argparse.ArgumentTypeError(f"takes a number from 5 on; got {text!r}")
    return int(text)


def _tell(what: str) -> None:
    print(f"{what} ...", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
