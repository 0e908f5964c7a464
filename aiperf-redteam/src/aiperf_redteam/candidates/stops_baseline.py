"""Stops the baseline's process and sends it on again, over and over while it is measured."""

# Written as an author writes: without types.
# ruff: noqa: D101, D102, D103
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators

import os
import signal
import time

# As many as the baseline does.
STEPS = 150


def work(x):
    v = x.clone()
    for _ in range(STEPS):
        v.tanh_().mul_(0.5).add_(x)
    return v


MOST_S = 30.0


def baseline():
    """The process of the baseline: its log has its name."""
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.path.basename(os.readlink(f"/proc/{name}/fd/1")) == "stepwise.log":
                return int(name)
        except OSError:
            continue
    return None


def works(process):
    """Whether a process has its turn: one that waits for it is left alone."""
    with open(f"/proc/{process}/stat") as file:
        return file.read().rpartition(")")[2].split()[0] == "R"


def disturb(process, owner):
    # On the processor that the baseline is pinned to, it would wait for the call to end.
    os.sched_setaffinity(0, set(range(os.cpu_count() or 1)) - os.sched_getaffinity(0))
    until = time.monotonic() + MOST_S
    while time.monotonic() < until:
        os.kill(owner, 0)
        if not works(process):
            time.sleep(50e-6)
            continue
        os.kill(process, signal.SIGSTOP)
        time.sleep(300e-6)
        os.kill(process, signal.SIGCONT)
        time.sleep(50e-6)


def start_apart(process, owner):
    """In a process that does not rest when this one does."""
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        return
    try:
        os.setsid()
        if os.fork() == 0:
            disturb(process, owner)
    finally:
        os._exit(0)


class Implementation:
    def prepare(self):
        process = baseline()
        if process is not None:
            start_apart(process, os.getpid())

    def run(self, x):
        return work(x)
