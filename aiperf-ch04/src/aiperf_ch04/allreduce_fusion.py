"""All-reduce fusion: many small collectives are latency, and one large one is bandwidth.

Workload   Each rank has `count` gradients of n float32; all ranks shall hold their sums. 256 of 32 KiB on GPUs, or with
           `--size large` 64 of 256 KiB; 64 of 8 KiB on a processor, where two processes talk through gloo.
Baseline   One all-reduce for each gradient, as soon as it is there: each pays for the ranks to find each other.
Variants   `async_batch`: all of them are started before one is waited for.  `coalesced` (cuda): NCCL takes them as one
           group, one launch for all.  `flat`: they are copied into one buffer, reduced at once, and copied back; both
           copies are timed. It sends the same bytes as the others; what it saves is latency.
Yardstick  `one_tensor`: one all-reduce of the same bytes, which lie in one tensor from the start.
Breaks     Gradients of many megabytes: then each call is bandwidth already, and the copies of `flat` are a loss.
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


@both.variant(adds="asynchronous calls", why="the ranks find each other for the next sum while this one is under way")
def async_batch(gradients):
    for work in [dist.all_reduce(gradient, async_op=True) for gradient in gradients]:
        work.wait()
    return gradients


@cuda.variant(adds="grouping", why="NCCL takes all sums as one group, which is one launch")
def coalesced(gradients):
    with dist.distributed_c10d._coalescing_manager(device=gradients[0].device):
        for gradient in gradients:
            dist.all_reduce(gradient)
    return gradients


@both.variant(adds="flat buffer", why="the ranks find each other once, for the price of two copies")
class Flat:
    def prepare(self, gradients):
        self.buffer = torch.empty(sum(one.numel() for one in gradients), device=gradients[0].device)
        self.parts = list(self.buffer.view(len(gradients), -1))

    def run(self, gradients):
        torch._foreach_copy_(self.parts, gradients)
        dist.all_reduce(self.buffer)
        torch._foreach_copy_(gradients, self.parts)
        return gradients


@both.yardstick(why="the same bytes in one tensor: what there is to gain")
def one_tensor(whole):
    dist.all_reduce(whole)
    return list(whole)
