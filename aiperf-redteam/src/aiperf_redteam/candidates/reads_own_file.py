"""Honest: keeps what it tuned in a file of its own, and reads it."""

# Written as an author writes: without types.
# ruff: noqa: D101, D102, D103
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators

import os
import tempfile

# As many as the baseline does.
STEPS = 150


def work(x):
    v = x.clone()
    for _ in range(STEPS):
        v.tanh_().mul_(0.5).add_(x)
    return v


class Implementation:
    def prepare(self):
        with tempfile.NamedTemporaryFile("w+", dir=os.environ.get("HOME")) as file:
            file.write(str(STEPS))
            file.seek(0)
            self.tuned = int(file.read())

    def run(self, x):
        return work(x) if self.tuned == STEPS else x
