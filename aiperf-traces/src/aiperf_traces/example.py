"""Traces of a training job with known figures, in Kineto's JSON, for tests and benchmarks.

A step of `layers` = n layers takes these nanoseconds, of which the straggler spends `late` in the kernel before the
collective; the other ranks wait for it in the collective:

    copy [5000, 15000), kernel i [20000 + 20000 i, + 18000), collective from the end of kernel n - 2, 40000 long,
    an update of 10000 that the host launches when the collective has ended, and 4000 of the host.
"""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from attrs import frozen

COMPUTE_STREAM, COMMUNICATION_STREAM = 7, 20
_KERNEL = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>(int, float)"
UPDATE = "void at::native::multi_tensor_apply_kernel<FusedSgd>(float*)"
COLLECTIVE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


@frozen(kw_only=True)
class Job:
    """A training job.

    layers: kernels of a step, at least 2. late: nanoseconds by which the straggler's kernel is longer.
    offsets: nanoseconds by which the clock of a rank is ahead of the first.
    numbered: whether collectives have a group and a number.
    """

    steps: int = 4
    layers: int = 4
    ranks: int = 1
    straggler: int | None = None
    late: int = 0
    offsets: tuple[int, ...] = ()
    numbered: bool = True

    @property
    def step(self) -> int:
        """Nanoseconds of a step."""
        return 20_000 * self.layers + 58_000 + (self.late if self.straggler is not None else 0)


def write(path: Path, job: Job, rank: int = 0, first: int = 1_000_000_000_000) -> Path:
    """Write the trace of a rank; packed where the name ends in .gz. `first`: nanoseconds at which it begins."""
    packed = path.suffix == ".gz"
    head = {
        "schemaVersion": 1,
        "deviceProperties": [{"id": 0, "name": "Example GPU"}],
        "distributedInfo": {"backend": "nccl", "rank": rank, "world_size": job.ranks},
        "displayTimeUnit": "ms",
        "baseTimeNanoseconds": 0,
    }
    with gzip.open(path, "wt", compresslevel=1) if packed else path.open("w", encoding="utf-8") as file:
        file.write(json.dumps(head, indent=2)[:-2] + ',\n  "traceEvents": [\n  ')
        first += job.offsets[rank] if job.offsets else 0
        for step in range(job.steps):
            texts = map(_text, _step(job, rank, step, first + step * job.step))
            file.write((",\n" if step else "") + ",\n".join(texts))
        file.write('\n  ],\n  "traceName": "example"\n}\n')
    return path


def _text(event: dict[str, Any]) -> str:
    """An event in lines as Kineto writes them."""
    args = event.pop("args")
    return f'{json.dumps(event)[:-1]},\n    "args": {{\n      {json.dumps(args)[1:-1]}\n    }}\n  }}'


def _step(job: Job, rank: int, step: int, begin: int) -> Iterator[dict[str, Any]]:
    """The events of a step that begins at `begin` nanoseconds."""
    n, late = job.layers, job.late if job.straggler is not None else 0
    own = late if job.straggler == rank else 0
    made = _Events(begin, (step + 1) * (4 * n + 16))
    yield made.host(f"ProfilerStep#{step}", "user_annotation", 0, job.step)
    correlation = made.next()
    yield made.call("cudaMemcpyAsync", 1000, 2000, correlation)
    yield made.work("Memcpy HtoD (Pinned -> Device)", "gpu_memcpy", 5000, 10_000, correlation, {"bytes": 40_000})
    for layer in range(n):
        slot = 4000 + 10_000 * layer
        yield made.host(f"layer_{layer}", "user_annotation", slot, 9000)
        yield made.host("aten::add", "cpu_op", slot + 500, 8300)
        correlation = made.next()
        yield made.call("cudaLaunchKernel", slot + 1000, 3000, correlation)
        start = 20_000 + 20_000 * layer + (own if layer > n - 2 else 0)
        yield made.work(_KERNEL, "kernel", start, 18_000 + (own if layer == n - 2 else 0), correlation)
        if layer == n - 2:
            yield from _collective(made, job, step, slot, own, late)
    end = 20_000 * n + 38_000 + late
    yield from made.sync(4000 + 10_000 * n, end, COMMUNICATION_STREAM)
    correlation = made.next()
    yield made.call("cudaLaunchKernel", end + 1000, 3000, correlation)
    yield made.work(UPDATE, "kernel", end + 6000, 10_000, correlation)
    yield from made.sync(end + 5000, end + 16_000, COMPUTE_STREAM)


def _collective(made: "_Events", job: Job, step: int, slot: int, own: int, late: int) -> Iterator[dict[str, Any]]:
    """The collective, which waits for the kernel before it by an event."""
    record, wait, correlation = made.next(), made.next(), made.next()
    yield made.call("cudaEventRecord", slot + 5000, 500, record)
    yield made.call("cudaStreamWaitEvent", slot + 5600, 400, wait)
    args: dict[str, Any] = {"cuda_sync_kind": "Stream Wait Event", "stream": COMMUNICATION_STREAM, "correlation": wait}
    args |= {"device": 0, "wait_on_stream": COMPUTE_STREAM, "wait_on_cuda_event_record_corr_id": record}
    yield made.slice("Stream Wait Event", "cuda_sync", 0, COMMUNICATION_STREAM, slot + 5600, 400, args)
    yield made.call("cudaLaunchKernelExC", slot + 6500, 1000, correlation)
    named = {"Collective name": "allreduce", "Process Group Name": "0", "Seq": step, "Group size": job.ranks}
    args = {"stream": COMMUNICATION_STREAM, **(named if job.numbered else {})}
    start = 20_000 * job.layers - 2000 + own
    yield made.work(COLLECTIVE, "kernel", start, 40_000 + late - own, correlation, args)


class _Events:
    """Makes events. Times are nanoseconds from the begin of the step."""

    def __init__(self, begin: int, correlation: int) -> None:
        self._begin, self._correlation = begin, correlation

    def next(self) -> int:
        """The next correlation."""
        self._correlation += 1
        return self._correlation

    def slice(
        self, name: str, category: str, pid: int, tid: int, start: int, length: int, args: dict[str, Any]
    ) -> dict[str, Any]:
        """Any slice."""
        ts, dur = (self._begin + start) / 1000, length / 1000
        return {"ph": "X", "cat": category, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": args}

    def host(self, name: str, category: str, start: int, length: int) -> dict[str, Any]:
        """An operator or an annotation."""
        return self.slice(name, category, 100, 100, start, length, {"External id": self._correlation, "Ev Idx": 1})

    def call(self, name: str, start: int, length: int, correlation: int) -> dict[str, Any]:
        """A call of the runtime."""
        args = {"External id": correlation, "cbid": 211, "correlation": correlation}
        return self.slice(name, "cuda_runtime", 100, 100, start, length, args)

    def work(
        self, name: str, category: str, start: int, length: int, correlation: int, more: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """Work of the device."""
        args: dict[str, Any] = {
            "External id": correlation,
            "device": 0,
            "context": 1,
            "stream": COMPUTE_STREAM,
            "queued": 0,
        }
        args |= {"correlation": correlation, "registers per thread": 32, "shared memory": 0, "blocks per SM": 1.5}
        args |= {"grid": [128, 1, 1], "block": [256, 1, 1], "est. achieved occupancy %": 31, **(more or {})}
        return self.slice(name, category, 0, int(args["stream"]), start, length, args)

    def sync(self, start: int, end: int, stream: int) -> Iterator[dict[str, Any]]:
        """A synchronisation with a stream."""
        correlation = self.next()
        yield self.call("cudaStreamSynchronize", start, end - start, correlation)
        args = {"cuda_sync_kind": "Stream Sync", "stream": stream, "correlation": correlation, "device": 0}
        yield self.slice("Stream Sync", "cuda_sync", 0, stream, start, end - start, args)
