"""What the installed plugins contribute, gathered so that a broken plugin costs itself and nothing else.

A plugin is an entry point in the group `aiperf_core`. It is known by the name of its distribution, which is what a user
can install and remove; the entry point's name is the group of its targets. Each is imported and asked for its
contributions on its own, and everything that it may raise is caught.

Nothing here outlives the `Plugins` object that a call returns, and nothing here imports torch, triton or numpy.
"""

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from inspect import isfunction
from io import StringIO
from itertools import islice
from types import MappingProxyType
from typing import TypeVar

from attrs import field, frozen

from aiperf_core import __version__, hookspecs
from aiperf_core.commands import Command
from aiperf_core.distributions import Origin, SetAside, installed_origins
from aiperf_core.errors import UsageError
from aiperf_core.observers import HOOKS, Observers, describe, new_manager
from aiperf_core.redteam.cases import Case
from aiperf_core.targets import InstalledTarget, Selection, Target, UnknownTarget, is_group, select
from aiperf_core.validity.check import Check
from aiperf_core.validity.issues import Issue
from aiperf_core.validity.registry import GUARDS

# Enough for any honest plugin, and an end for one that yields without end.
MAX_RECORDS = 10_000

# Modules that cost every command its quick start.
HEAVY = frozenset({"numpy", "torch", "triton"})

Record = TypeVar("Record")


@frozen
class InstalledCommand:
    """A subcommand as the loaded plugins offer it, with where it comes from."""

    command: Command
    distribution: str
    version: str


@frozen
class InstalledIssue:
    """A validity issue as the loaded plugins offer it, with where it comes from."""

    issue: Issue
    distribution: str
    version: str


@frozen
class InstalledCheck:
    """A check as the loaded plugins offer it, with where it comes from."""

    check: Check
    distribution: str
    version: str


@frozen
class InstalledAttack:
    """An attack or a look-alike as the loaded plugins offer it, with where it comes from."""

    case: Case
    distribution: str
    version: str


@frozen(kw_only=True)
class LoadedPlugin:
    """A plugin that works: how much it contributes, the hooks that it implements, and what it should not have done."""

    distribution: str
    version: str
    entry_point: str
    targets: int
    commands: int
    issues: int
    checks: int
    attacks: int
    hooks: tuple[str, ...]
    notes: tuple[str, ...] = ()


@frozen(kw_only=True)
class Plugins:
    """What is installed. Made by `load_plugins`; `set_aside` grows when an observer fails during a run."""

    targets: tuple[InstalledTarget, ...] = ()
    commands: Mapping[str, InstalledCommand] = field(factory=dict)
    issues: Mapping[str, InstalledIssue] = field(factory=dict)
    checks: tuple[InstalledCheck, ...] = ()
    attacks: tuple[InstalledAttack, ...] = ()
    loaded: tuple[LoadedPlugin, ...] = ()
    set_aside: list[SetAside] = field(factory=list)
    hook: Observers = field(factory=lambda: Observers(new_manager(), {}, []))

    def select(self, patterns: Iterable[str]) -> tuple[Selection, ...]:
        """Choose targets by the patterns of `aiperf_core.targets`, in their order; no pattern chooses none.

        Raises `UsageError` for a pattern that reaches nothing, with the reason when its plugin was set aside.
        """
        try:
            return select(patterns, self.targets)
        except UnknownTarget as unknown:
            group = unknown.name.partition(".")[0]
            for skipped in self.set_aside:
                if skipped.entry_point == group:
                    raise UsageError(f"{unknown.name!r} is not a target: {skipped}") from None
            raise


def load_plugins(path: Sequence[str] | None = None) -> Plugins:
    """Load the built-in plugin and those of the distributions on `path`, which is `sys.path` unless given.

    Never raises for what a plugin does: see `Plugins.set_aside`. `KeyboardInterrupt` passes.
    """
    loader = _Loader()
    loader.load(Origin("aiperf-core", __version__, "builtin", "aiperf_core.builtin", _builtin))
    origins, unreadable = installed_origins(hookspecs.PROJECT, path)
    loader.set_aside.extend(unreadable)
    for origin in origins:
        loader.load(origin)
    return loader.plugins()


def _builtin() -> object:
    from aiperf_core import builtin

    return builtin


class _Rejected(Exception):
    """A plugin broke the contract; the message is the reason."""


@contextmanager
def _blaming(what: str) -> Iterator[None]:
    """Turn whatever a plugin raises, an attempt to exit included, into the reason to set it aside."""
    try:
        yield
    except (KeyboardInterrupt, _Rejected):
        raise
    except BaseException as error:
        raise _Rejected(f"{what} raised {describe(error)}") from error


class _Loader:
    """Takes plugins in one by one, each wholly or not at all: what is listed is never half of what was meant."""

    def __init__(self) -> None:
        self.manager = new_manager()
        self.origins: dict[str, Origin] = {}
        self.targets: dict[str, InstalledTarget] = {}
        self.commands: dict[str, InstalledCommand] = {}
        self.issues: dict[str, InstalledIssue] = {}
        self.checks: list[InstalledCheck] = []
        self.attacks: dict[tuple[str, ...], InstalledAttack] = {}
        self.loaded: list[LoadedPlugin] = []
        self.set_aside: list[SetAside] = []

    def plugins(self) -> Plugins:
        """Return everything that was taken in."""
        return Plugins(
            targets=tuple(self.targets.values()),
            commands=MappingProxyType(self.commands),
            issues=MappingProxyType(self.issues),
            checks=tuple(self.checks),
            attacks=tuple(self.attacks.values()),
            loaded=tuple(self.loaded),
            set_aside=self.set_aside,
            hook=Observers(self.manager, self.origins, self.set_aside),
        )

    def load(self, origin: Origin) -> None:
        """Take in one plugin or set it aside."""
        name = f"{origin.distribution}:{origin.entry_point}"
        printed = StringIO()
        imported_before = set(sys.modules)
        try:
            # What a plugin prints would spoil the output of `aiperf list --json`.
            with redirect_stdout(printed):
                with _blaming("its import"):
                    plugin = origin.load()
                hooks = self._register(plugin, name)
                targets = self._targets(origin, name)
                commands = self._commands(origin, name)
                issues = self._issues(origin, name)
                checks = self._checks(origin, name)
                attacks = self._attacks(origin, name)
        except _Rejected as rejected:
            if self.manager.has_plugin(name):
                self.manager.unregister(name=name)
            self.set_aside.append(origin.set_aside(str(rejected)))
            return
        self.origins[name] = origin
        self.targets |= targets
        self.commands |= commands
        self.issues |= issues
        self.checks += checks
        self.attacks |= attacks
        self.loaded.append(
            LoadedPlugin(
                distribution=origin.distribution,
                version=origin.version,
                entry_point=origin.entry_point,
                targets=len(targets),
                commands=len(commands),
                issues=len(issues),
                checks=len(checks),
                attacks=len(attacks),
                hooks=hooks,
                notes=_notes(printed.getvalue(), HEAVY & (set(sys.modules) - imported_before)),
            )
        )

    def _register(self, plugin: object, name: str) -> tuple[str, ...]:
        """Register a plugin and return the hooks that it implements; reject one that the specs do not allow."""
        for other in self.origins:
            if self.manager.get_plugin(other) is plugin:
                raise _Rejected(f"its module is already loaded as a plugin of {self.origins[other]}")
        with _blaming("its registration"):
            _reject_unmarked(plugin)
            self.manager.register(plugin, name)
        implementations = {
            caller.name: implementation
            for caller in self.manager.get_hookcallers(plugin) or ()
            for implementation in caller.get_hookimpls()
            if implementation.plugin_name == name
        }
        for hook, implementation in implementations.items():
            if hook not in HOOKS and not implementation.optionalhook:
                raise _Rejected(_unknown_hook(hook))
            if implementation.wrapper or implementation.hookwrapper:
                raise _Rejected(f"'{hook}' is a hook wrapper, and wrappers are not accepted")
        self.manager.check_pending()
        return tuple(hook for hook in HOOKS if hook in implementations)

    def _targets(self, origin: Origin, name: str) -> dict[str, InstalledTarget]:
        found: dict[str, InstalledTarget] = {}
        for target in self._collect(name, "aiperf_targets", Target):
            installed = _installed(target, origin)
            if installed.name in found:
                raise _Rejected(f"it lists target '{installed.name}' twice")
            if first := self.targets.get(installed.name):
                provider = f"{first.distribution} {first.version}"
                raise _Rejected(f"target '{installed.name}' is already provided by {provider}")
            found[installed.name] = installed
        return found

    def _commands(self, origin: Origin, name: str) -> dict[str, InstalledCommand]:
        found: dict[str, InstalledCommand] = {}
        for command in self._collect(name, "aiperf_commands", Command):
            if command.name in found:
                raise _Rejected(f"it lists command '{command.name}' twice")
            if first := self.commands.get(command.name):
                provider = f"{first.distribution} {first.version}"
                raise _Rejected(f"command '{command.name}' is already provided by {provider}")
            found[command.name] = InstalledCommand(command, origin.distribution, origin.version)
        return found

    def _issues(self, origin: Origin, name: str) -> dict[str, InstalledIssue]:
        found: dict[str, InstalledIssue] = {}
        for issue in self._collect(name, "aiperf_issues", Issue):
            if issue.id in found:
                raise _Rejected(f"it lists validity issue '{issue.id}' twice")
            if first := self.issues.get(issue.id):
                provider = f"{first.distribution} {first.version}"
                raise _Rejected(f"validity issue '{issue.id}' is already provided by {provider}")
            found[issue.id] = InstalledIssue(issue, origin.distribution, origin.version)
        return found

    def _checks(self, origin: Origin, name: str) -> list[InstalledCheck]:
        found: list[InstalledCheck] = []
        for check in self._collect(name, "aiperf_checks", Check):
            if check.guard in {one.name for one in GUARDS}:
                raise _Rejected(f"guard '{check.guard}' is already provided by aiperf-core {__version__}")
            for first in self.checks:
                if first.check.guard == check.guard:
                    provider = f"{first.distribution} {first.version}"
                    raise _Rejected(f"guard '{check.guard}' is already provided by {provider}")
            found.append(InstalledCheck(check, origin.distribution, origin.version))
        return found

    def _attacks(self, origin: Origin, name: str) -> dict[tuple[str, ...], InstalledAttack]:
        found: dict[tuple[str, ...], InstalledAttack] = {}
        for case in self._collect(name, "aiperf_attacks", Case):
            key = case.issue, case.module, case.implementation, case.device
            what = f"'{case.module}:{case.implementation}' for '{case.issue}' on {case.device}"
            if key in found:
                raise _Rejected(f"it lists {what} twice")
            if first := self.attacks.get(key):
                provider = f"{first.distribution} {first.version}"
                raise _Rejected(f"{what} is already provided by {provider}")
            found[key] = InstalledAttack(case, origin.distribution, origin.version)
        return found

    def _collect(self, name: str, hook: str, kind: type[Record]) -> list[Record]:
        """Call a contribution of one plugin and return its records, consumed here because a generator raises only then."""
        records: list[Record] = []
        for implementation in getattr(self.manager.hook, hook).get_hookimpls():
            if implementation.plugin_name != name:
                continue
            with _blaming(f"'{hook}'"):
                returned = implementation.function()
                expected = f"expected an iterable of {kind.__name__}"
                if not isinstance(returned, Iterable):
                    raise _Rejected(f"'{hook}' returned {type(returned).__name__}; {expected}")
                records = list(islice(returned, MAX_RECORDS + 1))
                if len(records) > MAX_RECORDS:
                    raise _Rejected(f"'{hook}' returned more than {MAX_RECORDS} records")
                for record in records:
                    if not isinstance(record, kind):
                        raise _Rejected(f"'{hook}' returned {type(record).__name__} {record!r:.60}; {expected}")
        return records


def _installed(target: Target, origin: Origin) -> InstalledTarget:
    """Complete a plugin's target with its group, its module and where it comes from."""
    if not is_group(origin.entry_point):
        raise _Rejected(
            f"its entry point {origin.entry_point!r} cannot name a group of targets: "
            "letters, digits, '-' and '_' can, such as 'ch07'"
        )
    if not target.module and not origin.package:
        raise _Rejected(f"target {target.name!r} needs module=…, since {origin.module!r} is in no package")
    return InstalledTarget(
        name=f"{origin.entry_point}.{target.name}",
        module=target.module or f"{origin.package}.{target.name}",
        summary=target.summary,
        goal=target.goal,
        devices=target.devices,
        tags=target.tags,
        distribution=origin.distribution,
        version=origin.version,
    )


def _reject_unmarked(plugin: object) -> None:
    """Reject functions that look like hooks but are not marked: pluggy would pass them over in silence."""
    for name in [name for name in vars(plugin) if name.startswith("aiperf_")]:
        value = getattr(plugin, name)
        defined_here = getattr(value, "__module__", None) == getattr(plugin, "__name__", None)
        if isfunction(value) and defined_here and not hasattr(value, f"{hookspecs.PROJECT}_impl"):
            raise _Rejected(f"'{name}' lacks @hookimpl" if name in HOOKS else _unknown_hook(name))


def _unknown_hook(name: str) -> str:
    return f"unknown hook '{name}'; known: " + ", ".join(f"'{hook}'" for hook in HOOKS)


def _notes(printed: str, heavy: Iterable[str]) -> tuple[str, ...]:
    """Say what a plugin did that it should not have done, though it works."""
    notes = [f"printed while it was loaded: {printed.strip()[:60]!r}"] if printed.strip() else []
    return (*notes, *(f"imports {module}, which slows every command" for module in sorted(heavy)))
