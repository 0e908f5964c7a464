"""`aiperf new`: a package of benchmarks that works, to be changed into yours."""

import importlib.util
import keyword
import re
import secrets
import shutil
from importlib.resources import files
from pathlib import Path, PurePosixPath
from string import Template
from typing import TYPE_CHECKING

import click
from attrs import frozen

from aiperf_core import __version__
from aiperf_core.errors import UsageError
from aiperf_core.plugins import Plugins
from aiperf_core.targets import is_group

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

# What lies in the folder of a kind is put over what lies in those before it.
KINDS = {"chapter": ("chapter",), "plugin": ("chapter", "plugin")}

# https://packaging.python.org/en/latest/specifications/name-normalization/
_DISTRIBUTION = re.compile(r"[A-Za-z0-9]|[A-Za-z0-9][A-Za-z0-9._-]*[A-Za-z0-9]")


@frozen
class Names:
    """The names of a package: `aiperf-acme` is imported as `aiperf_acme`, and its targets are `acme.*`."""

    distribution: str
    package: str
    group: str


@click.command("new")
@click.argument("distribution", metavar="PACKAGE")
@click.option(
    "--kind",
    type=click.Choice(tuple(KINDS)),
    default="chapter",
    show_default=True,
    help="Benchmarks alone, or with a command and an observer of runs.",
)
@click.option("--out", type=click.Path(path_type=Path), metavar="FOLDER", help="Make it there. [default: PACKAGE]")
@click.pass_obj
def new(plugins: Plugins, distribution: str, kind: str, out: Path | None) -> None:
    """Make a package of benchmarks that installs, runs and passes its tests.

    PACKAGE is the name under which it will be installed, such as aiperf-acme; its benchmarks are then called acme.*. It
    begins with one benchmark, which has variants in C, CUDA C++ and Triton.
    """
    names = _names(distribution)
    _check_free(plugins, names, kind)
    folder = out or Path(distribution)
    _write(folder, _rendered(names, kind))
    click.echo(f"'{folder}' holds the package '{names.distribution}'. Try it:\n")
    for line in (
        f"cd {folder}",
        'pip install -e ".[test]"',
        f"aiperf run {names.group}",
        f"pytest --aiperf={names.group}",
    ):
        click.echo(f"  {line}")


def _names(distribution: str) -> Names:
    """Derive what the package and its group are called. Raises `UsageError` for a name that cannot be."""
    normal = re.sub(r"[-_.]+", "-", distribution).lower()
    package, group = normal.replace("-", "_"), normal.removeprefix("aiperf-")
    if not _DISTRIBUTION.fullmatch(distribution):
        reason = "letters, digits, '-', '_' and '.' can, between letters or digits"
    elif not package.isidentifier() or keyword.iskeyword(package):
        reason = f"it would be imported as '{package}', which Python cannot"
    elif not is_group(group):
        reason = f"its benchmarks would be called '{group}.*', which a pattern cannot say"
    else:
        return Names(distribution, package, group)
    raise UsageError(f"{distribution!r} cannot name a package of benchmarks: {reason}. A name that can: 'aiperf-acme'.")


def _check_free(plugins: Plugins, names: Names, kind: str) -> None:
    """Raise `UsageError` where something that is installed has one of the names."""
    taken = [(one.entry_point, one.distribution, one.version) for one in plugins.loaded]
    taken += [(one.entry_point, one.distribution, one.version) for one in plugins.set_aside]
    for group, owner, version in taken:
        if group == names.group:
            raise UsageError(f"The group {group!r} is already provided by {owner} {version}. Choose another name.")
    command = plugins.commands.get(names.group)
    if kind == "plugin" and command is not None:
        raise UsageError(
            f"The command {names.group!r} is already provided by {command.distribution} {command.version}. "
            "Choose another name, or --kind chapter, which has no command."
        )
    if importlib.util.find_spec(names.package) is not None:
        raise UsageError(f"The module {names.package!r} is already installed here. Choose another name.")


def _rendered(names: Names, kind: str) -> dict[PurePosixPath, str]:
    """The files of a package by their paths within it."""
    words = {
        "distribution": names.distribution,
        "package": names.package,
        "group": names.group,
        "core": f"{__version__.rpartition('.')[0]}.0",
    }
    texts: dict[PurePosixPath, str] = {}
    for layer in KINDS[kind]:
        folder = files("aiperf_core") / "templates" / layer
        for path, source in _sources(folder, PurePosixPath()):
            # `.in`, so that no tool takes a template for what it makes.
            target = PurePosixPath(*(_named(part, names) for part in path.parts)).with_suffix("")
            texts[target] = Template(source.read_text("utf-8")).substitute(words)
    return texts


def _named(part: str, names: Names) -> str:
    """A part of a template's path as it is in the package."""
    if part.startswith("dot_"):
        return f".{part.removeprefix('dot_')}"
    return names.package if part == "PACKAGE" else part


def _sources(folder: "Traversable", path: PurePosixPath) -> "list[tuple[PurePosixPath, Traversable]]":
    """The files of a folder of templates, by their paths within it."""
    found = []
    for one in sorted(folder.iterdir(), key=lambda one: one.name):
        found += _sources(one, path / one.name) if one.is_dir() else [(path / one.name, one)]
    return found


def _write(folder: Path, texts: dict[PurePosixPath, str]) -> None:
    """Write files to a new folder, all or none. Raises `UsageError` where it is there, or cannot be made."""
    if folder.exists() or folder.is_symlink():
        raise UsageError(f"'{folder}' is already there, and nothing is overwritten. Make it elsewhere: --out FOLDER")
    if not folder.parent.is_dir():
        raise UsageError(f"'{folder.parent}' is no folder, so that nothing can be made in it. Make it first.")
    temporary = folder.with_name(f".{folder.name}.{secrets.token_hex(4)}.tmp")
    try:
        for path, text in texts.items():
            file = temporary / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, "utf-8")
        temporary.rename(folder)
    except OSError as error:
        raise UsageError(f"'{folder}' cannot be made: {error.strerror}. Make it elsewhere: --out FOLDER") from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
