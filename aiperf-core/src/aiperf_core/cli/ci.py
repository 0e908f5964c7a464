"""The options `--junit` and `--github`: results for continuous integration."""

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from attrs import frozen

from aiperf_core.cli.measuring import together
from aiperf_core.errors import AiperfError, UsageError
from aiperf_core.plugins import Plugins
from aiperf_core.sweep import base_name

if TYPE_CHECKING:
    from aiperf_core.render.ci import Case


@frozen
class Ci:
    """Environment of continuous integration.

    junit: the file of a JUnit document.
    github: whether annotations of GitHub Actions are printed, on standard error.
    """

    junit: Path | None
    github: bool

    @property
    def given(self) -> bool:
        """Whether anything was requested."""
        return self.github or self.junit is not None

    def write(self, plugins: Plugins, cases: "list[Case]") -> None:
        """Write what was requested. Raises `AiperfError` for a file that cannot be written."""
        if self.github:
            _annotate(plugins, cases)
        if self.junit is not None:
            from aiperf_core import atomic
            from aiperf_core.render.ci import junit

            try:
                atomic.write(self.junit, junit(cases))
            except OSError as error:
                raise AiperfError(f"cannot write '{self.junit}': {error.strerror or error}.") from error


def _annotate(plugins: Plugins, cases: "list[Case]") -> None:
    from aiperf_core.cli.declared_in import declarations
    from aiperf_core.render.ci import failed, github

    targets = {target.name: target for target in plugins.targets}
    for case in failed(cases):
        target = targets.get(base_name(case.target))
        found = declarations(target) if target else None
        line = found.lines.get(case.implementation, 1) if found else None
        click.echo(github(case, _relative(found.file) if found else None, line), err=True)


def _relative(file: Path) -> Path:
    """GitHub wants a path from the root of the repository, in which the command usually runs."""
    here = Path.cwd()
    return file.relative_to(here) if file.is_relative_to(here) else file


def _file(_: click.Context, __: click.Parameter, path: Path | None) -> Path | None:
    """Refuse at once what could not be written after a long run."""
    if path is not None and (path.is_dir() or not path.absolute().parent.is_dir()):
        raise UsageError(f"--junit '{path}' is a folder, or its folder does not exist; name a file such as junit.xml.")
    return path


def ci_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options `--junit` and `--github`, which the command receives as `ci`."""
    options = together(
        click.option(
            "--junit",
            type=click.Path(path_type=Path),
            metavar="FILE",
            callback=_file,
            help="Also write a JUnit XML file, with a test case for each implementation.",
        ),
        click.option("--github", is_flag=True, help="Print each failure as an annotation of GitHub Actions."),
    )

    @wraps(command)
    def called(*arguments: Any, junit: Path | None, github: bool, **values: Any) -> Any:
        return command(*arguments, ci=Ci(junit, github), **values)

    return options(called)
