from typing import Any

from attrs import evolve

from aiperf_core.profiler import Hot, Observed
from aiperf_core.profiling.contrast import contrast, contrasts, shortened
from aiperf_core.profiling.models import NotProfiled, Profile

BASE = Profile(
    target="a.b", implementation="eager", role="baseline", why="", device="cuda", size="cuda", params={"n": 4},
    cache="cold", cost_bytes=1e6, tool="torch", metrics=[], calls=10, in_a_row=1, taken_s=[1e-3, 1.1e-3, 1.2e-3, 1.3e-3],
    created="2026-11-21T22:00:00+00:00", aiperf="0.1", observed=Observed(version="1"), artifacts=[],
)  # fmt: skip


def seen(name: str, hot: tuple[Hot, ...] = (), taken_s: Any = None, **figures: float) -> Profile:
    role = "baseline" if name == "eager" else "variant"
    observed = Observed(version="1", hot=list(hot), figures=figures)
    return evolve(BASE, implementation=name, role=role, observed=observed, taken_s=taken_s or BASE.taken_s)


def kernel(name: str, share: float, **more: float) -> Hot:
    return Hot(name=name, kind="kernel", count=1, seconds=share * 1e-3, share=share, **more)  # type: ignore[arg-type]


def test_fewer_launches_and_less_waiting_are_said_in_words() -> None:
    left = seen(
        "eager", (kernel("mul", 0.6), kernel("add", 0.4)), span_s=1e-3, launches=61, kernels=61, idle_share=0.78
    )
    right = seen("fused", (kernel("mul_add", 1.0),), span_s=2.5e-4, launches=1, kernels=1, idle_share=0.03)
    assert contrast(left, right).conclusion == (
        "Under torch 'fused' is 4.00x faster than 'eager' (GPU, first to last work: 1.00 ms → 250 µs). "
        "What differs: launches 61 → 1; kernels 61 → 1; GPU idle 78 % → 3.0 %. "
        "Instead of mul (60 % of its time) and add (40 % of its time) it runs mul_add (100 % of its time)."
    )


def test_sectors_explain_a_kernel_that_stays() -> None:
    left = seen("eager", (kernel("copy", 1.0),), busy_s=8e-3, sectors_per_load=32, **{"stall.long_scoreboard": 60.0})
    right = seen("wide", (kernel("copy", 1.0),), busy_s=1e-3, sectors_per_load=4, **{"stall.long_scoreboard": 20.0})
    found = contrast(left, right)
    assert found.conclusion == (
        "Under torch 'wide' is 8.00x faster than 'eager' (GPU at work: 8.00 ms → 1.00 ms). "
        "What differs: sectors a load request 32.0 → 4.00; warps stalled: long scoreboard 60.0 → 20.0."
    )
    assert (found.gone, found.new) == ([], [])
    assert [one.name for one in found.changed] == ["copy"]
    assert [(one.name, one.ratio) for one in found.figures][1] == ("sectors_per_load", 0.125)


def test_calls_that_vary_by_more_than_they_differ_prove_nothing() -> None:
    left = seen("eager", (kernel("mm", 1.0),), call_s=1.0, taken_s=[0.5, 0.9, 1.0, 1.1, 2.0])
    right = seen("wide", (kernel("mm", 0.8),), call_s=0.8, taken_s=[0.4, 0.7, 0.8, 1.0, 2.0])
    assert contrast(left, right).conclusion == (
        "Under torch the calls of 'wide' and 'eager' vary by more than they differ (a call, on the host: 1.00 s → 800 ms). "
        "No figure of this tool tells them apart."
    )
    apart = evolve(right, taken_s=[0.1, 0.2, 0.2, 0.2, 0.3])
    assert "is 1.25x faster than 'eager' (a call, on the host: 1.00 s → 800 ms)." in contrast(left, apart).conclusion
    few = evolve(right, taken_s=[0.1])
    assert "800 ms; too few calls to be sure)." in contrast(left, few).conclusion


def test_what_is_slower_is_called_slower_and_equal_equal() -> None:
    left, slower = seen("eager", span_s=1.0), seen("wide", span_s=2.0)
    assert "'wide' is 2.00x slower than 'eager'" in contrast(left, slower).conclusion
    assert "'wide' takes as long as 'eager'" in contrast(left, seen("wide", span_s=1.01)).conclusion


def test_small_differences_of_shares_and_counts_explain_nothing() -> None:
    left = seen("eager", span_s=1.0, idle_share=0.010, page_faults=0.1)
    right = seen("wide", span_s=0.5, idle_share=0.002, page_faults=0.4)
    assert contrast(left, right).conclusion.endswith("No figure of this tool tells them apart.")


def test_a_figure_that_vanishes_has_no_infinite_ratio() -> None:
    found = contrast(seen("eager", span_s=1.0, copied_bytes=0.0), seen("wide", span_s=0.5, copied_bytes=4096.0))
    assert found.figures[1].ratio is None
    assert "bytes copied 0 B → 4 KiB" in found.conclusion


def test_one_kernel_by_two_operators_is_compared_as_one() -> None:
    left = seen("eager", (kernel("copy", 0.5), evolve(kernel("copy", 0.5), by="aten::clone")), span_s=1.0)
    (one,) = contrast(left, seen("wide", (kernel("copy", 1.0),), span_s=1.0)).changed
    assert (one.left.count, one.left.share, one.right.count) == (2, 1.0, 1)


def test_every_variant_is_held_against_the_baseline_of_its_target() -> None:
    missing = NotProfiled(target="a.b", implementation="wide", reason="needs sm_90", failed=False)
    found = contrasts([seen("eager", span_s=1.0), missing, seen("fused", span_s=1.0)])
    assert [(one.left, one.right) for one in found] == [("eager", "fused")]
    assert contrasts([missing, seen("fused", span_s=1.0)]) == []


def test_long_names_are_shortened() -> None:
    assert shortened("void f(int)") == "f(int)"
    assert shortened("x" * 70) == "x" * 57 + "..."


def test_work_that_both_do_is_named_where_it_takes_less() -> None:
    left = seen("eager", (evolve(kernel("mm", 0.6), count=128), kernel("add", 0.4)), span_s=1.0)
    right = seen("wide", (evolve(kernel("mm", 0.3), count=16), kernel("add", 0.39)), span_s=0.5)
    assert "In both: mm 600 µs → 300 µs (128 → 16 times)." in contrast(left, right).conclusion
