"""Has the kernel send signals to the harness when something comes through a pipe."""

# Written as an author writes: without types.
# ruff: noqa: D101, D102, D103
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators

import fcntl
import os
import signal
import sys

# As many as the baseline does.
STEPS = 150


def work(x):
    v = x.clone()
    for _ in range(STEPS):
        v.tanh_().mul_(0.5).add_(x)
    return v


class Implementation:
    def prepare(self):
        read_end, write_end = os.pipe()
        try:
            fcntl.fcntl(read_end, fcntl.F_SETOWN, os.getppid())
            fcntl.fcntl(read_end, fcntl.F_SETSIG, signal.SIGURG)  # which the harness ignores
            fcntl.fcntl(read_end, fcntl.F_SETFL, os.O_ASYNC)
        except OSError:
            return
        os.write(write_end, b"x")
        sys.stdout.write("has what it was after\n")

    def run(self, x):
        return work(x)
