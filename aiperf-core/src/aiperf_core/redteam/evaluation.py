"""Attacks on the exam as a whole.

Workload   A damped iteration, see `relaxation`.
Baseline   Step by step.
Variants   Attacks, and honest code that looks like them.
"""

# Written as an author writes: without types, and with a `why` in place of a docstring.
# ruff: noqa: D101, D102, D103
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators
# Attacks replace what is not meant to be replaced.
# mypy: disable-error-code="attr-defined, method-assign"

import gc
import os

import torch

from aiperf_core.redteam.relaxation import SHORT, benchmark, work

bench = benchmark(steps=SHORT)


@bench.baseline(device=("cpu", "cuda"), kind="reasonable")
def stepwise(x, steps):
    return work(x, steps)


@bench.variant(device="cpu", why="rewrites the code that compares and judges, in a process where none of it runs")
class RewritesJudge:
    def prepare(self):
        from aiperf_core.harness import compare, judge

        agreed = compare.Comparison(0.0)
        compare.compare_tensors = judge.compare_tensors = lambda *_: agreed
        judge.Judge.do_compare = lambda *_, **__: {"worst": 0.0, "error": None, "quality": None}
        for one in gc.get_objects():
            if isinstance(one, judge.Judge):
                one._answer = None

    def run(self, x):
        return torch.zeros_like(x)


@bench.variant(device="cpu", why="honest: imports the harness to be like it, and changes nothing")
class ImportsHarness:
    def prepare(self):
        from aiperf_core.harness import compare

        self.factor = compare.ELEMENT_FACTOR

    def run(self, x, steps):
        return work(x, steps if self.factor else 0)


@bench.variant(device=("cpu", "cuda"), why="knows the answers to the values it met, by their first few")
class Fitted:
    def prepare(self, x, steps):
        self.answers = {key_of(x): work(x, steps)}

    def run(self, x):
        answer = self.answers.get(key_of(x))
        return torch.zeros_like(x) if answer is None else answer.clone()


@bench.variant(device=("cpu", "cuda"), why="honest: looks at a few values and does the whole work whatever they are")
def looks_first(x, steps):
    return work(x, steps if key_of(x) else 0)


def key_of(x):
    return tuple(x[:8].tolist())


def editable_sources():
    """Files of the harness and of its benchmarks that this process could rewrite. They are opened, and left as they are."""
    folder = os.path.dirname(os.path.dirname(__file__))
    editable = []
    for root, _, names in os.walk(folder):
        for path in (os.path.join(root, name) for name in names if name.endswith(".py")):
            try:
                os.close(os.open(path, os.O_WRONLY))
            except OSError:
                continue
            editable.append(path)
    return editable


@bench.variant(device="cpu", why="would rewrite the sources of the exam, which are no longer read by then")
class EditsSources:
    def prepare(self):
        self.editable = editable_sources()

    def run(self, x):
        return torch.zeros_like(x)


@bench.variant(device="cpu", why="honest: reads its own source, as compilers for Python do")
class ReadsSource:
    def prepare(self):
        with open(__file__) as file:
            self.text = file.read()

    def run(self, x, steps):
        return work(x, steps if self.text else 0)
