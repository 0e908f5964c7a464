"""A copy from pinned memory that nobody waits for, beside one on a stream of its own that is waited for.

Workload   y = x + w for new values x and a static w that does not stay on the GPU: it is fetched from pinned memory by
           each call.
Baseline   Fetches it on the stream of the call.
Variants   First the code that commits the issue, then its honest look-alike.
Breaks     Where w fits beside everything else, nothing has to be fetched.
"""

# Written as an author writes: without types, and with a `why` in place of a docstring.
# ruff: noqa: D101, D102, D103
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators

import torch

from aiperf_core import Benchmark, Cost, exact

bench = Benchmark(goal="speed", cache="warm")


@bench.workload(smoke={"n": 1 << 16}, cuda={"n": 1 << 24})
def inputs(n, device, generator):
    return {"x": torch.randn(n, device=device, generator=generator)}


@bench.static
def weight(n, device, generator):
    return {"w": torch.randn(n, device=device, generator=generator)}


@bench.reference(tolerance=exact)
def reference(x, w):
    return x + w


@bench.cost
def cost(n):
    return Cost(bytes_read=8 * n, bytes_written=4 * n, flops=n)


class InPinnedMemory:
    """Keeps w in pinned memory, and room for it and for the output on the GPU."""

    def prepare(self, w):
        self.host, self.fetched, self.out = w.cpu().pin_memory(), torch.empty_like(w), torch.empty_like(w)
        self.side = torch.cuda.Stream()

    def fetch_and_add(self, x):
        return torch.add(x, self.fetched.copy_(self.host, non_blocking=True), out=self.out)


@bench.baseline(device="cuda", kind="reasonable")
class Fetched(InPinnedMemory):
    def run(self, x):
        return self.fetch_and_add(x)


@bench.variant(device="cuda", why="the copy returns at once, on a stream that nobody waits for")
class NotWaitedFor(InPinnedMemory):
    def run(self, x):
        with torch.cuda.stream(self.side):
            self.fetch_and_add(x)
        x.clone()  # a time that events can tell
        return self.out


@bench.variant(device="cuda", why="honest: a stream of its own for the copy, which the call's stream waits for")
class WaitedFor(InPinnedMemory):
    def run(self, x):
        here = torch.cuda.current_stream()
        self.side.wait_stream(here)
        with torch.cuda.stream(self.side):
            self.fetch_and_add(x)
        here.wait_stream(self.side)
        return self.out
