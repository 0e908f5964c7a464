"""Reproducing a bundle: a run with its implementations, sizes, device, tier and policy, and new seeds."""

from attrs import evolve, frozen

from aiperf_core.errors import BundleError, UsageError
from aiperf_core.harness.run import request
from aiperf_core.harness.run.options import Options
from aiperf_core.harness.run.request import ResolvedRequest
from aiperf_core.plugins import Plugins
from aiperf_core.results.address import Address
from aiperf_core.results.filenames import MANIFEST
from aiperf_core.results.models import BundleRef, Manifest, TargetResult


@frozen
class Plan:
    """The run that reproduces a bundle.

    missing: targets that cannot be run, with the reason.
    reproduces: the bundle.
    notes: what the bundle does not record, in words.
    """

    resolved: ResolvedRequest
    missing: dict[str, str]
    reproduces: BundleRef
    notes: list[str]


def plan(plugins: Plugins, address: Address, tier: str | None) -> Plan:
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
    common = _options(manifest, results, tier)
    selections, each, missing = [], dict[str, Options](), dict[str, str]()
    for result in results:
        names = [row.name for row in result.rows if row.role != "control"]
        try:
            selections.append(request.selection_of(plugins, result.target, names))
        except UsageError as error:
            missing[result.target] = _why_missing(plugins, manifest, result.target) or str(error)
            continue
        each[result.target] = evolve(
            common,
            device=result.device,
            executor=result.executor,
            size=result.problem.size,
            params=dict(result.problem.params),
        )
    if not selections:
        raise UsageError(" ".join(missing.values()))
    seal = manifest.hashes.get(MANIFEST)
    reproduces = BundleRef(str(address.bundle.path.resolve()), seal)
    return Plan(ResolvedRequest(selections, common, each), missing, reproduces, notes)


def _options(manifest: Manifest, results: list[TargetResult], tier: str | None) -> Options:
    then, record = results[0].tier, manifest.request
    if record is None:
        return Options(tier=tier or then)
    # A budget belongs to its tier.
    budget_s = record.budget_s if tier in (None, then) else None
    return evolve(request.common(record), tier=tier or then, budget_s=budget_s)


def _why_missing(plugins: Plugins, manifest: Manifest, target: str) -> str | None:
    """The package of a target, where it is not installed here."""
    group = target.partition(".")[0]
    here = {one.distribution for one in plugins.loaded} | {one.distribution for one in plugins.set_aside}
    for one in manifest.plugins:
        if one.get("entry_point") == group and one["distribution"] not in here:
            came = f"{one['distribution']!r} {one['version']}"
            return f"{target!r} came with {came}, which is not installed here. Install it first."
    return None
