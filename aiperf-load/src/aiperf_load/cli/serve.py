"""`aiperf load serve`: two servers to test with."""

import re

import click

from aiperf_core.errors import AiperfError, UsageError
from aiperf_load.cli.options import seconds


@click.group("serve")
def command() -> None:
    """Serve completions that stream, to test a load generator with. Ctrl-C ends the server."""


def _ready(url: str) -> None:
    click.echo(url)


@command.command("clockwork")
@click.option("--host", default="127.0.0.1", show_default=True, metavar="ADDRESS", help="The address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8000,
    show_default=True,
    metavar="PORT",
    help="0 takes a free port.",
)
@click.option("--service", default="deterministic:10ms", show_default=True, metavar="KIND:TIME",
              help="Service time: deterministic or exponential, with its mean.")  # fmt: skip
@click.option(
    "--servers", type=int, default=1, show_default=True, metavar="COUNT", help="Requests that are served at once."
)
@click.option("--gap", default="0ms", show_default=True, metavar="TIME", help="Time between tokens after the first.")
@click.option("--stall", metavar="AT:TIME", help="Serve nothing for TIME, AT after the first request.")
@click.option(
    "--fault",
    "faults",
    multiple=True,
    metavar="KIND:EVERY",
    help="A fault in every EVERYth request, such as cut:10. May be repeated.",
)
@click.option("--seed", type=int, default=1, show_default=True, metavar="NUMBER", help="Seed of service times.")
def clockwork(
    host: str, port: int, service: str, servers: int, gap: str, stall: str | None, faults: tuple[str, ...], seed: int
) -> None:
    """Serve one queue with known waiting times.

    It can stall, and fail on request.

    Faults: cut, malformed, hang, pause, early, wrong-usage, error, 429, 500, 404, redirect, html, gzip, huge, endless.

    \b
    Examples:
      aiperf load serve clockwork --service exponential:20ms --servers 4
    """
    from aiperf_load.servers.clockwork import Clockwork
    from aiperf_load.servers.serve import run

    kind, _, mean = service.partition(":")
    at, _, length = (stall or "0:0").partition(":")
    every = {}
    for one in faults:
        name, _, number = one.partition(":")
        if not re.fullmatch(r"[0-9]{1,9}", number, re.ASCII):
            raise UsageError(f"--fault takes KIND:EVERY, such as cut:10; got {one!r}.")
        every[name] = int(number)
    what = Clockwork(
        service=kind, service_s=seconds(mean, "--service"), servers=servers, gap_s=seconds(gap, "--gap"),
        stall_at_s=seconds(at, "--stall"), stall_s=seconds(length, "--stall"), faults=every, seed=seed,
    )  # fmt: skip
    run(what, host, port, _ready)


@command.command("tiny")
@click.option("--host", default="127.0.0.1", show_default=True, metavar="ADDRESS", help="The address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8000,
    show_default=True,
    metavar="PORT",
    help="0 takes a free port.",
)
@click.option("--rows", type=int, default=8, show_default=True, metavar="COUNT", help="Requests in a batch.")
@click.option(
    "--room", type=int, default=512, show_default=True, metavar="TOKENS", help="Tokens of a request, prompt and answer."
)
@click.option("--seed", type=int, default=1, show_default=True, metavar="NUMBER", help="Seed of the weights.")
@click.option(
    "--threads", type=int, default=1, show_default=True, metavar="COUNT", help="Processor threads of the model."
)
def tiny(host: str, port: int, rows: int, room: int, seed: int, threads: int) -> None:
    """Serve a small transformer with continuous batching.

    Its tokens are planted, so that every one is verified. Needs torch.
    """
    try:
        import torch
    except ImportError:
        raise AiperfError("the server 'tiny' needs torch: pip install 'aiperf-load[tiny]'") from None
    from aiperf_load.servers.serve import run
    from aiperf_load.servers.tiny import Tiny

    if threads < 1:
        raise UsageError(f"--threads takes a number from 1; got {threads}.")
    torch.set_num_threads(threads)
    run(Tiny(rows=rows, room=room, seed=seed), host, port, _ready)
