"""Runs a thread on all processors, and has it back on its own before anybody looks."""

# Written as an author writes: without types.
# ruff: noqa: D101, D102, D103
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators

import os
import sys
import threading

# As many as the baseline does.
STEPS = 150


def work(x):
    v = x.clone()
    for _ in range(STEPS):
        v.tanh_().mul_(0.5).add_(x)
    return v


class Implementation:
    def prepare(self):
        helper = threading.Thread(target=self.help)
        helper.start()
        helper.join()

    def help(self):
        own = os.sched_getaffinity(0)
        os.sched_setaffinity(0, range(os.cpu_count() or 1))
        if os.sched_getaffinity(0) != own:
            sys.stdout.write("has what it was after\n")
        os.sched_setaffinity(0, own)

    def run(self, x):
        return work(x)
