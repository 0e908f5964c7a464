"""Measure the parts of a plan by the harness, each into a bundle of its own, and go on where a run was interrupted."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrs import evolve

from aiperf_core.errors import BundleError
from aiperf_core.plugins import Plugins
from aiperf_core.results.bundle import Bundle
from aiperf_core.results.models import Row, TargetResult, Verdict
from aiperf_core.targets import Selection
from aiperf_labs.one_model import plan
from aiperf_labs.one_model.plan import Part

if TYPE_CHECKING:
    from aiperf_core.harness.processes.child import ForkServer
    from aiperf_core.harness.run.bundle_run import BundleRun
    from aiperf_core.harness.run.planner import RunReporter

# The preset of a ladder's sizes, by the size of the model.
SIZES = {"ci": "cpu", "one": "cuda", "two": "cuda"}
BUDGETS_S = {"ci": 20.0, "one": 120.0, "two": 120.0}  # seconds of sampling of a part
TIMEOUT_S = 300.0


def with_ladders(plugins: Plugins) -> Plugins:
    """The plugins with the ladders of the one model as targets."""
    return evolve(plugins, targets=(*plugins.targets, *plan.targets().values()))


def state_of(folder: Path, part: Part) -> str:
    """The state of a part: `done`, `interrupted` or `open`."""
    try:
        return "done" if Bundle.open(folder / part.name).manifest.complete else "interrupted"
    except BundleError:
        return "open"


def prepared(
    server: "ForkServer",
    plugins: Plugins,
    folder: Path,
    part: Part,
    document: dict[str, Any],
    digest: str,
    budget_s: float | None,
    reporter: "RunReporter",
) -> "BundleRun":
    """The run of a part that is not done: a new one, or the continuation of one that was interrupted."""
    from aiperf_core.harness.run import request
    from aiperf_core.harness.run.bundle_run import BundleRun, NewBundle
    from aiperf_core.harness.run.options import Options
    from aiperf_core.results import resuming

    known, path = with_ladders(plugins), folder / part.name
    if state_of(folder, part) == "interrupted":
        bundle = Bundle.open(path)
        resumed = request.resolve(resuming.request_of(bundle, bundle.manifest), known)
        return BundleRun(server, known, resumed, bundle, reporter)
    size = document["size"]
    options = Options(
        device=document["device"],
        size=SIZES[size],
        budget_s=budget_s or BUDGETS_S[size],
        timeout_s=TIMEOUT_S,
    )
    asked = request.ResolvedRequest([Selection(part.target, frozenset(part.names))], options)
    new = NewBundle(name=part.target.name, out=path, labels=plan.label(digest))
    return BundleRun(server, known, asked, new, reporter)


def results(folder: Path, parts: list[Part], digest: str) -> dict[str, tuple[TargetResult, str]]:
    """The result and the seal of each part that is done. Raises `BundleError` for a bundle of another plan."""
    found = {}
    for part in parts:
        if state_of(folder, part) != "done":
            continue
        bundle = Bundle.open(folder / part.name)
        manifest = bundle.manifest
        if manifest.labels.get("plan") != digest[:16]:
            raise BundleError(f"'{bundle.path}' is of another plan than the one in '{folder}'; move it elsewhere.")
        if part.target.name in bundle.targets:
            found[part.name] = bundle.target(part.target.name), str(manifest.hashes.get("manifest.json", ""))
    return found


def row_of(result: TargetResult, name: str) -> Row | None:
    """A row by its name."""
    return next((row for row in result.rows if row.name == name), None)


def broken(result: TargetResult) -> list[str]:
    """The faults of the guards of a part, in sentences; none where it may be believed."""
    found = []
    wanted: tuple[tuple[str, Callable[[Verdict], bool], str], ...] = (
        ("placebo", lambda verdict: verdict is Verdict.SAME, "SAME"),
        ("sabotage", lambda verdict: verdict is Verdict.INVALID, "INVALID"),
    )
    for name, is_right, must in wanted:
        row = row_of(result, name)
        if row is not None and not is_right(row.verdict):
            found.append(f"{name} must read {must}, and reads {row.verdict.value}")
    return found
