"""Honest: reads about the memory of its own process."""

# Written as an author writes: without types.
# ruff: noqa: D101, D102, D103
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators

# As many as the baseline does.
STEPS = 150


def work(x):
    v = x.clone()
    for _ in range(STEPS):
        v.tanh_().mul_(0.5).add_(x)
    return v


class Implementation:
    def prepare(self):
        with open("/proc/self/maps") as maps:
            self.areas = len(maps.readlines())

    def run(self, x):
        return work(x) if self.areas else x
