"""A run's request: its record in a bundle, its targets and options on this machine; the reproduction of a bundle."""

from collections.abc import Iterable, Mapping, Sequence

from attrs import evolve, field, frozen

from aiperf_core.errors import BundleError, UsageError
from aiperf_core.harness.run.options import Options
from aiperf_core.plugins import Plugins
from aiperf_core.results.address import Address
from aiperf_core.results.filenames import MANIFEST
from aiperf_core.results.models import BundleRef, Manifest, RequestedTarget, RunRequest, TargetResult
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


@frozen
class Reproduction:
    """The run that reproduces a bundle.

    missing: targets that cannot be run, with the reason.
    reproduces: the bundle.
    notes: what the bundle does not record, in words.
    """

    resolved: ResolvedRequest
    missing: dict[str, str]
    reproduces: BundleRef
    notes: list[str]


def reproduction(plugins: Plugins, address: Address, tier: str | None) -> Reproduction:
    """Plan the reproduction of a bundle, or of a target in it; `tier` replaces the tier and its budget.

    Raises `UsageError` where nothing of it can be run.
    """
    if address.implementation is not None:
        raise UsageError(
            "a reproduction runs whole targets, since blocks of implementations alternate: "
            f"{address.bundle.path}:{address.target}"
        )
    manifest = address.bundle.manifest
    order = [one.target for one in manifest.request.targets] if manifest.request else []
    results = sorted(address.outlines(), key=lambda one: order.index(one.target) if one.target in order else len(order))
    if not results:
        raise BundleError(f"'{address.bundle.path}' holds no result, so there is nothing to reproduce.")
    notes = []
    if manifest.request is None:
        if any(row.confined for one in results for row in one.rows):
            raise UsageError(
                f"'{address.bundle.path}' is a result of 'aiperf judge' and does not contain the code. Repeat it "
                "with the file: aiperf judge"
            )
        notes.append("the bundle does not record policy and budget; the defaults are taken")
    shared = _options(manifest, results, tier)
    selections, each, missing = [], dict[str, Options](), dict[str, str]()
    for result in results:
        names = [row.name for row in result.rows if row.role != "control"]
        try:
            selections.append(selection_of(plugins, result.target, names))
        except UsageError as error:
            missing[result.target] = _why_missing(plugins, manifest, result.target) or str(error)
            continue
        each[result.target] = evolve(
            shared,
            device=result.device,
            executor=result.executor,
            size=result.problem.size,
            params=dict(result.problem.params),
        )
    if not selections:
        raise UsageError(" ".join(missing.values()))
    seal = manifest.hashes.get(MANIFEST)
    reproduces = BundleRef(str(address.bundle.path.resolve()), seal)
    return Reproduction(ResolvedRequest(selections, shared, each), missing, reproduces, notes)


def _options(manifest: Manifest, results: list[TargetResult], tier: str | None) -> Options:
    then, record = results[0].tier, manifest.request
    if record is None:
        return Options(tier=tier or then)
    # A budget belongs to its tier.
    budget_s = record.budget_s if tier in (None, then) else None
    return evolve(common(record), tier=tier or then, budget_s=budget_s)


def _why_missing(plugins: Plugins, manifest: Manifest, target: str) -> str | None:
    """The package of a target, where it is not installed here."""
    group = target.partition(".")[0]
    here = {one.distribution for one in plugins.loaded} | {one.distribution for one in plugins.set_aside}
    for one in manifest.plugins:
        if one.get("entry_point") == group and one["distribution"] not in here:
            came = f"{one['distribution']!r} {one['version']}"
            return f"{target!r} came with {came}, which is not installed here. Install it first."
    return None
