"""What plugins contribute: a line of `CONTRIBUTIONS` for each hook that returns records, and the records as installed.

A new hook of this kind is its spec in `hookspecs.py`, a line here, a field of `Plugins`, and its section in `docs/hooks.md`.
"""

from collections.abc import Callable, Hashable
from typing import Any

from attrs import field, frozen

from aiperf_core.commands import Command
from aiperf_core.devices.device import Device
from aiperf_core.distributions import Origin
from aiperf_core.executors.executor import Executor
from aiperf_core.profiling.profiler import MetricSet, Profiler
from aiperf_core.redteam.cases import Case
from aiperf_core.targets import InstalledTarget, Target, is_group
from aiperf_core.validity.check import Check
from aiperf_core.validity.issues import Issue
from aiperf_core.validity.registry import GUARDS


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


@frozen
class InstalledProfiler:
    """A profiler as the loaded plugins offer it, with where it comes from."""

    profiler: Profiler
    distribution: str
    version: str


@frozen
class InstalledMetrics:
    """A set of metrics as the loaded plugins offer it, with where it comes from."""

    metrics: MetricSet
    distribution: str
    version: str


@frozen
class InstalledDevice:
    """A kind of device as the loaded plugins offer it, with where it comes from."""

    device: Device
    distribution: str
    version: str


@frozen
class InstalledExecutor:
    """A way to start workers as the loaded plugins offer it, with where it comes from."""

    executor: Executor
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


def _with_origin(installed: Callable[[Any, str, str], Any]) -> Callable[[Any, Origin], Any]:
    """Put a record beside the name and version of its distribution."""
    return lambda record, origin: installed(record, origin.distribution, origin.version)


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


CONTRIBUTIONS = (
    Contribution(
        hook="aiperf_targets",
        kind=Target,
        installed=_installed_target,
        key=lambda one: one.name,
        words=lambda one: f"target '{one.name}'",
    ),
    Contribution(
        hook="aiperf_commands",
        kind=Command,
        installed=_with_origin(InstalledCommand),
        key=lambda one: one.command.name,
        words=lambda one: f"command '{one.command.name}'",
    ),
    Contribution(
        hook="aiperf_issues",
        kind=Issue,
        installed=_with_origin(InstalledIssue),
        key=lambda one: one.issue.id,
        words=lambda one: f"validity issue '{one.issue.id}'",
    ),
    Contribution(
        hook="aiperf_checks",
        kind=Check,
        installed=_with_origin(InstalledCheck),
        key=lambda one: one.check.guard,
        words=lambda one: f"guard '{one.check.guard}'",
        several=True,
        taken=frozenset(guard.name for guard in GUARDS),
    ),
    Contribution(
        hook="aiperf_attacks",
        kind=Case,
        installed=_with_origin(InstalledAttack),
        key=lambda one: (one.case.issue, one.case.module, one.case.implementation, one.case.device),
        words=lambda one: f"'{one.case.module}:{one.case.implementation}' for '{one.case.issue}' on {one.case.device}",
    ),
    Contribution(
        hook="aiperf_profilers",
        kind=Profiler,
        installed=_with_origin(InstalledProfiler),
        key=lambda one: one.profiler.name,
        words=lambda one: f"profiler '{one.profiler.name}'",
    ),
    Contribution(
        hook="aiperf_metrics",
        kind=MetricSet,
        installed=_with_origin(InstalledMetrics),
        key=lambda one: one.metrics.name,
        words=lambda one: f"metric set '{one.metrics.name}'",
    ),
    Contribution(
        hook="aiperf_devices",
        kind=Device,
        installed=_with_origin(InstalledDevice),
        key=lambda one: one.device.name,
        words=lambda one: f"device '{one.device.name}'",
    ),
    Contribution(
        hook="aiperf_executors",
        kind=Executor,
        installed=_with_origin(InstalledExecutor),
        key=lambda one: one.executor.name,
        words=lambda one: f"executor '{one.executor.name}'",
    ),
)
