"""`aiperf explain`: rules with evidence on the rows of bundles, and the terms of the glossary."""

from pathlib import Path
from typing import Any

import click

from aiperf_analysis.cli.analyze import output_of
from aiperf_core.cli.measuring import json_option
from aiperf_core.cli.result_file import result_file_option, show_result
from aiperf_core.errors import ExitCode, UsageError
from aiperf_core.results.bundle import DEFAULT_PARENT
from aiperf_core.results.filenames import MANIFEST


@click.command("explain")
@click.argument("bundles", nargs=-1, metavar="[BUNDLE[:TARGET[:IMPLEMENTATION]] | TERM]...")
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
@click.option("--terms", "lists_terms", is_flag=True, help="List the terms instead.")
@result_file_option
@json_option("the result as one JSON document")
def explain(
    bundles: tuple[str, ...],
    profiles: tuple[Path, ...],
    labels: Path | None,
    rules: bool,
    lists_terms: bool,
    **values: Any,
) -> ExitCode:
    """Explain a term, or the rows of bundles: which rules apply, by which figures, and what to try next.

    A TERM is a word of results, methods or machines (host share, warp, INCONCLUSIVE): print its definition and where
    to meet it. A bundle of that name is explained instead.

    A rule is a fixed condition on the figures of a row or of its profile. It names targets of this installation that
    measure the effect of its advice. Rows that are not believed get no advice.

    \b
    Examples:
      aiperf explain latest
      aiperf explain host share
    """
    if bool(bundles) + rules + lists_terms != 1:
        raise UsageError("name a TERM or a BUNDLE, or give --rules or --terms alone. The bundles: aiperf results")
    from aiperf_learn.glossary import terms

    if lists_terms:
        return show_result(terms.listing(), **values)
    text = " ".join(bundles)
    term = terms.find(text)
    if term is not None and not any(_is_bundle(name) for name in bundles):
        return show_result(terms.entry(term), **values)
    from aiperf_analysis.advice import explain as advice

    precision = advice.labelled(labels) if labels is not None else {}
    if rules:
        return show_result(advice.rules_table(precision), **values)
    from aiperf_analysis.selection import select

    try:
        selection = select(bundles)
    except UsageError as error:
        hint = f"Nor is it a term.{terms.suggestion(text)} The terms: aiperf explain --terms"
        raise UsageError(f"{error} {hint}") from None
    return output_of(values, selection, lambda: advice.explain(selection, profiles=profiles, precision=precision))


def _is_bundle(name: str) -> bool:
    """Tell whether a bundle has exactly this path or name."""
    return any((folder / name / MANIFEST).exists() for folder in (Path(), DEFAULT_PARENT))
