"""Honest: copies a file of its own with its mode and times, as compilers and caches do."""

# Written as an author writes: without types.
# ruff: noqa: D101, D102, D103
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators

import os
import shutil

# As many as the baseline does.
STEPS = 150


def work(x):
    v = x.clone()
    for _ in range(STEPS):
        v.tanh_().mul_(0.5).add_(x)
    return v


class Implementation:
    def prepare(self):
        with open("kept", "w") as file:
            file.write("x")
        os.chmod("kept", 0o755)
        shutil.copy2("kept", "copy")

    def run(self, x):
        return work(x)
