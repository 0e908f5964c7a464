"""`aiperf new`: create a package of benchmarks from a template."""

import importlib.util
import keyword
import re
import secrets
import shutil
from importlib.resources import files
from pathlib import Path, PurePosixPath
from shlex import quote
from string import Template
from typing import TYPE_CHECKING

import click
from attrs import frozen

from aiperf_core.cli.new_target import DEVICES, add_target, languages_of
from aiperf_core.distributions import SetAside
from aiperf_core.errors import UsageError
from aiperf_core.names import words
from aiperf_core.plugins import LoadedPlugin, Plugins
from aiperf_core.targets import is_group
from aiperf_core.version import __version__

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

# The template folders of each kind; files of a later folder replace those of an earlier one.
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
@click.argument("distribution", metavar="PACKAGE", required=False)
@click.option(
    "--kind",
    type=click.Choice(tuple(KINDS)),
    default="chapter",
    show_default=True,
    help="chapter: benchmarks only. plugin: also a command and an observer of runs.",
)
@click.option(
    "-o", "--out", type=click.Path(path_type=Path), metavar="FOLDER", help="Folder to create. [default: PACKAGE]"
)
@click.option(
    "--target", metavar="NAME", help="Add a benchmark, such as acme.row_means, to the installed package of its group."
)
@click.option("--devices", metavar="cpu,cuda", help="Devices of the benchmark of --target. [default: cpu,cuda]")
@click.option(
    "--lang", metavar="c,cuda,triton", help="Languages of its kernels. [default: cuda, or c without the device cuda]"
)
@click.pass_obj
def new(
    plugins: Plugins,
    distribution: str | None,
    kind: str,
    out: Path | None,
    target: str | None,
    devices: str | None,
    lang: str | None,
) -> None:
    """Create a package of benchmarks that installs, runs and passes its tests, or add a benchmark to one.

    PACKAGE is the name of the distribution, such as aiperf-acme; its benchmarks are then named acme.*. The template has
    one benchmark, with variants in C, CUDA C++ and Triton.

    \b
    Examples:
      aiperf new aiperf-acme
      aiperf new --target acme.row_means
      aiperf new --target acme.top_k --devices cpu --lang c
    """
    if (distribution is None) == (target is None):
        raise UsageError("Give PACKAGE for a new package, or --target NAME for a benchmark in an installed one.")
    if target is not None:
        _add(plugins, target, _list(devices), _list(lang))
        return
    if devices or lang:
        raise UsageError("--devices and --lang are for --target; a new package has a benchmark of both devices.")
    assert distribution is not None
    names = _names(distribution)
    _check_free(plugins, names, kind)
    folder = out or Path(distribution)
    _write(folder, _rendered(names, kind))
    click.echo(f"'{words(str(folder))}' holds the package '{names.distribution}'. Try it:\n")
    for line in (
        f"cd {quote(words(str(folder)))}",
        'pip install -e ".[test]"',
        f"aiperf run {names.group}",
        f"pytest --aiperf={names.group}",
    ):
        click.echo(f"  {line}")


def _list(text: str | None) -> list[str]:
    """The words of an option, separated by commas."""
    return [one.strip() for one in (text or "").split(",") if one.strip()]


def _add(plugins: Plugins, target: str, devices: list[str], languages: list[str]) -> None:
    for device in devices:
        if device not in DEVICES:
            raise UsageError(f"--devices {device!r} is not a device of the template; accepted: {', '.join(DEVICES)}.")
    chosen = [one for one in DEVICES if one in (devices or DEVICES)]
    added = add_target(plugins, target, chosen, languages_of(chosen, languages))
    kernels = " and ".join(f"'{one}'" for one in added.kernels)
    noun = "kernel" if len(added.kernels) == 1 else "kernels"
    click.echo(f"'{target}' is in '{added.file}', with its {noun} in {kernels} and its line in '{added.plugin}'.")
    click.echo("Try it:\n")
    for line in (f"aiperf run {target} --size smoke", f"pytest --aiperf={target}"):
        click.echo(f"  {line}")


def _names(distribution: str) -> Names:
    """Derive the names of the package and its group. Raises `UsageError` for an invalid name."""
    normal = re.sub(r"[-_.]+", "-", distribution).lower()
    package, group = normal.replace("-", "_"), normal.removeprefix("aiperf-")
    if not _DISTRIBUTION.fullmatch(distribution):
        reason = "use letters, digits, '-', '_' and '.', with a letter or digit first and last"
    elif not package.isidentifier() or keyword.iskeyword(package):
        reason = f"Python cannot import '{package}'"
    elif not is_group(group):
        reason = f"'{group}.*' is not a valid pattern for its benchmarks"
    else:
        return Names(distribution, package, group)
    raise UsageError(f"{distribution!r} cannot name a package of benchmarks: {reason}. A valid name is 'aiperf-acme'.")


def _check_free(plugins: Plugins, names: Names, kind: str) -> None:
    """Raise `UsageError` if an installed plugin, command or module has one of the names."""
    known: list[LoadedPlugin | SetAside] = [*plugins.loaded, *plugins.set_aside]
    for plugin in known:
        if plugin.entry_point == names.group:
            owner = f"{plugin.distribution} {plugin.version}"
            raise UsageError(f"The group {names.group!r} is already provided by {owner}. Choose another name.")
    command = plugins.commands.get(names.group)
    if kind == "plugin" and command is not None:
        raise UsageError(
            f"The command {names.group!r} is already provided by {command.distribution} {command.version}. "
            "Choose another name, or --kind chapter, which adds no command."
        )
    if importlib.util.find_spec(names.package) is not None:
        raise UsageError(f"The module {names.package!r} is already installed here. Choose another name.")


def _rendered(names: Names, kind: str) -> dict[PurePosixPath, str]:
    """The text of each file of the package, by its path in the package."""
    values = {
        "distribution": names.distribution,
        "package": names.package,
        "group": names.group,
        "core": f"{__version__.rpartition('.')[0]}.0",
    }
    texts: dict[PurePosixPath, str] = {}
    for layer in KINDS[kind]:
        folder = files("aiperf_core") / "templates" / layer
        for path, source in _sources(folder, PurePosixPath()):
            # Templates end in `.in`, so that no tool takes them for Python or TOML.
            target = PurePosixPath(*(_named(part, names) for part in path.parts)).with_suffix("")
            texts[target] = Template(source.read_text("utf-8")).substitute(values)
    return texts


def _named(part: str, names: Names) -> str:
    """A part of a template's path, renamed for the package."""
    if part.startswith("dot_"):
        return f".{part.removeprefix('dot_')}"
    return names.package if part == "PACKAGE" else part


def _sources(folder: "Traversable", path: PurePosixPath) -> "list[tuple[PurePosixPath, Traversable]]":
    """The files of a folder of templates, with their paths in it."""
    found = []
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        found += _sources(entry, path / entry.name) if entry.is_dir() else [(path / entry.name, entry)]
    return found


def _write(folder: Path, texts: dict[PurePosixPath, str]) -> None:
    """Write all files to a new folder, or nothing. Raises `UsageError` if it exists or cannot be created."""
    temporary = folder.parent / f".{folder.name}.{secrets.token_hex(4)}.tmp"
    try:
        if folder.exists() or folder.is_symlink():
            raise UsageError(f"'{folder}' already exists, and is not overwritten. Choose another folder: --out FOLDER")
        if not folder.parent.is_dir():
            raise UsageError(f"'{folder.parent}' is not a folder. Create it first.")
        for path, text in texts.items():
            file = temporary / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, "utf-8")
        temporary.rename(folder)
    except OSError as error:
        raise UsageError(f"cannot create '{folder}': {error.strerror}. Choose another folder: --out FOLDER") from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
