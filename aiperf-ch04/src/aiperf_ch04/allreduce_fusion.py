"""All-reduce fusion: many small collectives are latency, and one large one is bandwidth.

Question    What do many small all-reduces cost beside one of the same bytes?

Numbers     Each rank has 256 gradients of 32 KiB in float32, 8.4 MB, and receives their sums; `--size large` has 64 of
            256 KiB. All variants send the same bytes: 22 us at 380 GB/s. Each of 256 calls costs the host tens of
            microseconds and the GPU a launch and an exchange. On a CPU 64 of 8 KiB between two processes, through gloo.

Prediction  One by one 256 times the longer of a call and an exchange. One call instead of 256 leaves two copies, 34 MB
            of memory traffic, beside one exchange: at least 5x. Asynchronous calls save no call: 256 objects to make
            and to wait for are work of the host, which is what bounds the baseline.

Limits      Gradients of many megabytes: bandwidth bounds each call, and the copies of `flat` cost time.
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


@both.variant(
    adds="asynchronous calls",
    why="the wait for one all-reduce is not before the call of the next",
    predict="at most 1.2x: the host makes as many calls, and an object to wait for with each",
    teaches="the calls are the host's work, not waiting: 256 objects with events to make and to wait for add to it",
)
def async_batch(gradients):
    for work in [dist.all_reduce(gradient, async_op=True) for gradient in gradients]:
        work.wait()
    return gradients


@cuda.variant(
    adds="grouping", why="NCCL takes all sums as one group, with one launch", predict="at least 2x: one launch of 256"
)
def coalesced(gradients):
    with dist.distributed_c10d._coalescing_manager(device=gradients[0].device):
        for gradient in gradients:
            dist.all_reduce(gradient)
    return gradients


@both.variant(
    adds="flat buffer",
    why="one latency instead of one for each gradient, for two copies",
    predict="at least 5x: two copies and one call in place of 256 calls",
)
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
