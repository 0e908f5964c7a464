"""`aiperf load run`: one load."""

from pathlib import Path
from typing import Any

import click

from aiperf_core.errors import UsageError
from aiperf_core.plugins import Plugins
from aiperf_load.cli.options import load_options


@click.command("run")
@click.argument("url")
@click.option("--rate", type=float, metavar="RATE", help="Requests a second.")
@click.option(
    "--arrivals", "kind", default="poisson", show_default=True, metavar="KIND",
    help="poisson, gamma:BURSTINESS, constant, trace:FILE, or closed:CLIENTS.",
)  # fmt: skip
@load_options
@click.pass_obj
def command(plugins: Plugins, /, url: str, rate: float | None, kind: str, **given: Any) -> int:
    """Load the server at URL, such as http://127.0.0.1:8000.

    Exit code 3: the generator was late, so the figures are not trusted. Exit code 1: the server cannot be used, or no
    request ended well. Ctrl-C keeps what was measured, exit code 130.

    \b
    Examples:
      aiperf load run http://127.0.0.1:8000 --rate 4 --duration 30s
      aiperf load run http://127.0.0.1:8000 --arrivals closed:8 --slo ttft=200ms
    """
    from aiperf_load.cli.options import spec_of
    from aiperf_load.cli.output import begin, end
    from aiperf_load.measuring import run

    spec = spec_of(url, arrivals_of(kind, rate), given)
    measuring = begin(plugins, spec, "run", given)
    code = run(measuring, spec)
    end(measuring, given)
    return code


def arrivals_of(text: str, rate: float | None) -> Any:
    """The arrivals that `--arrivals` and `--rate` name. Raises UsageError."""
    from aiperf_load.spec import ARRIVALS, Arrivals

    kind, _, about = text.partition(":")
    if kind not in ARRIVALS or (bool(about) != (kind in ("gamma", "trace", "closed"))):
        raise UsageError(
            f"--arrivals takes poisson, gamma:BURSTINESS, constant, trace:FILE or closed:CLIENTS; got {text!r}."
        )
    if kind in ("trace", "closed"):
        if rate is not None:
            raise UsageError(f"--rate has no effect on arrivals of kind {kind}; leave it out.")
        if kind == "trace":
            return Arrivals(kind=kind, trace=str(Path(about)))
        if not about.isdigit():
            raise UsageError(f"a closed loop takes a number of clients from 1, as in closed:8; got {about!r}.")
        return Arrivals(kind=kind, clients=int(about))
    if rate is None:
        raise UsageError("--rate is missing: the requests a second.")
    try:
        burstiness = float(about) if kind == "gamma" else None
    except ValueError:
        raise UsageError(f"gamma arrivals take a burstiness above 0, as in gamma:0.5; got {about!r}.") from None
    return Arrivals(kind=kind, rate_per_s=rate, burstiness=burstiness)
