"""The hooks that return records: `CONTRIBUTIONS` has an entry for each.

A new hook needs its spec in `hookspecs.py`, an entry here, a field of `Plugins`, and its section in `docs/hooks.md`.
"""

from collections.abc import Callable, Hashable, Sequence
from types import MappingProxyType
from typing import Any, Generic, TypeVar

from attrs import field, frozen

from aiperf_core.analysis import Analysis
from aiperf_core.candidate_format import Format
from aiperf_core.commands import Command
from aiperf_core.devices.device import Device
from aiperf_core.distributions import Origin
from aiperf_core.document_kind import DocumentKind
from aiperf_core.document_schema import DocumentSchema
from aiperf_core.executor import Executor
from aiperf_core.fleet import Fleet
from aiperf_core.profiler import MetricSet, Profiler
from aiperf_core.targets import InstalledTarget, Target, is_group
from aiperf_core.validity.cases import Case, Recorded
from aiperf_core.validity.check import Check
from aiperf_core.validity.issues import Issue
from aiperf_core.validity.registry import guards

Record = TypeVar("Record")


@frozen
class Installed(Generic[Record]):
    """A record of a loaded plugin, with its distribution."""

    record: Record
    distribution: str
    version: str


class Rejected(Exception):
    """A plugin broke the contract; the message is the reason."""


@frozen(kw_only=True)
class Contribution:
    """A hook that returns records.

    hook: its name. Without the prefix `aiperf_` it is the field of `Plugins`.
    kind: the class of its records.
    installed: makes the entry of `Plugins` from a record and the plugin's origin.
    key: the key of an entry; no two plugins may have the same key.
    words: the name of an entry in messages.
    mapped: whether `Plugins` holds the entries as a mapping by key, not as a tuple.
    several: whether one plugin may use a key more than once.
    taken: keys of the core that no hook contributes.
    """

    hook: str
    kind: type[Any]
    installed: Callable[[Any, Origin], Any]
    key: Callable[[Any], Hashable]
    words: Callable[[Any], str]
    mapped: bool = False
    several: bool = False
    taken: frozenset[str] = field(default=frozenset())

    @property
    def name(self) -> str:
        """The hook's name without its prefix, such as `targets`."""
        return self.hook.removeprefix("aiperf_")

    def held(self, entries: Sequence[Any]) -> Any:
        """The entries in the form in which `Plugins` holds them."""
        return MappingProxyType({self.key(one): one for one in entries}) if self.mapped else tuple(entries)


def _with_origin(record: Any, origin: Origin) -> Installed[Any]:
    """A record with the name and version of its distribution."""
    return Installed(record, origin.distribution, origin.version)


def _installed_target(target: Target, origin: Origin) -> InstalledTarget:
    """A plugin's target with its group, module and distribution."""
    if not is_group(origin.entry_point):
        raise Rejected(
            f"its entry point {origin.entry_point!r} cannot name a group of targets: "
            "use letters, digits, '-' and '_', such as 'ch07'"
        )
    if not target.module and not origin.package:
        raise Rejected(f"target {target.name!r} needs module=…, since {origin.module!r} is in no package")
    return InstalledTarget(
        name=f"{origin.entry_point}.{target.name}",
        module=target.module or f"{origin.package}.{target.name}",
        summary=target.summary,
        goal=target.goal,
        devices=target.devices,
        tags=target.tags,
        distribution=origin.distribution,
        version=origin.version,
        formerly=tuple(name if "." in name else f"{origin.entry_point}.{name}" for name in target.formerly),
    )


def _by_name(hook: str, kind: type[Any], word: str) -> Contribution:
    """A hook whose records have their `name` as key; messages call a record `word`."""
    return Contribution(
        hook=hook,
        kind=kind,
        installed=_with_origin,
        key=lambda one: one.record.name,
        words=lambda one: f"{word} '{one.record.name}'",
        mapped=True,
    )


CONTRIBUTIONS = (
    Contribution(
        hook="aiperf_targets",
        kind=Target,
        installed=_installed_target,
        key=lambda one: one.name,
        words=lambda one: f"target '{one.name}'",
    ),
    _by_name("aiperf_commands", Command, "command"),
    Contribution(
        hook="aiperf_issues",
        kind=Issue,
        installed=_with_origin,
        key=lambda one: one.record.id,
        words=lambda one: f"validity issue '{one.record.id}'",
        mapped=True,
    ),
    Contribution(
        hook="aiperf_checks",
        kind=Check,
        installed=_with_origin,
        key=lambda one: one.record.guard,
        words=lambda one: f"guard '{one.record.guard}'",
        several=True,
        taken=frozenset(guard.name for guard in guards()),
    ),
    Contribution(
        hook="aiperf_attacks",
        kind=Case,
        installed=_with_origin,
        key=lambda one: (one.record.issue, one.record.module, one.record.implementation, one.record.device),
        words=lambda one: (
            f"'{one.record.module}:{one.record.implementation}' for '{one.record.issue}' on {one.record.device}"
        ),
    ),
    Contribution(
        hook="aiperf_recordings",
        kind=Recorded,
        installed=_with_origin,
        key=lambda one: one.record.file,
        words=lambda one: f"recording '{one.record.file}'",
    ),
    _by_name("aiperf_profilers", Profiler, "profiler"),
    _by_name("aiperf_metrics", MetricSet, "metric set"),
    _by_name("aiperf_devices", Device, "device"),
    _by_name("aiperf_executors", Executor, "executor"),
    _by_name("aiperf_formats", Format, "format"),
    _by_name("aiperf_analyses", Analysis, "analysis"),
    _by_name("aiperf_documents", DocumentKind, "document kind"),
    _by_name("aiperf_schemas", DocumentSchema, "schema"),
    _by_name("aiperf_fleets", Fleet, "fleet"),
)
