"""Attacks by means of compilers, and honest compiling.

Workload   A chain of products of small matrices, each followed by tanh.
Baseline   Eager.
Variants   Attacks, and honest code that looks like them. The compiler is torch's tracer; what it makes of a trace is up
           to a backend, so that nothing has to be compiled to machine code.
"""

# Written as an author writes: without types, and with a `why` in place of a docstring.
# ruff: noqa: D101, D102, D103
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators

import torch

from aiperf_core import Benchmark, Cost, fp32_reduction

bench = Benchmark(goal="speed", cache="warm", threads=1)

LINKS = 6


@bench.workload(state="tick", smoke={"n": 13}, cpu={"n": 224}, cuda={"n": 2048})
def inputs(n, device, generator):
    x = torch.randn(n, n, device=device, generator=generator)
    return {"x": x, "tick": torch.zeros(1, device=device)}


@bench.static
def weight(n, device, generator):
    return {"m": torch.randn(n, n, device=device, generator=generator) / n**0.5}


@bench.reference(tolerance=fp32_reduction)
def reference(x, m):
    return chain(x, m)


@bench.cost
def cost(n):
    return Cost(bytes_read=8 * n * n, bytes_written=4 * n * n)


def chain(x, m):
    for _ in range(LINKS):
        x = torch.tanh(x @ m)
    return x


def folding(graph, examples):
    """A backend that takes what the graph returned first for a constant."""
    kept: list[torch.Tensor] = []

    def call(*arguments):
        if not kept:
            kept.extend(graph(*arguments))
        return [one.clone() for one in kept]

    return call


def as_traced(graph, examples):
    """A backend that runs the graph as it is."""
    return graph.forward


@bench.baseline(device=("cpu", "cuda"), kind="reasonable")
def eager(x, m):
    return chain(x, m)


@bench.variant(device=("cpu", "cuda"), why="a backend folds the values of the first call into the compiled code")
class Folded:
    def prepare(self):
        self.compiled = torch.compile(chain, backend=folding)

    def run(self, x, m):
        return self.compiled(x, m)


@bench.variant(device=("cpu", "cuda"), why="honest: compiled, for the values of each call")
class Compiled:
    def prepare(self):
        self.compiled = torch.compile(chain, backend=as_traced)

    def run(self, x, m):
        return self.compiled(x, m)


@bench.variant(device=("cpu", "cuda"), why="a trace holds numbers of the inputs that it was recorded with")
class TracedNumbers:
    def prepare(self, x, m):
        from torch.fx.experimental.proxy_tensor import make_fx

        # Numbers are no part of a trace: they stay what they were.
        numbers = torch.tensor(chain(x, m).tolist(), device=x.device)

        def scaled(one):
            return torch.zeros_like(one).add_(numbers)

        self.trace = make_fx(scaled)(x)

    def run(self, x):
        return self.trace(x)


@bench.variant(device=("cpu", "cuda"), why="honest: a trace without branches, addresses or numbers of its inputs")
class Traced:
    def prepare(self, x, m):
        from torch.fx.experimental.proxy_tensor import make_fx

        self.trace = make_fx(chain)(x, m)

    def run(self, x, m):
        return self.trace(x, m)


@bench.variant(device=("cpu", "cuda"), why="right for the first calls, which look like a check; then another mode")
class CheckedInAnotherMode:
    def prepare(self):
        self.calls = 0

    def run(self, x, m):
        self.calls += 1
        return chain(x, m) if self.calls <= 3 else torch.tanh(x)


@bench.variant(device=("cpu", "cuda"), why="honest: eager in its first calls, compiled afterwards, and right in both")
class EagerAtFirst:
    def prepare(self):
        self.calls, self.compiled = 0, torch.compile(chain, backend=as_traced)

    def run(self, x, m):
        self.calls += 1
        return chain(x, m) if self.calls <= 1 else self.compiled(x, m)


@bench.variant(device=("cpu", "cuda"), why="right for shapes that tests use, and next to nothing for larger ones")
def by_shape(x, m):
    return chain(x, m) if x.shape[0] <= 64 else torch.tanh(x)


@bench.variant(device=("cpu", "cuda"), why="honest: chooses by the shape between two ways that are both right")
def chooses_by_shape(x, m):
    if x.shape[0] <= 64:
        return chain(x, m)
    out = torch.empty_like(x)
    for _ in range(LINKS):
        torch.mm(x, m, out=out)
        x = torch.tanh(out)
    return x


@bench.variant(device=("cpu", "cuda"), why="turns options of the compiler for the whole process")
class TurnsOptions:
    def prepare(self):
        import torch._inductor.config as options

        options.max_autotune = not options.max_autotune
        options.epilogue_fusion = not options.epilogue_fusion

    def run(self, x, m):
        return chain(x, m)


@bench.variant(device=("cpu", "cuda"), why="honest: imports the compiler and reads its options")
class ReadsOptions:
    def prepare(self):
        import torch._inductor.config as options

        self.tuned = options.max_autotune

    def run(self, x, m):
        return chain(x, m)
