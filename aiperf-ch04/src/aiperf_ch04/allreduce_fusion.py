"""All-reduce fusion: many small collectives are latency, and one large one is bandwidth.

Workload   Each rank has `count` gradients of n float32, and receives their sums over all ranks. On GPUs 256 of 32 KiB,
           or with `--size large` 64 of 256 KiB; on a CPU 64 of 8 KiB between two processes, through gloo.
Baseline   One all-reduce for each gradient: each pays the latency of a collective.
Variants   `async_batch`: all all-reduces start before the first wait.  `coalesced` (cuda): NCCL takes them as one
           group, with one launch.  `flat`: gradients are copied into one buffer, reduced in one call, and copied back;
           both copies are timed. All variants send the same bytes: what they save is latency.
Yardstick  `one_tensor`: one all-reduce of the same bytes, which lie in one tensor from the start.
Breaks     Gradients of many megabytes: bandwidth bounds each call, and the copies of `flat` cost time.
"""

import torch
import torch.distributed as dist

from aiperf_core import Benchmark, Cost, fp32

bench = Benchmark(goal="latency", clock="wall", cache="warm")
both, cuda = bench.on(("cpu", "cuda")), bench.on("cuda", requires="gpus:2")


@bench.workload(
    state=["gradients", "whole"],
    smoke={"count": 5, "n": 37, "world_size": 2},
    cpu={"count": 64, "n": 2048, "world_size": 2},
    cuda={"count": 256, "n": 8192, "world_size": 2},
    large={"count": 64, "n": 65536, "world_size": 2},
)
def inputs(count, n, device, generator):
    whole = torch.randn(count, n, device=device, generator=generator)
    return {"gradients": list(whole.clone()), "whole": whole}


@bench.reference(tolerance=fp32)
def reference(gradients):
    sums = [sum(ranks[1:], ranks[0]) for ranks in zip(*gradients, strict=True)]
    return [list(sums) for _ in gradients]


@bench.cost
def cost(count, n, world_size):
    # A rank reads what it has and writes the sums; of each sum it computes its share (Thakur, Rabenseifner and Gropp,
    # Optimization of Collective Communication Operations in MPICH, 2005).
    return Cost(
        bytes_read=4 * count * n,
        bytes_written=4 * count * n,
        flops=count * n * (world_size - 1) / world_size,
        precision="fp32",
        # The least that a rank sends in an all-reduce (Patarasuk and Yuan, Bandwidth Optimal All-reduce Algorithms for
        # Clusters of Workstations, 2009).
        wire_bytes=2 * (world_size - 1) / world_size * 4 * count * n,
    )


bench.awkward({"count": 1, "n": 1}, {"count": 3, "n": 1009, "world_size": 3})
bench.reach(of="time:one_tensor", at_most=1.3)
bench.reach(of="time:one_tensor", at_most=1.3, size="large")


@both.baseline(kind="naive")
def one_by_one(gradients):
    for gradient in gradients:
        dist.all_reduce(gradient)
    return gradients


@both.variant(adds="asynchronous calls", why="the latency of one all-reduce overlaps that of the next")
def async_batch(gradients):
    for work in [dist.all_reduce(gradient, async_op=True) for gradient in gradients]:
        work.wait()
    return gradients


@cuda.variant(adds="grouping", why="NCCL takes all sums as one group, with one launch")
def coalesced(gradients):
    with dist.distributed_c10d._coalescing_manager(device=gradients[0].device):
        for gradient in gradients:
            dist.all_reduce(gradient)
    return gradients


@both.variant(adds="flat buffer", why="one latency instead of one for each gradient, for two copies")
class Flat:
    def prepare(self, gradients):
        self.buffer = torch.empty(sum(one.numel() for one in gradients), device=gradients[0].device)
        self.parts = list(self.buffer.view(len(gradients), -1))

    def run(self, gradients):
        torch._foreach_copy_(self.parts, gradients)
        dist.all_reduce(self.buffer)
        torch._foreach_copy_(gradients, self.parts)
        return gradients


@both.yardstick(why="the same bytes in one tensor: no copies and one latency")
def one_tensor(whole):
    dist.all_reduce(whole)
    return list(whole)
