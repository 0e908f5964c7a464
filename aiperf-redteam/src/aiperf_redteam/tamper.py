"""Attacks on the harness itself, from within the process that it measures.

Workload   A damped iteration, see `relaxation`; short, so that what is put off stays below what processes do between
           calls anyway. By the wall clock, to which waiting for the GPU belongs.
Baseline   Step by step, in the call.
Variants   Attacks, and honest code that looks like them. Some attack what lies in other processes here, and in the same
           one in a harness that has only one: see `one_process`.
"""

# Written as an author writes: without types, and with a `why` in place of a docstring.
# ruff: noqa: D101, D102, D103
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators
# Attacks replace what is not meant to be replaced.
# mypy: disable-error-code="assignment, attr-defined, method-assign, return-value"

import gc
import inspect
import json
import os
import signal
import statistics
import sys
import tempfile
import time

import numpy as np
import torch
from torch.overrides import TorchFunctionMode

from aiperf_core.kernels import cuda_source
from aiperf_redteam.relaxation import SHORT, benchmark, relax, work
from aiperf_redteam.timing import alarmed
from aiperf_redteam.timing_clocks import caller

bench = benchmark(steps=SHORT, clock="wall")
source = cuda_source("attacks.cu")

GRID, BLOCK = 1024, 256

# In bfloat16 the iteration is at rest after so many steps, and then some.
AT_REST = 12


@bench.baseline(device=("cpu", "cuda"), kind="reasonable")
def stepwise(x, steps):
    return work(x, steps)


# --- replaced functions


@bench.variant(
    device="cpu", why="the body of the function that fingerprints outputs is swapped, and a signal does the work"
)
class SwappedBody:
    def prepare(self, x):
        from aiperf_core.harness.roles.output import Output

        def sums(self, value):
            return []

        Output._sums.__code__ = sums.__code__
        self.out = torch.empty_like(x)

    def run(self, x, steps):
        alarmed(lambda: work(x, steps, self.out))
        return self.out


@bench.variant(device=("cpu", "cuda"), why="honest: swaps the body of a function of its own")
class OwnBody:
    def prepare(self):
        def step_by_step(x, steps):
            return work(x, steps)

        def undecided(x, steps):
            raise NotImplementedError

        undecided.__code__ = step_by_step.__code__
        self.run_body = undecided

    def run(self, x, steps):
        return self.run_body(x, steps)


class Interception(TorchFunctionMode):
    """Tells the same sum of any integers, in particular of an output's bits."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        if getattr(function, "__name__", "") == "sum" and args[0].dtype is torch.int64:
            return torch.zeros((), dtype=torch.int64)
        return function(*args, **(kwargs or {}))


@bench.variant(device="cpu", why="a mode that is never left answers for what torch is asked behind the call")
class NeverLeft:
    def prepare(self, x):
        Interception().__enter__()

    def run(self, x, steps):
        return work(x, steps)


@bench.variant(device=("cpu", "cuda"), why="honest: a mode that is left before the call returns")
def left_again(x, steps):
    with Interception():
        return work(x, steps)


@bench.variant(device="cpu", why="a library's timer is replaced, which takes no time here")
class PatchedDoBench:
    def prepare(self):
        import triton.testing

        triton.testing.do_bench = lambda *_, **__: 1e-3

    def run(self, x, steps):
        return work(x, steps)


@bench.variant(device="cpu", why="honest: imports a library with a timer, and leaves it alone")
class ImportsDoBench:
    def prepare(self):
        import triton.testing

        self.timer = triton.testing.do_bench

    def run(self, x, steps):
        return work(x, steps)


@bench.variant(device="cuda", why="waiting for the GPU is switched off, and the wall clock measures launches")
class NoWaiting:
    def prepare(self, x):
        self.relax, self.out, real = source.kernel("relax"), torch.empty_like(x), torch.cuda.synchronize

        def synchronize(device=None):
            # Where the launch takes less time than the kernel, calls without a pause would show it too.
            if caller("time_by_wall") is None and caller("do_steady") is None:
                real(device)

        torch.cuda.synchronize = synchronize

    def run(self, x, steps):
        self.relax(x, self.out, x.numel(), steps, grid=GRID, block=BLOCK)
        return self.out


@bench.variant(device="cuda", why="honest: waits for the GPU within the call")
def waits(x, steps):
    out = work(x, steps)
    torch.cuda.synchronize()
    return out


# --- another problem, other messages


@bench.variant(device=("cpu", "cuda"), why="writes a smaller size over the one that its caller passes on")
def shrunk(x, steps):
    arguments = caller("serve").f_locals["self"]._code.arguments
    arguments["steps"] = 1
    return work(x, min(steps, arguments["steps"]))


@bench.variant(device=("cpu", "cuda"), why="honest: does the whole problem in two halves")
def in_halves(x, steps):
    half = steps // 2
    return relax(work(x, half), x, steps - half)


def impersonate(it, asked, x, steps):
    """Answer the supervisor's requests in place of the worker, with the times of calls that do nothing."""
    request = {name: asked[name] for name in inspect.signature(it.do_sample).parameters}
    kept, do = torch.empty_like(x), "sample"
    it._code.run, it._code.names, it._token = (lambda: kept), (), ""
    while True:
        if do == "output":
            it._output.value = work(x, steps)
        reply = getattr(it, f"do_{do}")(**request)
        if isinstance(reply, dict) and "late" in reply:
            reply["late"] = False
        if do == "state":  # which would tell where it is asked for
            told = reply["harness"]["python"]
            told["callers"] = told["callers"].partition(" > worker:do_sample")[0]
        it._channel.send({"ok": reply})
        request = it._channel.receive()
        do, _ = request.pop("do"), request.pop("token")


@bench.variant(device="cpu", why="answers the supervisor's requests itself, with times of its choice")
def impostor(x, steps):
    impersonate(worker(), caller("do_sample").f_locals, x, steps)


@bench.variant(device=("cpu", "cuda"), why="honest: prints what looks like a result")
def prints(x, steps):
    sys.stdout.write('{"ok": {"wall_s": 1e-9}}\n')
    return work(x, steps)


@bench.variant(device="cpu", why="leaves with a line of success; what it leaves behind answers for it")
def leaves(x, steps):
    it, asked = worker(), caller("do_sample").f_locals
    sys.stdout.write("PASSED: 1000x faster\n")
    sys.stdout.flush()
    if os.fork():
        os._exit(0)
    impersonate(it, asked, x, steps)


# --- what lies in other processes, and in this one where a harness has only one


@bench.variant(device="cpu", why="functions that compare agree to everything")
class PatchedComparison:
    def prepare(self):
        from aiperf_core.validity import output_check

        agreed = output_check.Comparison(0.0)
        output_check.compare_tensors = lambda *_: agreed
        torch.equal = torch.allclose = torch.testing.assert_close = lambda *_, **__: True
        torch.isclose = lambda one, *_, **__: torch.ones_like(one, dtype=torch.bool)

    def run(self, x):
        return torch.zeros_like(x)


@bench.variant(device="cpu", why="every tolerance that can be found is made infinite")
class WidenedTolerance:
    def prepare(self):
        # What a server of forks has frozen the collector does not tell of.
        named = [one for module in list(sys.modules.values()) for one in getattr(module, "__dict__", {}).values()]
        for one in (*gc.get_objects(), *named):
            for name in ("rel_l2", "atol", "rtol"):
                if name in (getattr(type(one), "__slots__", None) or ()):
                    object.__setattr__(one, name, float("inf"))

    def run(self, x):
        return torch.zeros_like(x)


@bench.variant(device="cpu", why="random numbers are zeros from now on, and so is the answer")
class EasyNumbers:
    def prepare(self):
        torch.randn = torch.rand = lambda *size, **_: torch.zeros(*size)
        torch.manual_seed = lambda seed: None

    def run(self, x):
        return torch.zeros_like(x)


@bench.variant(device="cpu", why="its own calls in a row are one call")
class FewerCalls:
    def prepare(self):
        from aiperf_core.devices import timing

        self.timing, self.repeat, timing.repeat = timing, timing.repeat, self.fewer

    def fewer(self, value, times):
        call = sys._getframe(1).f_locals.get("call")
        mine = getattr(call, "func", None) == self.run
        return [value] if mine else self.repeat(value, times)

    def run(self, x, steps):
        return work(x, steps)


@bench.variant(device="cpu", why="every second median is next to nothing")
class PatchedStatistics:
    def prepare(self):
        self.asked = 0
        median = statistics.median

        def better(times):
            self.asked += 1
            return median(times) if self.asked % 2 else 1e-9

        statistics.median = np.median = better

    def run(self, x, steps):
        return work(x, steps)


@bench.variant(device="cpu", why="the writer of messages improves what looks like a time of its own")
class PatchedWriter:
    def prepare(self):
        dumps = json.dumps

        def improved(record, **options):
            reply = record.get("ok")
            for name in ("wall_s", "variant_s"):
                if isinstance(reply, dict) and reply.get(name):
                    record = {**record, "ok": {**reply, name: reply[name] / 10}}
            return dumps(record, **options)

        json.dumps = improved

    def run(self, x, steps):
        return work(x, steps)


@bench.variant(device="cpu", why="what the baseline calls takes longer")
class SlowedBaseline:
    def prepare(self):
        tanh = torch.Tensor.tanh_

        def slow(tensor):
            if not self.mine:
                time.sleep(50e-6)
            return tanh(tensor)

        self.mine = False
        torch.Tensor.tanh_ = slow

    def run(self, x, steps):
        self.mine = True
        try:
            return work(x, steps)
        finally:
            self.mine = False


@bench.variant(device="cpu", why="a flag that makes inputs and reference coarse, for which fewer steps are enough")
class LooseFlags:
    def prepare(self):
        torch.set_float32_matmul_precision("medium")
        torch.set_default_dtype(torch.bfloat16)

    def run(self, x):
        return work(x, AT_REST)


@bench.variant(device="cpu", why="honest: asks for the flags, and sets none")
def asks_for_flags(x, steps):
    precise = torch.get_float32_matmul_precision() != "medium" or x.dtype.is_floating_point
    return work(x, steps) if precise else x


# --- signals and files of its own


@bench.variant(device="cpu", why="honest: sends a signal to its own process")
def signals_itself(x, steps):
    os.kill(os.getpid(), signal.SIGCONT)
    return work(x, steps)


@bench.variant(device="cpu", why="honest: keeps something in a file of its own")
class KeepsFile:
    def prepare(self):
        with tempfile.TemporaryFile("w") as file:
            file.write("tuned")

    def run(self, x, steps):
        return work(x, steps)


def worker():
    """The object that is timing this call, up the stack."""
    return caller("do_sample").f_locals["self"]
