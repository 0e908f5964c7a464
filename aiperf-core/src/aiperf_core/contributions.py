"""What plugins contribute: a line of `CONTRIBUTIONS` for each hook that returns records, and the records as installed.

A new hook of this kind is its spec in `hookspecs.py`, a line here, a field of `Plugins`, and its section in `docs/hooks.md`.
"""

from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

from attrs import field, frozen

from aiperf_core.commands import Command
from aiperf_core.devices.device import Device
from aiperf_core.distributions import Origin
from aiperf_core.executor import Executor
from aiperf_core.profiler import MetricSet, Profiler
from aiperf_core.targets import InstalledTarget, Target, is_group
from aiperf_core.validity.cases import Case, Recorded
from aiperf_core.validity.check import Check
from aiperf_core.validity.issues import Issue
from aiperf_core.validity.registry import GUARDS

Record = TypeVar("Record")


@frozen
class Installed(Generic[Record]):
    """A record as the loaded plugins offer it, with where it comes from."""

    record: Record
    distribution: str
    version: str


class Rejected(Exception):
    """A plugin broke the contract; the message is the reason."""


@frozen(kw_only=True)
class Contribution:
    """The records that a hook returns, and how they are told apart.

    hook: its name; without `aiperf_` it is the field of `Plugins` and the word in a count. kind: the class of its records.
    installed: makes what `Plugins` holds of a record and the plugin's origin. key: what no two plugins may both have, of
    what was installed. words: how a message calls one. several: whether one plugin may have a key more than once. taken: the
    keys that the core has without the hook.
    """

    hook: str
    kind: type[Any]
    installed: Callable[[Any, Origin], Any]
    key: Callable[[Any], Hashable]
    words: Callable[[Any], str]
    several: bool = False
    taken: frozenset[str] = field(default=frozenset())

    @property
    def name(self) -> str:
        """The hook's name without its prefix, such as `targets`."""
        return self.hook.removeprefix("aiperf_")


def _with_origin(record: Any, origin: Origin) -> Installed[Any]:
    """A record beside the name and version of its distribution."""
    return Installed(record, origin.distribution, origin.version)


def _installed_target(target: Target, origin: Origin) -> InstalledTarget:
    """Complete a plugin's target with its group, its module and where it comes from."""
    if not is_group(origin.entry_point):
        raise Rejected(
            f"its entry point {origin.entry_point!r} cannot name a group of targets: "
            "letters, digits, '-' and '_' can, such as 'ch07'"
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
    )


def _by_name(hook: str, kind: type[Any], word: str) -> Contribution:
    """Records that are told apart by their `name`, and called by `word`."""
    return Contribution(
        hook=hook,
        kind=kind,
        installed=_with_origin,
        key=lambda one: one.record.name,
        words=lambda one: f"{word} '{one.record.name}'",
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
    ),
    Contribution(
        hook="aiperf_checks",
        kind=Check,
        installed=_with_origin,
        key=lambda one: one.record.guard,
        words=lambda one: f"guard '{one.record.guard}'",
        several=True,
        taken=frozenset(guard.name for guard in GUARDS),
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
)
