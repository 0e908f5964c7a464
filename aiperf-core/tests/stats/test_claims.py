"""Claims of authors against what was measured: predictions of a run, and steps and titles of stored figures."""

from typing import Any

import pytest
from attrs import evolve
from measured import result

from aiperf_core import Benchmark
from aiperf_core.described import Described, DescribedImplementation
from aiperf_core.errors import BenchmarkError
from aiperf_core.measurements import Estimate
from aiperf_core.prediction import Prediction
from aiperf_core.stats.claims import predictions, stored_outcomes
from aiperf_core.stats.expectations import Expectation, Page


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
