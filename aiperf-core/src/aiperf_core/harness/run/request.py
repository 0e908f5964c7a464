"""What a run was asked for, between the command's words and the bundle's record of them."""

from collections.abc import Iterable, Mapping, Sequence

from attrs import evolve, frozen

from aiperf_core.errors import UsageError
from aiperf_core.harness.run.options import Options
from aiperf_core.plugins import Plugins
from aiperf_core.results.models import Asked, AskedTarget
from aiperf_core.targets import Selection


@frozen
class RunRequest:
    """A run that can be begun again: its targets, its options, and those of single targets."""

    selections: list[Selection]
    options: Options
    each: dict[str, Options]


def record(selections: Sequence[Selection], options: Options, each: Mapping[str, Options]) -> Asked | None:
    """What is written down of a run. None for one with options beyond those of `aiperf run`, which nobody could repeat."""
    targets = []
    for one in selections:
        own = each.get(one.target.name, options)
        names = sorted(one.implementations)
        targets.append(AskedTarget(one.target.name, names, own.device, own.size, dict(own.params), own.executor))
    asked = Asked(targets, options.tier, options.policy, options.budget_s, options.timeout_s)
    return asked if _common(asked) == evolve(options, device=None, executor=None, size=None, params={}) else None


def recall(asked: Asked, plugins: Plugins) -> RunRequest:
    """Find again what was asked for. Raises `UsageError` for a target that is no longer installed."""
    common = _common(asked)
    selections, each = [], {}
    for one in asked.targets:
        selections.append(selection_of(plugins, one.target, one.implementations))
        each[one.target] = evolve(common, device=one.device, executor=one.executor, size=one.size, params=one.params)
    return RunRequest(selections, common, each)


def selection_of(plugins: Plugins, target: str, implementations: Iterable[str]) -> Selection:
    """The target of exactly this name, with these implementations. Raises `UsageError` where it is not installed."""
    found = {one.target.name: one for one in plugins.select((target,))}
    if target not in found:
        raise UsageError(f"{target!r} is not the name of a target. See them all: aiperf list")
    return evolve(found[target], implementations=frozenset(implementations))


def _common(asked: Asked) -> Options:
    return Options(tier=asked.tier, policy=asked.policy, budget_s=asked.budget_s, timeout_s=asked.timeout_s)
