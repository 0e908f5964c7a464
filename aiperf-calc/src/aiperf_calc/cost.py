"""Money: of time on rented machines, of electricity, and of own hardware. No price is built in."""

from aiperf_calc.quantities import positive, share
from aiperf_core.errors import UsageError

HOUR_S = 3600.0
KWH_J = 3.6e6
YEAR_H = 8766.0  # of 365.25 days


def rental(usd_per_hour: float, count: int, seconds: float, utilisation: float = 1.0) -> float:
    """Dollars of `count` machines for `seconds`, of which the share `utilisation` of the paid time is used."""
    return usd_per_hour * count * seconds / HOUR_S / share(utilisation, "the utilisation")


def per_million(usd_per_hour: float, count: int, per_second: float, utilisation: float = 1.0) -> float:
    """Dollars of a million tokens: 1e6 rate GPUs / (3600 tokens/s utilisation)."""
    return 1e6 * rental(usd_per_hour, count, 1.0, utilisation) / positive(per_second, "the tokens per second")


def electricity(joules: float, usd_per_kwh: float, pue: float = 1.0) -> float:
    """Dollars of electricity, with what the building takes beside the machines (PUE, ISO/IEC 30134-2)."""
    if not pue >= 1:
        raise UsageError(f"a PUE is at least 1: the energy of the building over that of its machines; got {pue:g}.")
    return joules * positive(pue, "the PUE") * positive(usd_per_kwh, "the tariff") / KWH_J


def electricity_per_million(watts: float, per_second: float, usd_per_kwh: float, pue: float = 1.0) -> float:
    """Dollars of the electricity of a million tokens: 1e6 W PUE tariff / (3.6e6 tokens/s)."""
    joules = positive(watts, "the power") / positive(per_second, "the tokens per second")
    return 1e6 * electricity(joules, usd_per_kwh, pue)


def own_per_hour(
    price: float, residual: float, life_years: float, utilisation: float, overhead_per_year: float = 0.0
) -> float:
    """Dollars of an hour that own hardware is used, without electricity.

    (price - residual) / (hours of life utilisation) + overhead a year / (hours of a year utilisation): straight-line
    depreciation over the hours of use.
    """
    positive(price, "the price of the hardware")
    if not 0 <= residual <= price:
        raise UsageError(f"the residual value must lie between 0 and the price, {price:g}; got {residual:g}.")
    if not overhead_per_year >= 0:
        raise UsageError(f"the overhead of a year must be 0 or more; got {overhead_per_year:g}.")
    used = YEAR_H * share(utilisation, "the utilisation")
    return (price - residual) / (used * positive(life_years, "the life in years")) + overhead_per_year / used
