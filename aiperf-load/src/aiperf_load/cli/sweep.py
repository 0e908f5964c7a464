"""`aiperf load sweep`: rates up to the capacity."""

from typing import Any

import click

from aiperf_core.errors import UsageError
from aiperf_core.plugins import Plugins
from aiperf_load.cli.options import load_options


@click.command("sweep")
@click.argument("url")
@click.option("--from", "low", type=float, required=True, metavar="RATE", help="The lowest rate, requests a second.")
@click.option("--to", "high", type=float, required=True, metavar="RATE", help="The highest rate.")
@click.option(
    "--factor", type=float, default=2.0, show_default=True, metavar="FACTOR", help="Ratio of a rate to the one before."
)
@click.option(
    "--met",
    type=float,
    default=0.99,
    show_default=True,
    metavar="SHARE",
    help="Share of good requests that a served rate reaches.",
)
@click.option(
    "--precision",
    type=float,
    default=0.05,
    show_default=True,
    metavar="FRACTION",
    help="Relative width that ends the search.",
)
@click.option("--arrivals", "kind", default="poisson", show_default=True, metavar="KIND",
              help="poisson, gamma:BURSTINESS or constant.")  # fmt: skip
@load_options
@click.pass_obj
def command(
    plugins: Plugins, /, url: str, low: float, high: float, factor: float, met: float, precision: float, kind: str,
    **given: Any,
) -> int:  # fmt: skip
    """Load the server at URL at rising rates, and find its capacity.

    Rates rise by --factor until a rate is not served. Bisection then finds the highest rate that is served.

    A rate is served when the share of requests within all limits of --slo is at least --met.

    \b
    Examples:
      aiperf load sweep http://127.0.0.1:8000 --from 1 --to 64 \\
          --slo ttft=200ms,tpot=50ms
    """
    from aiperf_load.cli.options import spec_of
    from aiperf_load.cli.output import begin, end
    from aiperf_load.cli.run import arrivals_of
    from aiperf_load.measuring import run_sweep
    from aiperf_load.sweep import check_rates

    if kind.partition(":")[0] in ("trace", "closed"):
        raise UsageError("a sweep takes arrivals with a rate: poisson, gamma:BURSTINESS or constant.")
    check_rates(low, high, factor=factor, met=met, precision=precision)
    if not given["limits"]:
        raise UsageError("a sweep needs the limits of a good request: --slo ttft=200ms,tpot=50ms")
    spec = spec_of(url, arrivals_of(kind, low), given)
    measuring = begin(plugins, spec, "sweep", given)
    code = run_sweep(measuring, spec, low, high, factor=factor, met=met, precision=precision)
    end(measuring, given)
    return code
