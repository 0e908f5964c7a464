"""A package of two targets, its stored figures, and bundles with results of targets."""

import hashlib
import json

import attrs

from aiperf_core.results import example
from aiperf_core.results.bundle import Bundle

PLUGIN = """
@hookimpl
def aiperf_targets():
    yield Target("gather", "Sorted | indices", "speed", ("cpu", "cuda"))
    yield Target("copy", "A copy", "memory", ("cpu",))
"""
BENCHMARK = '''"""Sorted gather: neighbours in *memory*.

Workload   out[i] = a[index[i]] over
           `n_words` values.
Breaks     Arrays that fit in the cache.
"""
from aiperf_core import Benchmark, Cost, exact, lossy

bench = Benchmark(goal="GOAL", clock="device")

@bench.workload(smoke={"n": 4099}, cpu={"n": 1 << 25}, cuda={"n": 1 << 25})
def inputs(n, device, generator): ...

@bench.reference(tolerance=exact)
def reference(a): ...

@bench.cost
def cost(n):
    return Cost(bytes_read=8 * n, bytes_written=4 * n)

@bench.baseline(device=DEVICES, kind="naive")
def shuffled(a): ...

@bench.variant(device=DEVICES, why="a line is fetched | once")
def ordered(a): ...
'''
GATHER = (
    BENCHMARK.replace("GOAL", "speed").replace("DEVICES", '("cpu", "cuda")')
    + """
@bench.variant(device="cuda", requires="sm_80", builds_on="ordered", lossy=lossy("rel_l2", at_most=0.05), why="half")
def halved(a): ...

bench.reach(of="speedup", at_least=2, device="cuda", cause="it is *small*", shown_by="variant:halved")
"""
)
COPY = BENCHMARK.replace("GOAL", "memory").replace("DEVICES", '"cpu"')
RUN = {
    "bundle": "run7",
    "seal": "0" * 64,
    "date": "2026-11-22T17:23:01+00:00",
    "versions": {"aiperf": "0.1.0", "driver": "580.1"},
    "git": "3904a98e3b33151e438de799110a45c2a6dfcfbc",
    "tier": "standard",
}


def store(package, hardware, figures, source=GATHER, date=RUN["date"], goals=None):
    """Write an expectations file with these figures of `ordered` and `halved`."""
    rows = {
        f"acme.gather:{name}": {
            "metric": "speedup",
            "at_least": low,
            "measured": value,
            "low": low,
            "high": high,
            "sizes": {"n": 33554432.0},
            "run": 0,
            "goals": (goals or {}).get(name, []),
            "sol": {"bound": "memory", "time_s": 0.1, "fraction": 0.94},
        }
        for name, (value, low, high) in figures.items()
    }
    sources = {"acme.gather": hashlib.sha256(source.encode()).hexdigest()}
    page = {"hardware": hardware, "format": 1, "runs": [{**RUN, "date": date, "sources": sources}], "expected": rows}
    (package / "expectations").mkdir(exist_ok=True)
    (package / "expectations" / f"{hardware}.json").write_text(json.dumps(page))


def measured(path, *names, tier="quick", verdicts=()):
    """A sealed bundle with results of these targets."""
    made, first = Bundle.create_at(path), example.result()
    named = zip(("shuffled", "ordered", "halved"), first.rows, strict=False)
    rows = [attrs.evolve(row, name=name, **dict(verdicts).get(name, {})) for name, row in named]
    for name in names:
        made.write_target(attrs.evolve(first, target=name, tier=tier, rows=rows, order=[row.name for row in rows]))
    made.write_manifest(example.manifest())
    return path
