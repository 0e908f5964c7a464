import attrs
import pytest

from aiperf_core.measurements import Memory
from aiperf_core.render.look import Look
from aiperf_core.render.summary import chosen, headline
from aiperf_core.report.roofline import roofline
from aiperf_core.results import example
from aiperf_core.results.models import Verdict
from aiperf_core.stats.best import best_gain, best_of, best_variant

STRIDED = example.rows()[0]
MEMCPY = example.rows()[-1]


def variant(name, verdict, speedup=None, gain=None, time_s=1e-3):
    estimate = example.estimate(speedup) if speedup else None
    time = example.estimate(time_s) if time_s else None
    row = example.row(name, "variant", verdict, time_s or 1.0)
    return attrs.evolve(row, time_s=time, speedup=estimate, memory_gain=gain)


def result(*rows, goal="speed"):
    return attrs.evolve(example.result(), goal=goal, rows=[STRIDED, *rows, MEMCPY])


def name_of(row):
    return row and row.name


@pytest.mark.parametrize(
    ("rows", "best", "gain"),
    [
        # The figure decides, not the order of declaration.
        ([("permuted", "INCONCLUSIVE", 0.0159), ("coalesced", "INCONCLUSIVE", 0.993)], "coalesced", None),
        ([("coalesced", "SLOWER", 0.9), ("permuted", "INCONCLUSIVE", 0.2)], "coalesced", None),
        ([("wide", "SAME", 1.001), ("narrow", "SLOWER", 0.8)], "wide", None),
        ([("wide", "FASTER", 8.6), ("wider", "FASTER", 8.7)], "wider", "wider"),
        # A proven gain is better than a higher figure that may be none.
        ([("lucky", "INCONCLUSIVE", 3.5), ("proven", "FASTER", 2.5)], "proven", "proven"),
        # Rows that are not believed never are the best.
        ([("cheat", "INVALID", 99.0), ("odd", "UNTRUSTED", 98.0), ("honest", "SLOWER", 0.5)], "honest", None),
        ([("cheat", "INVALID", 99.0), ("crash", "FAILED", None)], None, None),
        ([("bare", "INCONCLUSIVE", None), ("slow", "SLOWER", 0.1)], "slow", None),
        ([], None, None),
    ],
)
@pytest.mark.parametrize("goal", ["speed", "latency", "throughput"])
def test_the_best_is_the_believed_variant_with_the_highest_speedup(rows, best, gain, goal):
    found = result(*(variant(name, Verdict(verdict), speedup) for name, verdict, speedup in rows), goal=goal)
    assert name_of(best_variant(found)) == best
    assert name_of(best_gain(found)) == gain


def test_for_memory_the_gain_of_memory_decides():
    fast = variant("fast", Verdict.SAME, speedup=9.0, gain=1.0)
    lean = variant("lean", Verdict.SMALLER, speedup=0.5, gain=4.0)
    leaner = variant("leaner", Verdict.SMALLER, speedup=0.4, gain=4.5)
    assert best_variant(result(fast, lean, leaner, goal="memory")) == leaner
    assert best_gain(result(fast, goal="memory")) is None
    assert best_variant(result(fast, lean, leaner)) == fast


def test_without_a_baseline_times_and_peaks_decide():
    slow, fast = (variant(name, Verdict.INCONCLUSIVE, time_s=time) for name, time in (("slow", 2.0), ("fast", 1.0)))
    assert best_of([slow, fast], "speed") == fast
    fat, lean = (
        attrs.evolve(slow, name=name, memory=Memory(peak_bytes=size)) for name, size in (("fat", 9), ("lean", 1))
    )
    unknown = attrs.evolve(slow, name="unknown", memory=None)
    assert best_of([fat, unknown, lean], "memory") == lean


def test_yardsticks_and_baselines_are_no_variants():
    assert best_of([STRIDED, attrs.evolve(MEMCPY, verdict=Verdict.FASTER)], "speed") is None


def test_roofline_and_headline_name_the_same_variant():
    found = result(
        variant("permuted", Verdict.INCONCLUSIVE, 0.0159, time_s=2.0),
        variant("lucky", Verdict.INCONCLUSIVE, 0.993, time_s=1e-3),
        variant("proven", Verdict.FASTER, 1.2, time_s=2e-3),
    )
    (panel,) = roofline([found], example.manifest()).panels
    assert [mark.name for mark in panel.marks if mark.kind == "best"] == ["proven"] == [chosen(found).name]
    assert headline(found, Look(plain=True)).plain.startswith("ch07.memory_access  proven 1.20")
