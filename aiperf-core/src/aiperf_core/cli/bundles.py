"""How commands take bundles: one way to name them, and a check of their seal before they are read."""

import re
from collections.abc import Callable, Iterable, Iterator
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from attrs import evolve

from aiperf_core.cli.main import INTERRUPTED
from aiperf_core.errors import AiperfError, ExitCode, UsageError
from aiperf_core.plugins import Plugins
from aiperf_core.targets import nearest

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from aiperf_core.results.address import Address
    from aiperf_core.results.seal_check import SealCheck

    _ParamType = click.ParamType[Address | str]
else:  # the oldest click that is supported has no generic type
    _ParamType = click.ParamType

Command = TypeVar("Command", bound=Callable[..., Any])

# A command that shows the rows of more targets does not judge them: a row takes about a hundredth of a second.
JUDGED_TARGETS = 8

IN = click.option(
    "--in",
    "folder",
    type=click.Path(path_type=Path),
    default=Path("artifacts/runs"),
    show_default=True,
    is_eager=True,  # names of bundles are looked up in it
    metavar="FOLDER",
    help="The folder of the bundles.",
)


class BundleType(_ParamType):
    """A bundle, or a part of it, as `results.naming` says; an `Address` for the command.

    parts: whether `:TARGET` and `:TARGET:IMPLEMENTATION` may follow.
    patterns: whether a pattern of targets may stand in its place. The command then gets the text, and a target's name
        wins over the name of a bundle.
    """

    name = "bundle"

    def __init__(self, *, parts: bool = True, patterns: bool = False) -> None:
        self.parts = parts
        self.patterns = patterns

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> "Address | str":
        """Open the bundle. Raises UsageError or BundleError for a text that names none."""
        from aiperf_core.results.address import Address, find

        if isinstance(value, Address):
            return value
        folder = _folder(ctx)
        if self.patterns and not _names_a_bundle(value, folder, ctx):
            return str(value)
        address = find(value, folder)
        if address.target is not None and not self.parts:
            raise UsageError(f"{value!r} names a target; this command takes a whole bundle: {address.bundle.path}")
        return address

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> "list[CompletionItem[str]]":
        """Return the names of bundles, after a colon their targets, and let the shell complete paths."""
        from aiperf_core.cli.completion import Completed, bundles, targets

        def complete(plugins: Plugins, text: str) -> Iterator[tuple[str, str]]:
            yield from targets(plugins, text) if self.patterns else ()
            yield from bundles(plugins, text, _folder(ctx))

        return Completed(complete, files=True).shell_complete(ctx, param, incomplete)


BUNDLE = BundleType(parts=False)
ADDRESS = BundleType()
PATTERN_OR_ADDRESS = BundleType(patterns=True)


def _folder(ctx: click.Context | None) -> Path:
    """The folder in which names of bundles are looked up."""
    from aiperf_core.results.bundle import DEFAULT_PARENT

    return Path((ctx and ctx.params.get("folder")) or DEFAULT_PARENT)


def _names_a_bundle(text: str, folder: Path, ctx: click.Context | None) -> bool:
    """Whether a text is a bundle rather than a pattern. A folder named `ch07` is a bundle only with a manifest."""
    from aiperf_core.results import address, naming
    from aiperf_core.results.filenames import MANIFEST

    if naming.is_path(text.partition(":")[0]):
        return True
    try:
        path, _ = address.split(text, folder)
    except UsageError:  # the start of several names, or too few bundles for `latest~N`
        return not _is_pattern(text, ctx)
    if path is None:
        looks_like_one = text[:1].isdigit() or nearest(text, [naming.LATEST])
        return bool(looks_like_one) and not _is_pattern(text, ctx)
    if path.is_dir() and not (path / MANIFEST).exists():
        return False
    return path.parent != folder or not _is_pattern(text, ctx)


def _is_pattern(text: str, ctx: click.Context | None) -> bool:
    """Whether a text selects targets other than by a word in their summaries or a part of their names."""
    plugins = ctx and ctx.find_object(Plugins)
    try:
        targets = [one.target for one in plugins.select((text,))] if plugins else []
    except AiperfError:
        return False
    word = text.partition(":")[0]
    by_word = re.fullmatch(r"[\w-]+", word) is not None and word != "all"
    return bool(targets) and not (by_word and not any(word in (one.group, *one.tags) for one in targets))


def verified(
    *names: str,
    samples: Callable[[dict[str, Any]], bool] | None = None,
    figures: bool = False,
    as_seals: bool = False,
) -> Callable[[Command], Command]:
    """Check the seals of the bundles that a command reads, and give it the option `--no-verify`.

    names: the parameters that hold bundles.
    samples: whether the command reads samples, by its parameters; None stands for no.
    figures: whether the rows of a few targets are judged too, as `aiperf recheck` does it for any number.
    as_seals: whether the command gets the `Seals` as a parameter of that name.

    A seal that does not hold is reported on standard error when the command has ended, and the exit code is then 3.
    """

    def decorate(command: Command) -> Command:
        @click.option("--no-verify", is_flag=True, help="Do not check the seal, to read a damaged bundle.")
        @wraps(command)
        def called(*arguments: Any, no_verify: bool, **values: Any) -> Any:
            addresses = [one for name in names for one in _addresses(values[name])]
            with_samples = samples is not None and samples(values)
            with Seals(addresses, samples=with_samples, figures=figures, verify=not no_verify, optional=True) as seals:
                more = {"seals": seals} if as_seals else {}
                seals.code = command(*arguments, **values, **more)
            return seals.code

        return called  # type: ignore[return-value]  # it takes --no-verify in addition

    return decorate


def _addresses(value: Any) -> "Iterator[Address]":
    from aiperf_core.results.address import Address

    if isinstance(value, Address):
        yield value
    elif isinstance(value, tuple):
        for one in value:
            yield from _addresses(one)


class Seals:
    """Check the seals of bundles, run a block that reads them, and report what does not hold.

    samples: whether the block reads samples.
    figures: whether the rows of a few targets are judged from their observations.
    verify: false says on standard error that nothing was checked.
    optional: whether the command has the option `--no-verify`.
    code: the exit code of the block. It becomes 3 if a seal does not hold, also for an error that the block raises.
    """

    def __init__(
        self,
        addresses: "Iterable[Address]",
        *,
        samples: bool = False,
        figures: bool = False,
        verify: bool = True,
        optional: bool = False,
    ) -> None:
        self.addresses = list(addresses)
        self.samples = samples
        self.figures = figures
        self.verify = verify
        self.optional = optional
        self.code: int | None = None
        self.found: list[SealCheck] = []
        self.unverified: list[str] = []
        self.reported = 0

    @property
    def broken(self) -> "list[SealCheck]":
        """The seals that do not hold."""
        return [one for one in self.found if not one.holds]

    def __enter__(self) -> "Seals":
        self.found = [one for one in self._checks(self.addresses) if one.told()]
        return self

    def add(self, addresses: "Iterable[Address]") -> None:
        """Check the seals of more bundles. Those without a seal are not reported: the user did not name them."""
        self.found += [one for one in self._checks(addresses) if not one.holds]

    def _checks(self, addresses: "Iterable[Address]") -> "Iterator[SealCheck]":
        """Check each bundle once, with the targets of all its addresses."""
        from aiperf_core.results.seal_check import check

        together: dict[Path, list[Address]] = {}
        for one in addresses:
            together.setdefault(one.bundle.path, []).append(one)
        if not self.verify:
            self.unverified += map(str, together)
            return
        for same in together.values():
            bundle = same[0].bundle
            targets = {name for one in same for name in one.matching}
            found = check(bundle, targets, samples=self.samples)
            yield self._judged(found, targets) if self.figures and found.holds else found

    @staticmethod
    def _judged(found: "SealCheck", targets: set[str]) -> "SealCheck":
        """Check of the seal with the rows of a few targets that their observations do not give."""
        from aiperf_core.stats.recheck import of_targets

        if len(targets) > JUDGED_TARGETS:
            return found
        return evolve(found, differences=of_targets(found.bundle, targets))

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        self.report(str(error))
        if not self.broken:
            return
        if isinstance(error, AiperfError):
            error.exit_code = ExitCode.INVALID
        if self.code != INTERRUPTED:
            self.code = ExitCode.INVALID

    def report(self, error: str = "") -> None:
        """Print what does not hold, now instead of at the end. An error that names a damaged file says enough."""
        from aiperf_core.names import words

        if self.unverified:
            paths = ", ".join(words(path) for path in self.unverified)
            click.echo(f"note: not verified (--no-verify), and perhaps changed: {paths}", err=True)
        for one in self.found[self.reported :]:
            if not any(difference.where in error for difference in one.differences):
                instead = "" if one.holds or not self.optional else ". To read it without this check: --no-verify"
                click.echo(f"{'note' if one.holds else 'aiperf'}: {one.told()}{instead}", err=True)
        self.unverified, self.reported = [], len(self.found)
