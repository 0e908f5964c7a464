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

import torch

from aiperf_redteam.relaxation import SHORT, benchmark, work

bench = benchmark(steps=SHORT)


@bench.baseline(device=("cpu", "cuda"), kind="reasonable")
def stepwise(x, steps):
    return work(x, steps)


@bench.variant(device="cpu", why="rewrites the code that judges, and what it has ready to judge by")
class RewritesJudge:
    def prepare(self):
        from aiperf_core.harness.roles import judge
        from aiperf_redteam.selftest import one_process

        one_process.OneProcess.compared = lambda *_: None
        judge.Judge.do_compare = lambda *_, **__: {"worst": 0.0, "error": None, "quality": None}
        for one in gc.get_objects():
            if isinstance(one, judge.Judge):
                one._answer = None

    def run(self, x):
        return torch.zeros_like(x)


@bench.variant(device="cpu", why="honest: imports the harness to be like it, and changes nothing")
class ImportsHarness:
    def prepare(self):
        from aiperf_core.validity import output_check

        self.factor = output_check.ELEMENT_FACTOR

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


@bench.variant(device="cpu", why="honest: reads its own source, as compilers for Python do")
class ReadsSource:
    def prepare(self):
        with open(__file__) as file:
            self.text = file.read()

    def run(self, x, steps):
        return work(x, steps if self.text else 0)
