"""A target whose variants go wrong, each in a way of its own. The workload and the baseline are sound."""

import ctypes
import os
import signal
import sys
import threading
import time

import torch

from aiperf_core import Benchmark, Cost, exact
from aiperf_core.kernels import host_source

bench = Benchmark(goal="speed")


@bench.workload(smoke={"n": 1009})
def inputs(n, device, generator):
    return {"a": torch.randn(n, device=device, generator=generator)}


@bench.reference(tolerance=exact)
def reference(a):
    return a * 2


@bench.cost
def cost(n):
    return Cost(bytes_read=4 * n, bytes_written=4 * n)


@bench.baseline(device="cpu", kind="reasonable")
def doubled(a):
    return a * 2


@bench.variant(device="cpu", why="an honest one, whose row must stay untouched by the others")
def added(a):
    return a + a


@bench.variant(device="cpu", why="takes 20 ms more, which its clock and the supervisor's must both see")
def slow(a):
    time.sleep(0.02)
    return a * 2


@bench.variant(device="cpu", why="returns a wrong value")
def wrong_value(a):
    out = a * 2
    out[17] += 1e-3
    return out


@bench.variant(device="cpu", why="returns the right value of the inputs that it saw first")
class Stale:
    def prepare(self, a):
        self.out = None

    def run(self, a):
        if self.out is None:
            self.out = a * 2
        return self.out


@bench.variant(device="cpu", why="returns a copy of the answer to the inputs that it saw first")
class StaleCopy:
    def prepare(self, a):
        self.kept = a * 2

    def run(self, a):
        return self.kept.clone()


@bench.variant(device="cpu", why="returns NaN")
def not_a_number(a):
    return a * float("nan")


@bench.variant(device="cpu", why="leaves its output as it was")
class Unwritten:
    def prepare(self, a):
        self.out = a * 2

    def run(self, a):
        return self.out


@bench.variant(device="cpu", why="returns another shape")
def wrong_shape(a):
    return (a * 2)[:-1]


@bench.variant(device="cpu", why="returns another dtype")
def wrong_dtype(a):
    return (a * 2).double()


@bench.variant(device="cpu", why="returns another structure")
def wrong_structure(a):
    return {"answer": a * 2}


class AgreesWithAll(torch.Tensor):
    """A tensor that says that it equals everything."""

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        return True if function is torch.equal else super().__torch_function__(function, types, args, kwargs or {})


@bench.variant(device="cpu", why="returns a tensor with a mind of its own")
def wrong_type(a):
    return (a * 0).as_subclass(AgreesWithAll)


@bench.variant(device="cpu", why="hangs")
def hangs(a):
    time.sleep(3600)


@bench.variant(device="cpu", why="raises")
def raises(a):
    print("about to raise")
    raise RuntimeError("no such luck")


@bench.variant(device="cpu", why="leaves by the door")
def exits(a):
    print("leaving", flush=True)
    os._exit(0)


@bench.variant(device="cpu", why="asks Python to exit")
def asks_to_exit(a):
    sys.exit(0)


@bench.variant(device="cpu", why="crashes")
def crashes(a):
    ctypes.string_at(0)


@bench.variant(device="cpu", why="is killed")
def killed(a):
    os.kill(os.getpid(), signal.SIGKILL)


@bench.variant(device="cpu", why="allocates until there is no more")
def allocates(a):
    kept = []
    while True:
        kept.append(torch.ones(1 << 28))


@bench.variant(device="cpu", why="writes to its inputs")
def mutates(a):
    return a.mul_(2).clone()


@bench.variant(device="cpu", why="finishes in a thread when the clock has stopped")
class Late:
    def prepare(self, a):
        self.out = torch.empty_like(a)

    def run(self, a):
        def finish():
            time.sleep(0.05)
            torch.mul(a, 2, out=self.out)

        threading.Thread(target=finish, daemon=True).start()
        return self.out


@bench.variant(device="cpu", why="cannot be prepared")
class Unprepared:
    def prepare(self, a):
        raise ValueError("not today")

    def run(self, a):
        return a * 2


@bench.variant(device="cpu", requires="compiler", why="its C file does not compile")
class Uncompiled:
    def prepare(self, a):
        self.double = host_source("uncompiled.c").function("twice")

    def run(self, a):
        self.double(a)
        return a


@bench.variant(device="cpu", requires="sm_80", why="needs what this machine may lack")
def needs_gpu(a):
    return a * 2


@bench.variant(device="cpu", why="speaks out of turn on every descriptor that it finds")
def forges(a):
    for fd in range(3, 64):
        try:
            os.write(fd, b'\x00\x00\x00\x10{"ok": "forged"}')
        except OSError:
            continue
    return a * 2
