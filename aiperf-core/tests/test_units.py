import math
import re

import attrs
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from aiperf_core import units
from aiperf_core.measurements import Estimate

SCALES = {"s": 1.0, "ms": 1e-3, "µs": 1e-6, "ns": 1e-9}
RATES = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
SIZES = {"B": 0, "KiB": 1, "MiB": 2, "GiB": 3, "TiB": 4, "PiB": 5}
TIMES = st.floats(1e-9, 1e4)


def parsed(text):
    number, _, unit = text.partition(" ")
    assert re.fullmatch(r"\d{1,3}(,\d{3})*(\.\d+)?", number), text
    return float(number.replace(",", "")), unit


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1e-9, "1.00 ns"),
        (0.32e-9, "0.320 ns"),
        (0.9996e-6, "1.00 µs"),
        (5.2134e-3, "5.21 ms"),
        (0.99999, "1.00 s"),
        (100, "100 s"),
        (12345, "12,345 s"),
        (0, "0 ns"),
    ],
)
def test_seconds(value, text):
    assert units.seconds(value) == text


@given(st.tuples(*[st.floats() | st.integers(-(10**30), 10**30)] * 3))
@example((1e308, -1e308, 10**29))
@example((5e-324, -0.0, math.inf))
def test_every_number_has_a_text(values):
    functions = (units.number, units.seconds, units.joules, units.size, units.percent, units.parameter, units.span)
    estimates = (units.time_estimate, units.ratio_estimate, units.percent_estimate)
    texts = [function(values[0]) for function in functions]
    texts += [part for function in estimates for part in attrs.astuple(function(Estimate(*values)))]
    assert all(isinstance(text, str) and text and "\n" not in text for text in [*texts, units.rate(values[0], "B/s")])


@given(TIMES)
def test_seconds_say_the_value(value):
    number, unit = parsed(units.seconds(value))
    assert math.isclose(number * SCALES[unit], value, rel_tol=0.005)
    assert number >= 1
    assert number < 1000 or unit == "s"


@given(st.floats(1, 1e17), st.sampled_from(["B/s", "FLOP/s"]))
def test_rates_say_the_value(value, unit):
    number, prefixed = parsed(units.rate(value, unit))
    assert prefixed.endswith(unit)
    prefix = prefixed.removesuffix(unit)
    assert math.isclose(number * RATES[prefix], value, rel_tol=0.005)
    assert number >= 1
    assert number < 1000 or prefix == "P"


@pytest.mark.parametrize(
    ("value", "text"), [(4.12e11, "412 GB/s"), (999.96e9, "1.00 TB/s"), (3.29e12, "3.29 TB/s"), (0, "0 B/s")]
)
def test_rate(value, text):
    assert units.rate(value, "B/s") == text


@given(st.integers(0, 1 << 60))
def test_sizes_say_the_value(count):
    number, unit = parsed(units.size(count))
    assert math.isclose(number * 1024 ** SIZES[unit], count, rel_tol=0.005)
    assert number < 1000 or unit == "PiB"


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (512, "512 B"), (1 << 27, "128 MiB"), (5 << 28, "1.25 GiB"), (1000, "0.977 KiB"), (1023, "0.999 KiB")],
)
def test_size(count, text):
    assert units.size(count) == text


@pytest.mark.parametrize(
    ("fraction", "text"),
    [
        (0.82, "82 %"),
        (0.0957, "9.6 %"),
        (0.0031, "0.31 %"),
        (0.00001, "< 0.01 %"),
        (1.0, "100 %"),
        (1.234, "123 %"),
        (0, "0 %"),
    ],
)
def test_percent(fraction, text):
    assert units.percent(fraction) == text


@pytest.mark.parametrize(
    ("value", "text"), [(33554432, "33,554,432"), (2.0, "2"), (0.5, "0.5"), (1e20, "1e+20"), (-3, "-3")]
)
def test_parameter(value, text):
    assert units.parameter(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (-1, "0 s"),
        (0, "0 s"),
        (0.36, "360 ms"),
        (0.97, "1 s"),
        (8.4, "8 s"),
        (59.6, "1 min 00 s"),
        (125, "2 min 05 s"),
        (4320, "1 h 12 min"),
    ],
)
def test_span(value, text):
    assert units.span(value) == text


@pytest.mark.parametrize(
    ("estimate", "value", "interval"),
    [
        (Estimate(5.2134e-3, 5.198e-3, 5.229e-3), "5.213 ms", "[5.198, 5.229]"),
        (Estimate(5.2e-3, 5.0e-3, 5.4e-3), "5.20 ms", "[5.00, 5.40]"),
        (Estimate(5.2134567e-3, 5.2134566e-3, 5.2134568e-3), "5.2135 ms", "[5.2135, 5.2135]"),
        (Estimate(1e-9, 1e-9, 1e-9), "1.000 ns", "[1.000, 1.000]"),
        (Estimate(0.99999, 0.9961, 1.0039), "1.000 s", "[0.996, 1.004]"),
        (Estimate(100.0, 50.0, 200.0), "100 s", "[50, 200]"),
        (Estimate(1.2e-6, -0.3e-6, 2.7e-6), "1.20 µs", "[-0.30, 2.70]"),
        (Estimate(2.81e-3, 21e-6, 421.2e-3), "2.81 ms", "[0.0210, 421]"),
    ],
)
def test_time_estimate(estimate, value, interval):
    assert units.time_estimate(estimate) == units.Shown(value, interval)


@given(TIMES, st.floats(1e-4, 0.5))
def test_interval_ends_are_told_apart_from_the_value(value, spread):
    shown = units.time_estimate(Estimate(value, value * (1 - spread), value * (1 + spread)))
    number, unit = parsed(shown.value)
    low, high = (float(end.replace(",", "")) for end in shown.interval.strip("[]").split(", "))
    assert low < number < high
    assert math.isclose(low * SCALES[unit], value * (1 - spread), rel_tol=0.01)
    assert len(shown.interval) <= 20


@pytest.mark.parametrize(
    ("estimate", "value"),
    [
        (Estimate(8.671, 8.65, 8.69), "8.671x"),
        (Estimate(1234.5, 1200, 1300), "1,234x"),
        (Estimate(0.012, 0.01, 0.02), "0.0120x"),
    ],
)
def test_ratio_estimate(estimate, value):
    assert units.ratio_estimate(estimate).value == value


@pytest.mark.parametrize(
    ("value", "shown"), [(2345.0, "2.35 kJ"), (2.0, "2.00 J"), (0.0123, "12.3 mJ"), (4.5e-6, "4.50 uJ"), (0.0, "0 nJ")]
)
def test_energies(value, shown):
    assert units.joules(value) == shown


@pytest.mark.parametrize(
    ("iso", "shown"), [("2026-11-21T14:25:30+00:00", "2026-11-21 14:25 UTC"), ("yesterday", "yesterday")]
)
def test_moments(iso, shown):
    assert units.moment(iso) == shown


@pytest.mark.parametrize(("count", "shown"), [(0, "0 targets"), (1, "1 target"), (1200, "1,200 targets")])
def test_plurals(count, shown):
    assert units.plural("target", count) == shown
