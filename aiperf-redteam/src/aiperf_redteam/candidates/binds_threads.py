"""Honest: binds its threads to the processors that it was given, as libraries of threads do."""

# Written as an author writes: without types.
# ruff: noqa: D101, D102, D103
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators

import os
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
        helper = threading.Thread(target=lambda: os.sched_setaffinity(0, os.sched_getaffinity(0)))
        helper.start()
        helper.join()

    def run(self, x):
        return work(x)
