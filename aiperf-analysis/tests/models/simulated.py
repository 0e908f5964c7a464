"""Bundles with samples of known truth, for tests of stacking, scaling and what-if."""

import attrs
import numpy as np

from aiperf_core.measurements import Estimate, Memory, Samples
from aiperf_core.results import example
from aiperf_core.results.bundle import Bundle
from aiperf_core.results.models import Row, Verdict
from aiperf_core.stats.intervals import median_interval, ratio_interval
from aiperf_core.stats.observations import blocks as blocks_of

# From 64 passes on, an interval is quick to compute.
PASSES, BLOCK = 64, 1


@attrs.frozen
class Made:
    """An implementation to be simulated: its true time in seconds, and what its row declares."""

    name: str
    time_s: float
    mechanisms: tuple = ()
    builds_on: str | None = None
    verdict: Verdict | None = None
    reason: str | None = None
    peak_bytes: int = 1 << 30


def samples(index, rows, time_s, noise, seed, passes=PASSES):
    count = passes * BLOCK
    times = time_s * np.exp(np.random.default_rng([seed, index]).normal(0, noise, count))
    return Samples(
        round=[0] * count,
        block=[(k // BLOCK) * rows + index for k in range(count)],
        step=list(range(count)),
        device_s=[float(one) for one in times],
        wall_s=[None] * count,
        cpu_s=[None] * count,
        bracket_s=[float(one) + 1e-5 for one in times],
        hidden=[True] * count,
        judged=[k % BLOCK == 0 for k in range(count)],
        calls=[1] * count,
        voluntary_switches=[0] * count,
        involuntary_switches=[0] * count,
        throttled=[False] * count,
        answered_s=[None] * count,
        **example.of_trusted_code(count),
    )


def result(made, target="ch07.memory_access", noise=0.002, seed=0, problem=None, **changes):
    """A result whose first implementation is the baseline. `problem` are fields of the problem."""
    base = example.result()
    base = attrs.evolve(base, target=target, clock_overhead_s=None, order=[], **changes)
    base = attrs.evolve(base, problem=attrs.evolve(base.problem, **(problem or {})))
    rows = []
    for index, one in enumerate(made):
        if one.verdict is not None:
            rows.append(
                Row(
                    one.name,
                    "variant",
                    base.device,
                    one.verdict,
                    why="why",
                    reason=one.reason,
                    mechanisms=list(one.mechanisms),
                    builds_on=one.builds_on,
                )
            )
            continue
        rows.append(
            Row(
                one.name,
                "variant" if index else "baseline",
                base.device,
                Verdict.FASTER if index else Verdict.MEASURED,
                why="why" if index else None,
                kind=None if index else "naive",
                clock="device",
                mechanisms=list(one.mechanisms),
                builds_on=one.builds_on,
                memory=Memory(one.peak_bytes, one.peak_bytes, one.peak_bytes, 0),
                samples=samples(index, len(made), one.time_s, noise, seed),
            )
        )
    found = attrs.evolve(base, rows=rows)
    sides = {row.name: blocks_of(found, row, None) for row in rows if row.samples.block}
    timed = []
    for row in rows:
        if row.name not in sides:
            timed.append(row)
            continue
        below = row.builds_on if row.builds_on in sides else None
        timed.append(
            attrs.evolve(
                row,
                time_s=median_interval(sides[row.name]),
                speedup=ratio_interval(sides[rows[0].name], sides[row.name]) if row.role == "variant" else None,
                step_speedup=ratio_interval(sides[below], sides[row.name]) if below else None,
            )
        )
    return attrs.evolve(found, rows=timed)


def bundle(path, *results, **changes):
    """A closed bundle of these results. `changes` are fields of the manifest."""
    path.parent.mkdir(parents=True, exist_ok=True)
    made = Bundle.create_at(path)
    for one in results:
        made.write_target(one)
    skipped = changes.pop("skipped", [])
    made.write_manifest(attrs.evolve(example.manifest(), skipped=skipped, exit_code=0, **changes))
    return made


def square(g=1.0, a=2.0, b=1.5, time_s=4e-3):
    """Baseline, A, B and both; `g` is the gain of both over the product."""
    return [
        Made("plain", time_s),
        Made("with_a", time_s / a, ("tiling",)),
        Made("with_b", time_s / b, ("wide loads",)),
        Made("both", time_s / (a * b * g), ("tiling", "wide loads"), builds_on="with_a"),
    ]


def estimate(value, spread=0.003):
    return Estimate(value, value * (1 - spread), value * (1 + spread))
