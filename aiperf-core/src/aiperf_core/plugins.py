"""Loads the installed plugins. A broken plugin is skipped, and all other plugins work.

A plugin is an entry point in the group `aiperf_core`. Messages name its distribution, which a user can install and
remove; the name of the entry point is the group of its targets.

This module keeps no state besides the `Plugins` that `load_plugins` returns, and imports neither torch, triton nor
numpy.
"""

import os
import sys
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from inspect import isfunction
from io import StringIO
from itertools import islice
from types import MappingProxyType
from typing import Any, NoReturn

from attrs import field, frozen

from aiperf_core import hookspecs
from aiperf_core.analysis import Analysis
from aiperf_core.candidate_format import Format
from aiperf_core.commands import Command
from aiperf_core.compatibility import unmet
from aiperf_core.contributions import CONTRIBUTIONS, Contribution, Installed, Rejected
from aiperf_core.devices.device import Device
from aiperf_core.distributions import Origin, SetAside, installed_origins
from aiperf_core.document_kind import DocumentKind
from aiperf_core.document_schema import DocumentSchema
from aiperf_core.errors import UsageError
from aiperf_core.executor import Executor
from aiperf_core.fleet import Fleet
from aiperf_core.observers import HOOKS, Observers, describe, new_manager
from aiperf_core.profiler import MetricSet, Profiler
from aiperf_core.targets import NO_FILTER, InstalledTarget, Selection, TargetFilter, UnknownTarget, select
from aiperf_core.validity.cases import Case, Recorded
from aiperf_core.validity.check import Check
from aiperf_core.validity.issues import Issue
from aiperf_core.version import __version__

# A bound for generators that never end.
MAX_RECORDS = 10_000

# Modules that slow the start of every command.
HEAVY = frozenset({"numpy", "torch", "triton"})

# Every command waits for plugins: a plugin that loads longer is named. Typical are a few milliseconds.
SLOW_SECONDS = 0.2


@frozen(kw_only=True)
class LoadedPlugin:
    """A plugin that works.

    contributes: the number of records by hook, without the prefix `aiperf_`.
    hooks: the hooks that it implements.
    notes: rules that it broke, as messages.
    seconds: the time of loading, without waiting for a processor.
    """

    distribution: str
    version: str
    entry_point: str
    contributes: Mapping[str, int]
    hooks: tuple[str, ...]
    notes: tuple[str, ...] = ()
    seconds: float = field(default=0.0, eq=False)


@frozen(kw_only=True)
class Plugins:
    """The loaded plugins and their records. `set_aside` are the skipped plugins, also failed observers."""

    targets: tuple[InstalledTarget, ...] = ()
    commands: Mapping[str, Installed[Command]] = field(factory=dict)
    issues: Mapping[str, Installed[Issue]] = field(factory=dict)
    checks: tuple[Installed[Check], ...] = ()
    attacks: tuple[Installed[Case], ...] = ()
    recordings: tuple[Installed[Recorded], ...] = ()
    profilers: Mapping[str, Installed[Profiler]] = field(factory=dict)
    metrics: Mapping[str, Installed[MetricSet]] = field(factory=dict)
    devices: Mapping[str, Installed[Device]] = field(factory=dict)
    executors: Mapping[str, Installed[Executor]] = field(factory=dict)
    formats: Mapping[str, Installed[Format]] = field(factory=dict)
    analyses: Mapping[str, Installed[Analysis]] = field(factory=dict)
    documents: Mapping[str, Installed[DocumentKind]] = field(factory=dict)
    schemas: Mapping[str, Installed[DocumentSchema]] = field(factory=dict)
    fleets: Mapping[str, Installed[Fleet]] = field(factory=dict)
    loaded: tuple[LoadedPlugin, ...] = ()
    set_aside: list[SetAside] = field(factory=list)
    hook: Observers = field(factory=lambda: Observers(new_manager(), {}, []))

    @property
    def known_devices(self) -> dict[str, Device]:
        """Devices by name."""
        return {name: one.record for name, one in self.devices.items()}

    @property
    def known_executors(self) -> dict[str, Executor]:
        """Executors by name."""
        return {name: one.record for name, one in self.executors.items()}

    @property
    def known_documents(self) -> dict[str, DocumentKind]:
        """Kinds of documents with their readers, by name."""
        return {name: one.record for name, one in self.documents.items()}

    @property
    def known_fleets(self) -> dict[str, Fleet]:
        """Engines for several machines by name."""
        return {name: one.record for name, one in self.fleets.items()}

    @property
    def known_formats(self) -> dict[str, Format]:
        """Formats of candidates by name."""
        return {name: one.record for name, one in self.formats.items()}

    def select(self, patterns: Iterable[str], only: TargetFilter = NO_FILTER) -> tuple[Selection, ...]:
        """Choose targets by patterns (see `aiperf_core.targets`), in the order of the patterns.

        only: keeps some of them. Raises `UsageError` for a pattern without a match, with the reason if its plugin was
        skipped.
        """
        try:
            return select(patterns, self.targets, only)
        except UnknownTarget as unknown:
            group = unknown.name.partition(".")[0]
            for skipped in self.set_aside:
                if skipped.entry_point == group:
                    raise UsageError(f"{unknown.name!r} is not a target: {skipped}") from None
            raise


def load_plugins(
    path: Sequence[str] | None = None,
    *,
    without: Mapping[tuple[str, str], str] = MappingProxyType({}),
    before: Callable[[Origin], None] = lambda origin: None,
) -> Plugins:
    """Load the built-in plugin, and the plugins of the distributions on `path` (default: `sys.path`).

    without: distribution and entry point of plugins to skip without an import, each with the reason.
    before: called before the import of each plugin.

    Never raises because of a plugin: see `Plugins.set_aside`. A `KeyboardInterrupt` names the plugin that was being
    loaded.
    """
    loader = _Loader()
    loader.load(Origin("aiperf-core", __version__, "builtin", "aiperf_core.builtin", _builtin))
    origins, unreadable = installed_origins(hookspecs.PROJECT, path)
    loader.set_aside.extend(unreadable)
    for origin in origins:
        if (origin.distribution, origin.entry_point) in without:
            loader.set_aside.append(origin.set_aside(without[origin.distribution, origin.entry_point]))
            continue
        before(origin)
        loader.load(origin)
    return loader.plugins()


def _builtin() -> object:
    from aiperf_core import builtin

    return builtin


@contextmanager
def _blaming(what: str) -> Iterator[None]:
    """Turn any exception of a plugin, also `SystemExit`, into `Rejected`."""
    try:
        yield
    except (KeyboardInterrupt, Rejected):
        raise
    except BaseException as error:
        raise Rejected(f"{what} raised {describe(error)}") from error


@contextmanager
def _exit_refused() -> Iterator[None]:
    """Make `os._exit` raise `SystemExit` while a plugin is loaded, so that the plugin can be named."""
    exit_now, here, loading = os._exit, os.getpid(), True

    def refuse(status: int) -> NoReturn:
        # Not in a process that the plugin forks, and not in later calls of a stored reference.
        if loading and os.getpid() == here:
            raise SystemExit(f"os._exit({status})")
        exit_now(status)

    os._exit = refuse
    try:
        yield
    finally:
        os._exit, loading = exit_now, False


class _Loader:
    """Loads plugins one by one. A plugin is loaded completely or not at all."""

    def __init__(self) -> None:
        self.manager = new_manager()
        self.origins: dict[str, Origin] = {}
        self.installed: dict[str, list[Any]] = {one.name: [] for one in CONTRIBUTIONS}
        # The provider of each key of each contribution.
        self.owners: dict[tuple[str, Hashable], str] = {
            (one.name, key): f"aiperf-core {__version__}" for one in CONTRIBUTIONS for key in one.taken
        }
        self.loaded: list[LoadedPlugin] = []
        self.set_aside: list[SetAside] = []

    def plugins(self) -> Plugins:
        """Everything that was loaded."""
        return Plugins(
            **{one.name: one.held(self.installed[one.name]) for one in CONTRIBUTIONS},
            loaded=tuple(self.loaded),
            set_aside=self.set_aside,
            hook=Observers(self.manager, self.origins, self.set_aside),
        )

    def load(self, origin: Origin) -> None:
        """Load one plugin or skip it."""
        if requirement := unmet(origin.requires, __version__):
            reason = f"it needs {requirement}, and this is aiperf-core {__version__}. Update both."
            self.set_aside.append(origin.set_aside(reason))
            return
        name = f"{origin.distribution}:{origin.entry_point}"
        printed = StringIO()
        imported_before = set(sys.modules)
        began = _own_seconds()
        try:
            # Output of a plugin would corrupt that of `aiperf list --json`.
            with redirect_stdout(printed), redirect_stderr(printed), _exit_refused():
                with _blaming("its import"):
                    plugin = origin.load()
                hooks = self._register(plugin, name)
                found = {one.name: self._contributed(one, origin, name) for one in CONTRIBUTIONS}
        except Rejected as rejected:
            if self.manager.has_plugin(name):
                self.manager.unregister(name=name)
            # A skipped plugin also slows every command.
            cost = _cost(imported_before, began)[1]
            self.set_aside.append(origin.set_aside("; ".join([str(rejected), *cost])))
            return
        except KeyboardInterrupt as interrupt:
            raise KeyboardInterrupt(f"while plugin {origin} was loaded") from interrupt
        seconds, cost = _cost(imported_before, began)
        self.origins[name] = origin
        for one in CONTRIBUTIONS:
            self.owners |= {(one.name, one.key(record)): str(origin) for record in found[one.name]}
            self.installed[one.name] += found[one.name]
        self.loaded.append(
            LoadedPlugin(
                distribution=origin.distribution,
                version=origin.version,
                entry_point=origin.entry_point,
                contributes={name: len(records) for name, records in found.items()},
                hooks=hooks,
                notes=(*_output(printed.getvalue().strip()), *cost),
                seconds=seconds,
            )
        )

    def _register(self, plugin: object, name: str) -> tuple[str, ...]:
        """Register a plugin and return the hooks that it implements. Raises `Rejected` if it breaks the contract."""
        for other in self.origins:
            if self.manager.get_plugin(other) is plugin:
                raise Rejected(f"its module is already loaded as a plugin of {self.origins[other]}")
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
                raise Rejected(_unknown_hook(hook))
            if implementation.wrapper or implementation.hookwrapper:
                raise Rejected(f"'{hook}' is a hook wrapper, and wrappers are not accepted")
        self.manager.check_pending()
        return tuple(hook for hook in HOOKS if hook in implementations)

    def _contributed(self, contribution: Contribution, origin: Origin, name: str) -> list[Any]:
        """The records of one kind of one plugin. Raises `Rejected` for a record that is already provided."""
        found: dict[Hashable, list[Any]] = {}
        for record in self._collect(name, contribution.hook, contribution.kind):
            one = contribution.installed(record, origin)
            key, what = contribution.key(one), contribution.words(one)
            if key in found and not contribution.several:
                raise Rejected(f"it lists {what} twice")
            if provider := self.owners.get((contribution.name, key)):
                raise Rejected(f"{what} is already provided by {provider}")
            found.setdefault(key, []).append(one)
        return [one for records in found.values() for one in records]

    def _collect(self, name: str, hook: str, kind: type[Any]) -> list[Any]:
        """Call a contribution of one plugin and consume its records, since a generator raises only then."""
        records: list[Any] = []
        for implementation in getattr(self.manager.hook, hook).get_hookimpls():
            if implementation.plugin_name != name:
                continue
            with _blaming(f"'{hook}'"):
                returned = implementation.function()
                expected = f"expected an iterable of {kind.__name__}"
                if not isinstance(returned, Iterable):
                    raise Rejected(f"'{hook}' returned {type(returned).__name__}; {expected}")
                records = list(islice(returned, MAX_RECORDS + 1))
                if len(records) > MAX_RECORDS:
                    raise Rejected(f"'{hook}' returned more than {MAX_RECORDS} records")
                for record in records:
                    if not isinstance(record, kind):
                        raise Rejected(f"'{hook}' returned {type(record).__name__} {record!r:.60}; {expected}")
        return records


def _reject_unmarked(plugin: object) -> None:
    """Reject unmarked functions with the name of a hook, which pluggy would ignore."""
    for name in [name for name in vars(plugin) if name.startswith("aiperf_")]:
        value = getattr(plugin, name)
        defined_here = getattr(value, "__module__", None) == getattr(plugin, "__name__", None)
        if isfunction(value) and defined_here and not hasattr(value, f"{hookspecs.PROJECT}_impl"):
            raise Rejected(f"'{name}' lacks @hookimpl" if name in HOOKS else _unknown_hook(name))


def _unknown_hook(name: str) -> str:
    return f"unknown hook '{name}'; known: " + ", ".join(f"'{hook}'" for hook in HOOKS)


def _own_seconds() -> float:
    """A clock that stops while this thread waits for a processor, if the system reports that."""
    try:
        with open("/proc/thread-self/schedstat") as file:
            waited = int(file.read().split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        waited = 0.0
    return time.perf_counter() - waited


def _output(printed: str) -> Iterator[str]:
    """A note on the output of a plugin."""
    if printed:
        much = f" {len(printed):,} characters" if len(printed) > 60 else ""
        yield f"printed{much} while it was loaded: {printed[:60]!r}"


def _cost(imported_before: set[str], began: float) -> tuple[float, list[str]]:
    """The seconds of loading a plugin, and notes on what slows every command."""
    seconds = max(0.0, _own_seconds() - began)
    heavy = HEAVY & (set(sys.modules) - imported_before)
    told = [f"imports {module}, which slows every command" for module in sorted(heavy)]
    if seconds > SLOW_SECONDS:
        told.append(f"takes {seconds:.1f} s to load, which slows every command; {SLOW_SECONDS} s is the limit")
    return seconds, told
