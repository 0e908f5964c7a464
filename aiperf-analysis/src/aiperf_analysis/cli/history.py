"""`aiperf history`: the results of other tools over time."""

from pathlib import Path

import click

from aiperf_analysis.cli.db import url_option
from aiperf_core.cli.measuring import json_option
from aiperf_core.cli.result_file import result_file_option, show_result
from aiperf_core.errors import ExitCode


@click.command("history")
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path), metavar="[FILE|FOLDER]...")
@click.option("--name", "pattern", metavar="PATTERN", help="Only benchmarks of these names, such as 'test_sort*'.")
@click.option("--statistic", metavar="NAME", help="Such as mean, median or min. [default: the median, else the mean]")
@click.option(
    "--floor",
    type=click.FloatRange(0, 1, max_open=True),
    default=0.01,
    show_default=True,
    metavar="FRACTION",
    help="The smallest difference that matters.",
)
@url_option
@result_file_option
@json_option("the result as one JSON document")
def history(
    paths: tuple[Path, ...],
    pattern: str | None,
    statistic: str | None,
    floor: float,
    url: str,
    out: Path | None,
    as_json: bool,
) -> ExitCode:
    """Find steps in the results of other tools, and hold the newest of each benchmark to those before.

    FILE is JSON of pytest-benchmark, asv, google-benchmark, nvbench or hyperfine, and FOLDER holds such files; without
    either, the results of a store are read. Figures are the tool's own. For results of aiperf: aiperf analyze history.

    Exit codes: 0 no change, or too few results yet; 1 nothing can be read; 4 a confirmed regression.

    \b
    Examples:
      aiperf history .benchmarks
      aiperf history --name 'test_sort*'
    """
    from aiperf_analysis.foreign.history import analyze
    from aiperf_analysis.foreign.reading import files_of, read
    from aiperf_analysis.store.database import opened
    from aiperf_analysis.store.foreign import stored
    from aiperf_core.errors import UsageError

    if paths:
        results = [read(path) for path in files_of(paths)]
    else:
        with opened(url) as database:
            results = list(stored(database))
    if not results:
        raise UsageError("there are no results of other tools. Add some: aiperf db add FILE.json")
    return show_result(analyze(results, pattern, statistic, floor), out, as_json=as_json)
