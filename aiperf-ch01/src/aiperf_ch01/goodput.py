"""Useful work in a bundle of results: a second, against the machine's ceilings, by energy and by price."""

from attrs import frozen

from aiperf_core.errors import AiperfError
from aiperf_core.loading import load_benchmark
from aiperf_core.plugins import Plugins
from aiperf_core.results import Address, Row, TargetResult

HOUR_S = 3600.0
KWH_J = 3.6e6
MILLION = 1e6


@frozen
class Prices:
    """What an hour of the machine and a kilowatt hour cost, in one currency; None where it does not count."""

    per_hour: float | None = None
    per_kwh: float | None = None

    def of(self, seconds: float, joules: float | None) -> float | None:
        """The price of some time and energy; None without a price, or where the energy that has one is not known."""
        if (self.per_hour is None and self.per_kwh is None) or (self.per_kwh is not None and joules is None):
            return None
        return (self.per_hour or 0.0) * seconds / HOUR_S + (self.per_kwh or 0.0) * (joules or 0.0) / KWH_J


@frozen
class Useful:
    """The useful work of one implementation.

    `unit` is `items` (samples, requests, tokens) where the target's cost counts them, otherwise `calls`. `goodput` is
    the least time for the work at this machine's ceilings, as a part of the time it took; None where no ceiling bounds
    it.
    """

    target: str
    implementation: str
    unit: str
    units_per_call: float
    units_per_s: float
    goodput: float | None
    joules_per_unit: float | None
    price_per_million: float | None


def report(address: Address, plugins: Plugins, prices: Prices) -> list[Useful]:
    """The useful work of every trusted row of a bundle, or of a part of it. Raises AiperfError if there is none."""
    found = [
        _useful(result, row, items, prices)
        for result in address.outlines()
        for items in (_items_of(result, plugins),)
        for row in result.rows
        if row.wall_s is not None
    ]
    if not found:
        raise AiperfError(
            f"'{address}' has no row with a trusted wall-clock time. Run more targets: aiperf run PATTERN"
        )
    return found


def _useful(result: TargetResult, row: Row, items: float, prices: Prices) -> Useful:
    # By the wall clock: who pays for a machine pays for launches too.
    assert row.wall_s is not None
    units, seconds = items or 1.0, row.wall_s.value
    joules = row.energy.joules_per_call if row.energy else None
    price = prices.of(seconds, joules)
    return Useful(
        target=result.target,
        implementation=row.name,
        unit="items" if items else "calls",
        units_per_call=units,
        units_per_s=units / seconds,
        goodput=row.speed_of_light.time_s / seconds if row.speed_of_light else None,
        joules_per_unit=None if joules is None else joules / units,
        price_per_million=None if price is None else MILLION * price / units,
    )


def _items_of(result: TargetResult, plugins: Plugins) -> float:
    """What a call delivers, as the target's cost counts it; 0 where it does not, or is not installed here."""
    try:
        (selection,) = plugins.select([result.target])
        return load_benchmark(selection.target).work(result.problem.params).tokens
    except AiperfError:
        return 0.0
