"""`aiperf run`: measure targets."""

import math
from pathlib import Path
from typing import TYPE_CHECKING

import click
from attrs import evolve

from aiperf_core.cli.measuring import measuring_options
from aiperf_core.errors import UsageError
from aiperf_core.plugins import Plugins

if TYPE_CHECKING:
    from aiperf_core.cli.screen import Screen
    from aiperf_core.harness.run import Finished, Run
    from aiperf_core.targets import Selection


@click.command("run")
@click.argument("patterns", nargs=-1, required=True, metavar="PATTERN...")
@click.option("--set", "sizes", multiple=True, metavar="NAME=NUMBER", help="Override one size; may be repeated.")
@click.option(
    "--variant", "variants", multiple=True, metavar="NAME", help="Only the baseline and this; may be repeated."
)
@measuring_options(timeout_s=60.0, scope=" a target")
@click.pass_obj
def run(
    plugins: Plugins,
    patterns: tuple[str, ...],
    device: str | None,
    size: str | None,
    sizes: tuple[str, ...],
    variants: tuple[str, ...],
    tier: str,
    policy: str,
    budget: float | None,
    timeout: float,
    out: Path | None,
    as_json: bool,
    quiet: bool,
) -> int:
    """Measure targets: all implementations side by side, checked to do the same work.

    A PATTERN is a group (ch07), a target (ch07.memory_access), one implementation of it (ch07.memory_access:coalesced),
    a tag (tag:memory), a glob or 'all'. Results go to a new folder in artifacts/runs.
    """
    from aiperf_core.cli.run_view import RunView, consoles
    from aiperf_core.harness.options import Options
    from aiperf_core.harness.run import Run

    for skipped in plugins.set_aside:
        click.echo(str(skipped), err=True)
    options = Options(
        device=device,
        size=size,
        params=_params(sizes),
        tier=tier,
        policy=policy,
        budget_s=budget,
        timeout_s=timeout,
    )
    screen, err = consoles()
    with RunView(err, quiet=quiet) as view:
        one = Run(plugins, _selections(plugins, patterns, variants), "-".join(patterns), options, out, view)
        finished = one.execute(on_result=None if as_json else lambda result: _print(screen, result, one))
    _print_end(screen, one, as_json)
    return finished


def _selections(plugins: Plugins, patterns: tuple[str, ...], variants: tuple[str, ...]) -> list["Selection"]:
    """The targets of the patterns; with `--variant` only those implementations of each, beside its baseline."""
    return [evolve(one, implementations=one.implementations | {*variants}) for one in plugins.select(patterns)]


def _print(screen: "Screen", result: "Finished", one: "Run") -> None:
    from aiperf_core.cli.run_view import print_result

    alone = len(one.results) == 1 and one.total == 1
    print_result(screen, result, one.bundle.path if alone and one.bundle else None)


def _print_end(screen: "Screen", one: "Run", as_json: bool) -> None:
    from aiperf_core.cli.run_view import print_json, print_summary

    path = one.bundle.path if one.bundle else None
    if as_json:
        print_json(screen, one.results, path)
    elif one.total > 1:
        print_summary(screen, one.results, path)


def _params(sizes: tuple[str, ...]) -> dict[str, float]:
    """The numbers of `--set`."""
    params = {}
    for text in sizes:
        name, equals, value = text.partition("=")
        if not (name and equals):
            raise UsageError(f"--set takes NAME=NUMBER, such as --set n=1e6; got {text!r}.")
        params[name] = _number(name, value)
    return params


def _number(name: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise UsageError(f"--set {name} takes a number, such as 4096 or 1e6; got {text!r}.") from None
    if not math.isfinite(value) or value < 0:
        raise UsageError(f"--set {name} takes a number from 0; got {text!r}.")
    return value
