"""Student's and Fisher's distributions, against published quantiles and closed forms."""

import math

import pytest

from aiperf_core.stats.distributions import f_tail, t_expansion, t_quantile, t_tail

# The 97.5 % and 99.5 % quantiles of Student's t by degrees of freedom, as textbooks print them.
PUBLISHED = {
    1: (12.706, 63.657),
    2: (4.303, 9.925),
    3: (3.182, 5.841),
    4: (2.776, 4.604),
    5: (2.571, 4.032),
    6: (2.447, 3.707),
    7: (2.365, 3.499),
    8: (2.306, 3.355),
    9: (2.262, 3.250),
    10: (2.228, 3.169),
    20: (2.086, 2.845),
    30: (2.042, 2.750),
    60: (2.000, 2.660),
    120: (1.980, 2.617),
}


@pytest.mark.parametrize("freedom", PUBLISHED)
def test_quantiles_are_those_that_are_printed(freedom):
    for probability, quantile in zip((0.975, 0.995), PUBLISHED[freedom], strict=True):
        assert t_quantile(probability, freedom) == pytest.approx(quantile, abs=6e-4)
        assert t_quantile(1 - probability, freedom) == pytest.approx(-quantile, abs=6e-4)
        assert t_tail(t_quantile(probability, freedom), freedom) == pytest.approx(1 - probability, rel=1e-9)


@pytest.mark.parametrize("probability", [0.51, 0.6, 0.9, 0.999, 1 - 1e-6])
def test_quantiles_of_closed_forms(probability):
    assert t_quantile(probability, 1) == pytest.approx(math.tan(math.pi * (probability - 0.5)), rel=1e-6)
    two = (2 * probability - 1) * math.sqrt(2 / (4 * probability * (1 - probability)))
    assert t_quantile(probability, 2) == pytest.approx(two, rel=1e-6)


def test_a_fraction_of_a_degree_and_very_many():
    between = [t_quantile(0.975, freedom) for freedom in (1.0, 1.5, 2.0, 2.5, 999.0, 1000.0, 1e9)]
    assert between == sorted(between, reverse=True)
    assert between[-1] == pytest.approx(1.959963984540054, rel=1e-8)
    assert t_expansion(0.975, 999) == pytest.approx(t_quantile(0.975, 999), rel=1e-10)
    assert t_expansion(0.975, 1) == pytest.approx(0.89 * t_quantile(0.975, 1), rel=2e-3)
    assert t_quantile(0.5, 3) == 0


@pytest.mark.parametrize(("probability", "freedom"), [(0.0, 3), (1.0, 3), (0.9, 0), (math.nan, 3), (0.9, math.nan)])
def test_what_has_no_quantile(probability, freedom):
    with pytest.raises(ValueError, match="no quantile of Student's t"):
        t_quantile(probability, freedom)


def test_tails_of_fisher():
    for f, freedom, below in ((4.256, 2, 9), (161.4, 1, 1), (2.711, 5, 20)):
        assert f_tail(f, freedom, below) == pytest.approx(0.05, abs=2e-5)
    assert f_tail(0, 2, 9) == 1
