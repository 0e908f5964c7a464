"""Claims of authors against what was measured: predictions of a run, and steps and titles of stored figures."""

from typing import Any

import pytest
from attrs import evolve
from measured import result

from aiperf_core import Benchmark
from aiperf_core.described import Described, DescribedImplementation
from aiperf_core.errors import BenchmarkError
from aiperf_core.goal import make_goal
from aiperf_core.measurements import Estimate
from aiperf_core.prediction import Prediction
from aiperf_core.stats.claims import predictions, stored_gain, stored_outcomes
from aiperf_core.stats.expectations import Expectation, GoalFigure, Page


@pytest.mark.parametrize(
    ("text", "low", "high", "shown"),
    [
        ("1.6 to 1.9x: bytes", 1.6, 1.9, "1.6 to 1.9x"),
        ("at least 2x: one pass for two", 2.0, None, "at least 2x"),
        ("at most 1.1x: the host is the bound", None, 1.1, "at most 1.1x"),
    ],
)
def test_a_prediction_is_a_range_with_its_reason(text: str, low: float | None, high: float | None, shown: str) -> None:
    parsed = Prediction.parse(text)
    assert (parsed.low, parsed.high, str(parsed)) == (low, high, shown)
    assert parsed.why == text.partition(": ")[2]


@pytest.mark.parametrize(
    "text",
    ["2x: bytes", "1.6 to 1.9x", "1.9 to 1.6x: bytes", "at least 0x: bytes", "faster", "1 to 2x: ", "-1 to 2x: a"],
)
def test_a_prediction_that_does_not_parse(text: str) -> None:
    with pytest.raises(BenchmarkError) as caught:
        Prediction.parse(text)
    message = (
        f"predicts {text!r}; accepted is a range of gains with its reason, such as '1.6 to 1.9x: 1.2 ms of copies beside "
        "1.0 ms of products', 'at least 2x: ...' or 'at most 1.1x: ...'"
    )
    assert str(caught.value) == message
    with pytest.raises(BenchmarkError) as declared:
        Benchmark(goal="speed").variant(device="cpu", why="less", predict=text)(test_a_prediction_that_does_not_parse)
    assert str(declared.value).endswith(f"(test_a_prediction_that_does_not_parse): {message}.")


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (1.65, 1.7, "borne out"),
        (1.5, 1.7, "undecided"),
        (1.5, 2.5, "undecided"),
        (1.0, 1.59, "refuted"),
        (2, 3, "refuted"),
    ],
)
def test_how_a_prediction_ends(low: float, high: float, expected: str) -> None:
    assert Prediction.parse("1.6 to 1.9x: bytes").outcome(Estimate((low + high) / 2, low, high)) == expected


def test_the_predictions_of_a_run_are_about_the_preset_of_the_device() -> None:
    found = result(0, {"coalesced": 0.5})
    rows = [evolve(row, predict="at least 5x: made up") if row.role == "variant" else row for row in found.rows]
    found = evolve(found, rows=rows, problem=evolve(found.problem, size=found.device))
    (predicted,) = predictions(found)
    assert predicted.row.name == "coalesced"
    assert predicted.measured == predicted.row.speedup
    assert predicted.outcome == "refuted"
    assert [*predictions(evolve(found, problem=evolve(found.problem, size="smoke")))] == []


@pytest.mark.parametrize(("run", "gain"), [(0, 1.5), (1, None)])
def test_a_step_of_a_memory_goal_divides_the_gains_of_one_run(run: int, gain: float | None) -> None:
    below = Expectation(metric="memory", measured=4.0, low=4.0, high=4.0, sizes={}, run=0)
    rows = {"kept": below, "fused": evolve(below, measured=6.0, low=6.0, high=6.0, run=run)}
    step = stored_gain(DescribedImplementation("fused", "variant", "cuda", "", builds_on="kept"), rows)
    assert step == (gain and Estimate(gain, gain, gain))


SIZES = {"n": 64.0}


def stored(**times_us: float) -> Page:
    """A page with rows whose times have an interval of 2 %, against a baseline of 100 us."""
    rows = {
        f"acme.made:{name}": Expectation(
            metric="speedup",
            measured=100 / time,
            low=99 / time,
            high=101 / time,
            sizes=SIZES,
            run=0,
            time_s=Estimate(time, 0.99 * time, 1.01 * time),
        )
        for name, time in times_us.items()
    }
    return Page("nvidia-h200-x1", [], rows)


def declared(*variants: DescribedImplementation, **more: Any) -> Described:
    sizes: Any = {"smoke": {"n": 3.0}, "cuda": SIZES}
    return Described("speed", "device", "cold", None, sizes, {}, "acme", "", [*variants], **more)


def variant(name: str, **more: Any) -> DescribedImplementation:
    return DescribedImplementation(name, "variant", "cuda", "acme.py:1", **more)


def problems(described: Described, *pages: Page, device: str = "cuda") -> dict[str, str]:
    outcomes = stored_outcomes("acme.made", described, device, pages)
    return {one.test: f"{one.verdict}: {one.found}" for one in outcomes if one.verdict != "ok"}


def test_a_step_without_a_gain_says_what_it_teaches() -> None:
    page = stored(wide=50, wider=52)
    assert problems(declared(variant("wide"), variant("wider", builds_on="wide")), page) == {
        "claims.steps": "note: steps without a gain in the stored figures: wider over wide: 0.962x [0.942, 0.981] on "
        "nvidia-h200-x1"
    }
    assert problems(declared(variant("wide"), variant("wider", builds_on="wide", teaches="loads bind")), page) == {}
    assert problems(declared(variant("wide"), variant("wider", builds_on="wide")), stored(wide=50, wider=40)) == {}


def test_a_prediction_that_stored_figures_refute() -> None:
    described = declared(variant("wide", predict="3 to 4x: bytes"))
    assert problems(described, stored(wide=50)) == {
        "claims.predictions": "problem: predictions that the stored figures refute: wide, 3 to 4x: 2.00x [1.98, 2.02] on "
        "nvidia-h200-x1"
    }
    assert problems(described, stored(wide=30)) == {}


def test_a_title_shows_at_the_default_sizes() -> None:
    slow = stored(wide=101, wider=120)
    described = declared(variant("wide"), variant("wider"))
    found = {"claims.title": "problem: the best variant gains nothing at the default sizes: 0.99x on nvidia-h200-x1"}
    assert problems(described, slow) == found
    assert problems(evolve(described, no_gain_on={"cuda": "the null result is the lesson"}), slow) == {}
    assert problems(described, stored(wide=50, wider=120)) == {}


def test_figures_of_other_sizes_and_devices_say_nothing() -> None:
    described = declared(variant("wide", predict="3 to 4x: bytes"))
    assert problems(evolve(described, presets={"cuda": {"n": 65.0}}), stored(wide=50)) == {}
    assert problems(described, stored(wide=50), device="cpu") == {}


def with_host(page: Page, share: float | None) -> Page:
    return evolve(page, expected={name: evolve(row, host_share=share) for name, row in page.expected.items()})


@pytest.mark.parametrize(
    ("share", "subject", "flagged"),
    [
        (0.78, "device", True),
        (0.31, "device", True),
        (0.3, "device", False),
        (None, "device", False),
        (0.9, "host", False),
    ],
)
def test_a_reason_of_a_row_of_which_the_host_takes_most(share: float | None, subject: str, flagged: bool) -> None:
    found = problems(declared(variant("wide"), subject=subject), with_host(stored(wide=50), share))
    shown = {
        "claims.host": f"note: the host takes more than 30 % of the time of wide, {100 * (share or 0):.0f} % on nvidia-h200-x1"
    }
    assert found == (shown if flagged else {})


def test_the_subject_of_a_target() -> None:
    assert Benchmark(goal="speed", subject="host").subject == "host"
    with pytest.raises(BenchmarkError, match=r"has subject='driver'; accepted are device, host\.$"):
        Benchmark(goal="speed", subject="driver")


LIMITS = "Long kernels (`long_kernels`): the graph saves nothing. Also `--size wide`, and n of long_other kinds.\n"


@pytest.mark.parametrize(
    ("stored_sizes", "goal", "missing"),
    [
        ([], "", "long_kernels, wide"),
        ([{"n": 4096.0}], "", "wide"),
        ([{"n": 4096.0}, {"n": 8.0}], "", ""),
        ([{"n": 4096.0}], "wide", ""),
    ],
)
def test_sizes_that_the_limits_name_are_measured(stored_sizes: list[dict[str, float]], goal: str, missing: str) -> None:
    page = stored(wide=50)
    row = page.expected["acme.made:wide"]
    more = {f"acme.made@{index}:wide": evolve(row, sizes=sizes) for index, sizes in enumerate(stored_sizes)}
    goals = [make_goal(of="LAT", at_least=None, at_most=2.0, device="cuda", size=goal)] if goal else []
    if goal:
        more["acme.made:other"] = evolve(row, goals=[GoalFigure(of="LAT", value=1.5, low=1.4, high=1.6)])
    page = evolve(page, expected={**page.expected, **more})
    presets: Any = {
        "smoke": {"n": 3.0},
        "cuda": SIZES,
        "long_kernels": {"n": 4096.0},
        "wide": {"n": 8.0},
        "unnamed": {"n": 9.0},
    }
    described = evolve(declared(variant("wide"), limits=LIMITS, goals=goals), presets=presets)
    found = problems(described, page)
    assert found == (
        {"claims.limits": f"note: sizes that the limits name, without stored figures: {missing}"} if missing else {}
    )
    assert problems(described, evolve(page, expected={})) == {}, "nothing of the target is measured yet"
    on_both = evolve(described, presets={**presets, "cpu": {"n": 10.0}}, limits=LIMITS + "Latency (`cpu`).\n")
    assert "cpu" in str(problems(on_both, page)), "a preset like any other where no code is for a CPU"
    both = [*on_both.implementations, evolve(on_both.implementations[0], device="cpu")]
    assert problems(evolve(on_both, implementations=both), page) == found
    assert problems(evolve(described, limits=""), page) == {}
