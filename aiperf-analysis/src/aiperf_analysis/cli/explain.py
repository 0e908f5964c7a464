"""`aiperf explain`: rules with evidence on the rows of bundles."""

from pathlib import Path
from typing import Any

import click

from aiperf_analysis.cli.analyze import output_of
from aiperf_core.cli.measuring import json_option
from aiperf_core.cli.result_file import result_file_option, show_result
from aiperf_core.errors import ExitCode, UsageError


@click.command("explain")
@click.argument("bundles", nargs=-1, metavar="[BUNDLE[:TARGET[:IMPLEMENTATION]]]...")
@click.option(
    "--profiles",
    multiple=True,
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    metavar="FOLDER",
    help="Read profiles of aiperf profile too. May be repeated.",
)
@click.option(
    "--labels",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="Measure the precision of the rules on labelled bundles; rules below 80 % are left out.",
)
@click.option("--rules", is_flag=True, help="List the rules instead.")
@result_file_option
@json_option("the result as one JSON document")
def explain(
    bundles: tuple[str, ...], profiles: tuple[Path, ...], labels: Path | None, rules: bool, **values: Any
) -> ExitCode:
    """Explain the rows of bundles: which rules apply, by which figures, and what to try next.

    A rule is a fixed condition on the figures of a row or of its profile. It names targets of this installation that
    measure the effect of its advice. Rows that are not believed get no advice.

    \b
    Examples:
      aiperf explain latest
    """
    if bool(bundles) == rules:
        raise UsageError(
            "--rules lists all rules and takes no bundle."
            if rules
            else "name at least one bundle: aiperf explain BUNDLE. The bundles: aiperf results"
        )
    from aiperf_analysis.advice import explain as advice

    precision = advice.labelled(labels) if labels is not None else {}
    if rules:
        return show_result(advice.rules_table(precision), **values)
    from aiperf_analysis.selection import select

    selection = select(bundles)
    return output_of(values, selection, lambda: advice.explain(selection, profiles=profiles, precision=precision))
