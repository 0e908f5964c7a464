"""`aiperf profile`: explain with a profiler why an implementation is fast."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from aiperf_core.cli.measuring import (
    device_option,
    json_option,
    out_option,
    patterns_or_all,
    scratch_planner,
    seconds_option,
    set_option,
    size_option,
    sizes_of,
    targets_option,
)
from aiperf_core.errors import AiperfError, ExitCode, SkipError
from aiperf_core.names import words
from aiperf_core.plugins import Plugins
from aiperf_core.targets import TargetFilter

if TYPE_CHECKING:
    from aiperf_core.cli.screen import Screen
    from aiperf_core.harness.run.bundle_run import BundleRun
    from aiperf_core.harness.run.options import Options
    from aiperf_core.harness.run.planner import Planner
    from aiperf_core.harness.run.setup import Plan
    from aiperf_core.profiling.models import NotProfiled, Profile
    from aiperf_core.requirements import Hardware
    from aiperf_core.results.models import SkippedTarget
    from aiperf_core.targets import Selection


@click.command("profile")
@click.argument("patterns", nargs=-1, metavar="TARGET[:IMPL]...")
@targets_option
@click.option(
    "--tool",
    default="auto",
    metavar="NAME",
    help="torch, nsys, ncu, perf, or a tool of a plugin. [default: perf for C code on a CPU if usable, else torch]",
)
@click.option("--metrics", metavar="NAME", help="Set of metrics of the tool, in place of its default.")
@device_option("Device to run on", "the GPU, if the target supports it")
@size_option()
@set_option
@seconds_option("--timeout", "Time limit of one implementation.", 300.0)
@out_option("profiles", "a new folder in artifacts/profiles")
@json_option("the profiles as one JSON document")
@click.pass_obj
def profile(
    plugins: Plugins,
    patterns: tuple[str, ...],
    only: TargetFilter,
    tool: str,
    metrics: str | None,
    device: str | None,
    size: str | None,
    sizes: tuple[str, ...],
    timeout: float,
    out: Path | None,
    as_json: bool,
) -> int:
    """Run implementations under a profiler, and explain why they are fast.

    Profiles the baseline and every variant, or the named implementation and its baseline. Each runs in a fresh process,
    and is profiled after warm-up. Times under a profiler are no results: measure with `aiperf run`.

    \b
    Examples:
      aiperf profile ch07.memory_access:coalesced
      aiperf profile ch07.memory_access --tool ncu --out profiles
    """
    from aiperf_core.cli.screen import consoles
    from aiperf_core.harness.run.options import Known, Options
    from aiperf_core.profiling import passes, store

    patterns = patterns_or_all(patterns, only)
    choice, selections = passes.chooser(plugins, tool, metrics), plugins.select(patterns, only)
    screen, err = consoles()
    known = Known(devices=plugins.known_devices)
    options = Options(device=device, known=known, size=size, params=sizes_of(sizes))
    plans, skipped = _plan(selections, options)
    root = store.new_folder(out, plans[0][0].name if len(plans) == 1 else "-".join(patterns))
    every: list[Profile | NotProfiled] = []
    for plan, hardware in plans:
        chosen, reason = choice(plan)
        _print_choice(err, reason)
        found = passes.profile_target(plan, hardware, chosen, root, timeout, lambda name: _tell(err, name))
        every += found
        if not as_json:
            print_profiles(screen, found)
    _print_end(screen, root, every, skipped, as_json)
    return _exit_code(every, skipped)


def _plan(
    selections: Sequence["Selection"], options: "Options"
) -> tuple[list[tuple["Plan", "Hardware"]], list["SkippedTarget"]]:
    """The plans to profile, each with its hardware; and the skipped targets with their reasons."""
    with scratch_planner(options) as planner:
        plans, skipped = planner.plan(selections)
        return [(plan, planner.hardware_of(plan.device)) for plan in plans], skipped


def profiling(run: "BundleRun", tool: str, screen: "Screen | None", err: "Screen", *, quiet: bool) -> None:
    """Make a run profile each measured target into its bundle. Without a screen it prints no profiles.

    The run refuses to start if the tool can profile none of its targets. If a single target cannot be profiled, the run
    prints why and continues. Raises `UsageError` for an unknown tool.
    """
    from rich.text import Text

    from aiperf_core.profiling import passes

    choice, earlier = passes.chooser(run.plugins, tool, None), run.before

    def before(plans: "Sequence[Plan]") -> None:
        reasons = [passes.unavailable(plan, choice(plan)[0]) for plan in plans]
        if reasons and all(reasons):
            raise SkipError(f"{reasons[0]} Nothing was measured. To measure without profiles, omit --profile.")
        if earlier is not None:
            earlier(plans)

    def after(plan: "Plan", planner: "Planner") -> None:
        assert run.bundle is not None
        tell: Callable[[str], None] = (lambda _: None) if quiet else (lambda name: _tell(err, name))
        chosen, reason = choice(plan)
        if not quiet:
            _print_choice(err, reason)
        try:
            found = passes.profile_target(plan, planner.hardware_of(plan.device), chosen, run.bundle.path, tell=tell)
        except AiperfError as error:
            err.print_line(Text(words(f"no profile of {plan.name}: {error}")))
            return
        if screen is not None:
            print_profiles(screen, found)

    run.before, run.after = before, after


def _print_choice(err: "Screen", reason: str) -> None:
    """Print why a target is not profiled by the tool that would show more."""
    from rich.text import Text

    if reason:
        err.print_line(Text(words(reason)))


def _tell(err: "Screen", name: str) -> None:
    from rich.text import Text

    err.print_line(Text(f"profiling {words(name)} ...", "dim"))


def print_profiles(screen: "Screen", found: Sequence["Profile | NotProfiled"]) -> None:
    """Print the profiles of a target, those of variants beside the baseline."""
    from rich.text import Text

    from aiperf_core.profiling.contrast import contrasts
    from aiperf_core.profiling.models import Profile
    from aiperf_core.render.profiles import render, render_missing

    against = {one.right: one for one in contrasts(found)}
    for one in found:
        if isinstance(one, Profile):
            part = render(one, against.get(one.implementation), screen.look, screen.console.width)
        else:
            part = render_missing(one, screen.look)
        screen.print(part, Text())


def _print_end(
    screen: "Screen",
    root: Path,
    every: Sequence["Profile | NotProfiled"],
    skipped: Sequence["SkippedTarget"],
    as_json: bool,
) -> None:
    from rich.text import Text

    from aiperf_core.profiling.contrast import contrasts
    from aiperf_core.profiling.models import Profile
    from aiperf_core.render.table import render_skipped
    from aiperf_core.results import jsontext, structure

    profiles = [one for one in every if isinstance(one, Profile)]
    missing = [one for one in every if not isinstance(one, Profile)]
    if as_json:
        document = {
            "folder": str(root) if profiles else None,
            "profiles": [structure.document(one) for one in profiles],
            "contrasts": [structure.document(one) for one in contrasts(every)],
            "not_profiled": [structure.document(one) for one in missing],
            "skipped": [structure.document(one) for one in skipped],
        }
        screen.write(jsontext.dumps(document))
        return
    for target in skipped:
        screen.print(render_skipped(target, screen.look), Text())
    if profiles:
        screen.print_line(Text(f"profiles in {root}", "dim"))
        screen.print_line(Text("Times under a profiler are no results. To measure: aiperf run", "dim"))


def _exit_code(every: Sequence["Profile | NotProfiled"], skipped: Sequence["SkippedTarget"]) -> ExitCode:
    """1 if an implementation failed, or nothing could be profiled."""
    from aiperf_core.profiling.models import NotProfiled
    from aiperf_core.results.models import Verdict

    failed = any(isinstance(one, NotProfiled) and one.failed for one in every)
    failed |= any(one.verdict is Verdict.FAILED for one in skipped)
    profiled = any(not isinstance(one, NotProfiled) for one in every)
    return ExitCode.FAILED if failed or not profiled else ExitCode.OK
