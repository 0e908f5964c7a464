"""The option `--out FILE` of commands that show results: the end of its name tells the format."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from aiperf_core.errors import ExitCode
from aiperf_core.names import printable

if TYPE_CHECKING:
    from aiperf_core.report.result import Result

Command = TypeVar("Command", bound=Callable[..., Any])


def result_file_option(command: Command) -> Command:
    """The option `--out`. A name that cannot be written is refused before anything is measured."""
    return click.option(
        "-o",
        "--out",
        type=click.Path(path_type=Path, dir_okay=False),
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


def show_result(result: "Result", out: Path | None = None, *, as_json: bool = False) -> ExitCode:
    """Write a result to the file of `--out`, and print it as JSON where asked, or as text without a file.

    Returns the exit code of the result.
    """
    write_result(result, out)
    if as_json:
        from aiperf_core.report.result import document
        from aiperf_core.results import jsontext

        click.echo(jsontext.dumps(document(result)), nl=False)
    elif out is None:
        from aiperf_core.cli import result_screen

        result_screen.show(result)
    if out is not None:
        click.echo(f"written: {printable(str(out))}", err=True)
    return result.exit_code
