"""A target on a GPU whose variants put their work elsewhere: other streams, other threads, later."""

import threading
import time

import torch

from aiperf_core import Benchmark, Cost, fp32

bench = Benchmark(goal="speed", clock="device")


@bench.workload(smoke={"n": 1 << 24})
def inputs(n, device, generator):
    return {"a": torch.rand(n, device=device, generator=generator)}


@bench.reference(tolerance=fp32)
def reference(a):
    return work(a)


@bench.cost
def cost(n):
    return Cost(bytes_read=4 * n, bytes_written=4 * n)


def work(a, out=None):
    """Some hundred microseconds of it."""
    out = torch.mul(a, 2, out=out)
    for _ in range(7):
        out.add_(a)
    return out


@bench.baseline(device="cuda", kind="reasonable")
def here(a):
    return work(a)


@bench.variant(device="cuda", why="an honest use of a second stream, joined before the end")
class Joined:
    def prepare(self, a):
        self.side = torch.cuda.Stream()

    def run(self, a):
        self.side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.side):
            out = work(a)
        torch.cuda.current_stream().wait_stream(self.side)
        out.record_stream(torch.cuda.current_stream())
        return out


@bench.variant(device="cuda", why="a second stream that nobody waits for")
class Unjoined:
    def prepare(self, a):
        self.side, self.out = torch.cuda.Stream(), torch.empty_like(a)

    def run(self, a):
        with torch.cuda.stream(self.side):
            work(a, self.out)
        return self.out


@bench.variant(device="cuda", why="a stream that torch does not know, and nobody waits for")
class Foreign:
    def prepare(self, a):
        from cuda.bindings import runtime

        _, stream = runtime.cudaStreamCreateWithFlags(runtime.cudaStreamNonBlocking)
        self.side, self.out = torch.cuda.ExternalStream(int(stream)), torch.empty_like(a)

    def run(self, a):
        with torch.cuda.stream(self.side):
            work(a, self.out)
        return self.out


@bench.variant(device="cuda", why="a thread that starts the work when the clock has stopped")
class LateThread:
    def prepare(self, a):
        self.out = torch.empty_like(a)

    def run(self, a):
        def finish():
            time.sleep(0.02)
            work(a, self.out)

        threading.Thread(target=finish, daemon=True).start()
        return self.out


class LazyTensor(torch.Tensor):
    """Computes when looked at."""

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        real = [work(one.source) if isinstance(one, cls) else one for one in args]
        return function(*real, **(kwargs or {}))


@bench.variant(device="cuda", why="a result that is computed when somebody looks at it")
def lazy(a):
    out = torch.empty_like(a).as_subclass(LazyTensor)
    out.source = a
    return out


@bench.variant(device="cuda", why="a graph that was captured over a copy of the first values")
class StaleGraph:
    def prepare(self, a):
        self.kept, self.graph = a.clone(), torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.out = work(self.kept)

    def run(self, a):
        self.graph.replay()
        return self.out


@bench.variant(device="cuda", why="a call that waits for the GPU by itself")
def waits(a):
    out = work(a)
    torch.cuda.synchronize()
    return out
