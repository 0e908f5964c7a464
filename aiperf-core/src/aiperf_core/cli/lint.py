"""`aiperf lint`: test whether the judges of benchmarks reject wrong answers."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click
from attrs import asdict, evolve, field, frozen

from aiperf_core.cli.measuring import (
    device_option,
    json_option,
    patterns_or_all,
    scratch_planner,
    size_option,
    targets_option,
    warn_of_skipped,
)
from aiperf_core.cli.plugin_file import correct, plugin_file
from aiperf_core.errors import BenchmarkError, ExitCode
from aiperf_core.names import lines, words
from aiperf_core.plugins import Plugins
from aiperf_core.targets import TargetFilter

if TYPE_CHECKING:
    from aiperf_core.cli.screen import Screen
    from aiperf_core.described import Described, DescribedImplementation
    from aiperf_core.devices.device import Device
    from aiperf_core.harness.run.planner import Planner
    from aiperf_core.harness.run.setup import Plan
    from aiperf_core.stats.expectations import Page
    from aiperf_core.targets import InstalledTarget, Selection
    from aiperf_core.validity.lint import Outcome

TIMEOUT_S = 300.0
VERDICTS = ("problem", "note", "ok", "not applicable")
MARKS = {"problem": "bold red", "note": "yellow"}


@frozen
class Linted:
    """One target on one device.

    failed: why it could not be linted.
    skipped: why there is nothing to lint.
    size: empty for a device that this machine lacks, of which the package stores figures.
    outcomes: `test`, `verdict` (ok, problem, note or not applicable), `found` and `remedy` of each test.
    """

    target: str
    device: str
    size: str = ""
    params: dict[str, float] = field(factory=dict)
    failed: str = ""
    skipped: str = ""
    outcomes: list[dict[str, str]] = field(factory=list)

    def of(self, verdict: str) -> list[dict[str, str]]:
        """The outcomes with a verdict."""
        return [one for one in self.outcomes if one["verdict"] == verdict]


@click.command("lint")
@click.argument("patterns", nargs=-1, metavar="PATTERN...")
@targets_option
@device_option("Only this device", "every device of this machine")
@size_option("smoke")
@click.option("--fix", is_flag=True, help="First correct goals and devices in plugin.py by the targets' files.")
@json_option("a JSON object, with every outcome")
@click.pass_obj
def lint(
    plugins: Plugins,
    patterns: tuple[str, ...],
    only: TargetFilter,
    device: str | None,
    size: str,
    fix: bool,
    as_json: bool,
) -> int:
    """Test whether the judge of each target rejects wrong answers, and check its cost and implementations.

    Wrong answers must be rejected (zeros, stale, rounded, unfinished and more), correct answers accepted, and the
    declared cost must match the observed work. A PATTERN is as in `aiperf run`. Exit code 3: a target has a problem. 1:
    a target could not be linted.

    \b
    Examples:
      aiperf lint ch07.memory_access
      aiperf lint acme --fix
    """
    from aiperf_core.cli.screen import consoles

    selections = plugins.select(patterns_or_all(patterns, only), only)
    warn_of_skipped(plugins)
    if fix:
        selections = tuple(evolve(one, target=_fixed(plugins, one.target)) for one in selections)
    out, _ = consoles()
    results = []
    for one in _lint_all(selections, device, size, plugins.known_devices):
        results.append(one)
        if not as_json:
            _print(out, one)
    if not as_json and len(results) > 1:
        _print_counts(out, results)
    if as_json:
        from aiperf_core.results import jsontext

        out.write(jsontext.dumps({"targets": [asdict(one) for one in results]}))
    return _exit_code(results)


def _fixed(plugins: Plugins, target: "InstalledTarget") -> "InstalledTarget":
    """Correct the declaration of a target in plugin.py by its file; the target as it is then declared."""
    from aiperf_core.loading import load_benchmark

    try:
        benchmark = load_benchmark(target)
    except BenchmarkError:  # the lint that follows tells the mistake
        return target
    contradiction = target.contradicts(benchmark.goal, benchmark.devices)
    if not contradiction:
        return target
    file = plugin_file(plugins, target.group)
    correct(file, target, benchmark.goal, benchmark.devices)
    click.echo(f"corrected {words(target.name)} in '{words(str(file))}': {contradiction}", err=True)
    return evolve(target, goal=benchmark.goal, devices=tuple(benchmark.devices))


def _exit_code(results: list[Linted]) -> ExitCode:
    """3 for problems; 1 for a target that could not be linted, or if all targets were skipped."""
    if any(one.of("problem") for one in results):
        return ExitCode.INVALID
    if any(one.failed for one in results) or all(one.skipped for one in results):
        return ExitCode.FAILED
    return ExitCode.OK


def _lint_all(
    selections: "tuple[Selection, ...]", device: str | None, size: str, devices: "dict[str, Device]"
) -> Iterator[Linted]:
    from aiperf_core.harness.run.options import Known, Options

    known = Known(devices=devices)
    with scratch_planner(Options(device=device, known=known, size=size)) as planner:
        for selection in selections:
            # A plugin's device only if the target supports it, or if it was given.
            useful = {"cpu", "cuda", *selection.target.devices}
            here = [name for name in sorted(devices) if name in useful and planner.absent(name) is None]
            for name in [device] if device else here:
                planner.options = Options(device=name, known=known, size=size)
                yield _lint_target(planner, selection, name)
            if device is None:
                yield from _lint_elsewhere(planner, selection, here)


def _lint_elsewhere(planner: "Planner", selection: "Selection", here: Sequence[str]) -> Iterator[Linted]:
    """Test the claims about devices that this machine lacks, of which the package stores figures."""
    from aiperf_core.results.models import SkippedTarget
    from aiperf_core.stats.expectations import pages_of

    target = selection.target
    pages = [page for page in pages_of(target) if any(key.startswith(f"{target.name}:") for key in page.expected)]
    absent = [name for name in target.devices if name not in here and any(page.is_of(name) for page in pages)]
    (described,) = planner.describe([target]) if absent else (None,)
    if described is None or isinstance(described, SkippedTarget):
        return
    for name in absent:
        yield Linted(target.name, name, outcomes=[asdict(one) for one in _stored(target.name, described, name, pages)])


def _lint_target(planner: "Planner", selection: "Selection", device: str) -> Linted:
    from aiperf_core.harness.processes.child import ChildError
    from aiperf_core.results.models import Verdict
    from aiperf_core.stats.expectations import pages_of

    name = selection.target.name
    plans, skipped = planner.plan([selection])
    if skipped:
        reason = skipped[0].reason
        failed = skipped[0].verdict is Verdict.FAILED
        return Linted(name, device, failed=reason if failed else "", skipped="" if failed else reason)
    (plan,) = plans
    listed = {"goal": selection.target.goal, "devices": list(selection.target.devices)}
    try:
        outcomes = ask(planner, plan, "lint", listed=listed)
    except ChildError as error:
        return Linted(name, device, plan.size, plan.params, failed=f"{name!r} could not be linted: {error}")
    outcomes += [asdict(one) for one in _stored(name, plan.described, device, pages_of(selection.target))]
    chosen = [one for one in plan.described.on(device) if one.name in (selection.implementations or {one.name})]
    outcomes += [_try(planner, plan, one) for one in chosen]
    return Linted(name, device, plan.size, plan.params, outcomes=outcomes)


def _stored(target: str, described: "Described", device: str, pages: Iterable["Page"]) -> "Iterator[Outcome]":
    """Test the target's claims against stored figures."""
    from aiperf_core.stats.claims import stored_outcomes

    for one in stored_outcomes(target, described, device, pages):
        yield one.where_accepted(described.accepted)


def _try(planner: "Planner", plan: "Plan", implementation: "DescribedImplementation") -> dict[str, str]:
    """Run one implementation in a process of its own, at the smoke sizes and at the chosen sizes."""
    from aiperf_core.harness.processes.child import ChildError
    from aiperf_core.requirements import lacking
    from aiperf_core.targets import WORLD_SIZE

    test = f"implementation.{implementation.name}"
    reason = next(
        filter(None, (lacking(text, planner.hardware_of(plan.device)) for text in implementation.requires)), None
    )
    if reason:
        return _outcome(test, "not applicable", reason)
    if WORLD_SIZE in plan.params:
        return _outcome(
            test, "not applicable", "an implementation of several ranks cannot run alone; aiperf run judges every rank"
        )
    sizes = {"smoke": plan.described.presets["smoke"], plan.size: plan.params}
    for size, params in sizes.items():
        try:
            wrong = ask(planner, plan, "try", params=params, implementation=implementation.name)
        except ChildError as error:
            if error.kind == "skip":
                return _outcome(test, "not applicable", str(error))
            if error.kind == "compile":
                return _outcome(test, "problem", str(error))
            wrong = str(error)
        if wrong:
            remedy = f"Correct it, or the reference that disagrees with it: {implementation.where}"
            return _outcome(test, "problem", f"at {size}: {wrong}", remedy)
    return _outcome(test, "ok")


def ask(planner: "Planner", plan: "Plan", do: str, **arguments: Any) -> Any:
    """Ask a fresh process of the linter about a target. Raises `ChildError`."""
    target = plan.selection.target
    child = planner.spawn("linter", f"{do}-{target.name}-{plan.device}")
    try:
        device = asdict(planner.options.known.devices[plan.device])
        request = {"target": {"name": target.name, "module": target.module}, "device": device}
        return child.ask(do, timeout=TIMEOUT_S, **{**request, "params": plan.params, **arguments})
    finally:
        child.kill()


def _outcome(test: str, verdict: str, found: str = "", remedy: str = "") -> dict[str, str]:
    return {"test": test, "verdict": verdict, "found": found, "remedy": remedy}


def _print(out: "Screen", one: Linted) -> None:
    from rich.padding import Padding
    from rich.text import Text

    head = Text.assemble((words(one.target), "bold"), f" on {one.device}")
    if one.failed or one.skipped:
        mark, style = ("failed", "bold red") if one.failed else ("skipped", "dim")
        out.print(
            Text.assemble(head, ": ", (mark, style)), Padding(Text(words(one.failed or one.skipped)), (0, 0, 0, 2))
        )
        return
    counts = Counter(outcome["verdict"] for outcome in one.outcomes)
    said = [_counted(counts[verdict], verdict) for verdict in VERDICTS if counts[verdict]]
    sizes = ", ".join(f"{name}={value:g}" for name, value in one.params.items())
    at = f" at {one.size}{sizes and f' ({sizes})'}" if one.size else ", by stored figures"
    head.append(f"{at}: {', '.join(said)}")
    out.print_line(head)
    for outcome in [*one.of("problem"), *one.of("note")]:
        verdict = outcome["verdict"]
        line = Text.assemble((verdict, MARKS[verdict]), f"  {words(outcome['test'])}: {lines(outcome['found'])}")
        out.print(Padding(line, (0, 0, 0, 2)), Padding(Text(words(outcome["remedy"]), "dim"), (0, 0, 0, 6)))


def _print_counts(out: "Screen", results: list[Linted]) -> None:
    """Say how many outcomes each test has that needs a look."""
    from rich.text import Text

    for verdict in MARKS:
        found = Counter(outcome["test"] for one in results for outcome in one.of(verdict))
        if found:
            tests = ", ".join(f"{words(test)} {count}" for test, count in found.most_common())
            out.print_line(Text(f"{_counted(found.total(), verdict)}: {tests}"))


def _counted(count: int, verdict: str) -> str:
    return f"{count} {verdict}s" if verdict in MARKS and count > 1 else f"{count} {verdict}"
