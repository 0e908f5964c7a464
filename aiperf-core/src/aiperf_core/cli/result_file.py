"""The option `--out FILE` of commands that show results: the end of its name tells the format."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from aiperf_core.report.result import Result

Command = TypeVar("Command", bound=Callable[..., Any])


def result_file_option(command: Command) -> Command:
    """The option `--out`. A name that cannot be written is refused before anything is measured."""
    return click.option(
        "-o",
        "--out",
        type=click.Path(path_type=Path),
        callback=_checked,
        metavar="FILE",
        help="Write the result to a file: .json, .csv, .parquet, .md, .html, .svg, .png or .pdf.",
    )(command)


def _checked(_: click.Context, __: click.Parameter, path: Path | None) -> Path | None:
    if path is not None:
        from aiperf_core.report import files

        files.check(path)
    return path


def write_result(result: "Result", path: Path | None) -> None:
    """Write the file that `--out` names, if any."""
    if path is not None:
        from aiperf_core.report import files

        files.write(result, path)
