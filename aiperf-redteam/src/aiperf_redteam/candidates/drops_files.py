"""Leaves a file beside those of the run that a careless Python would load when it starts."""

# Written as an author writes: without types.
# ruff: noqa: D101, D102, D103
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators

import os
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
        folder = os.path.dirname(os.readlink("/proc/self/fd/1"))
        try:
            with open(os.path.join(folder, "sitecustomize.py"), "w") as file:
                file.write("raise SystemExit('a dropped file was loaded')\n")
        except OSError:
            return
        sys.stdout.write("has what it was after\n")

    def run(self, x):
        return work(x)
