"""A run's request: the record of it in a bundle, and the targets and options that it stands for on this machine."""

from collections.abc import Iterable, Mapping, Sequence

from attrs import evolve, field, frozen

from aiperf_core.errors import UsageError
from aiperf_core.harness.run.options import Options
from aiperf_core.plugins import Plugins
from aiperf_core.results.models import RequestedTarget, RunRequest
from aiperf_core.results.run_options import values_of
from aiperf_core.sweep import split_point
from aiperf_core.targets import Selection


@frozen
class ResolvedRequest:
    """The installed targets of a request, and with which options to measure them.

    options: of the run.
    each: of single targets and points by name, from a recorded run.
    """

    selections: Sequence[Selection]
    options: Options
    each: Mapping[str, Options] = field(factory=dict)

    def options_of(self, name: str) -> Options:
        """The options of a target or point."""
        return self.each.get(name, self.options)


def record(resolved: ResolvedRequest) -> RunRequest | None:
    """The request of a run. None for options beyond those of `aiperf run`, which no request can repeat."""
    targets, options = [], resolved.options
    for selection in resolved.selections:
        own = resolved.options_of(selection.name)
        names, params = sorted(selection.implementations), {**own.params, **dict(selection.point)}
        targets.append(RequestedTarget(selection.name, names, params=params, **values_of(own, "target")))
    request = RunRequest(targets, **values_of(options, "run"))
    of_targets = values_of(Options(), "target")
    return request if common(request) == evolve(options, params={}, **of_targets) else None


def resolve(request: RunRequest, plugins: Plugins) -> ResolvedRequest:
    """Find the targets of a request. Raises `UsageError` for a target that is not installed."""
    shared = common(request)
    selections, each = [], {}
    for wanted in request.targets:
        selections.append(selection_of(plugins, wanted.target, wanted.implementations))
        each[wanted.target] = evolve(shared, params=wanted.params, **values_of(wanted, "target"))
    return ResolvedRequest(selections, shared, each)


def selection_of(plugins: Plugins, target: str, implementations: Iterable[str]) -> Selection:
    """The target of exactly this name, or a point of its sweep, with these implementations.

    Raises `UsageError` where it is not installed.
    """
    base, values = split_point(target)
    found = {one.target.name: one for one in plugins.select((base,))}
    if base not in found:
        raise UsageError(f"{base!r} is not the name of a target. See them all: aiperf list")
    return evolve(found[base], implementations=frozenset(implementations), point=tuple(sorted(values.items())))


def common(request: RunRequest) -> Options:
    """The options of all targets of a request."""
    return Options(**values_of(request, "run"))
