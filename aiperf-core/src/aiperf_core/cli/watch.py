"""`aiperf watch`: measure a target again whenever one of its files is saved."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from aiperf_core.cli.color import color_option
from aiperf_core.cli.measuring import Measuring, measuring_options, server_ahead, sizes_of
from aiperf_core.errors import UsageError
from aiperf_core.plugins import Plugins
from aiperf_core.targets import InstalledTarget, Selection

if TYPE_CHECKING:
    from aiperf_core.cli.run_view import RunView
    from aiperf_core.harness.run.bundle_run import BundleRun

# The sampling budget of a verdict that someone waits for.
BUDGET_S = 0.5


@click.command("watch")
@click.argument("target", metavar="TARGET[:IMPLEMENTATION]")
@click.option("--set", "sizes", multiple=True, metavar="NAME=NUMBER", help="Override a size. May be repeated.")
@measuring_options(timeout_s=60.0, scope=" of each verdict", budget="0.5")
@color_option
@click.pass_obj
def watch(plugins: Plugins, target: str, sizes: tuple[str, ...], measuring: Measuring) -> int:
    """Measure a target, and again whenever one of its files is saved.

    The processes stay warm between the verdicts, so that a verdict takes little more than its sampling. All files of
    the target's package are watched, and a verdict names the implementations that were edited. Ctrl-C ends it, and
    keeps the bundle of the last verdict.

    \b
    Examples:
      aiperf watch practice.softmax:kept_output
    """
    selection = _selection(plugins, target)
    folder = _folder_of(selection.target)
    server = server_ahead()
    from attrs import evolve

    from aiperf_core.cli.edited import Edits
    from aiperf_core.cli.run_view import consoles
    from aiperf_core.cli.watching import Files, Watch
    from aiperf_core.harness.run.from_python import WarmRuns

    params = sizes_of(sizes)
    options = measuring.options(params=params)
    options = evolve(options, budget_s=options.budget_s or BUDGET_S)
    screen, err = consoles()
    with WarmRuns(server, plugins) as warm:

        def measure(view: "RunView", out: Path) -> "BundleRun":
            return warm.run(selection, options, view, out)

        files = Files([folder])
        edits = Edits(folder / f"{selection.target.module.rpartition('.')[2]}.py", files.texts())
        loop = Watch(target, files, measure, screen, err, measuring.out, measuring.quiet, edits=edits)
        return loop.until_interrupted()


def _selection(plugins: Plugins, pattern: str) -> Selection:
    """The target, and its implementation if one is named."""
    chosen = plugins.select((pattern,))
    if len(chosen) != 1:
        raise UsageError(f"aiperf watch takes one target, such as practice.softmax; {pattern!r} is {len(chosen)}.")
    return chosen[0]


def _folder_of(target: InstalledTarget) -> Path:
    """The folder of the target's package."""
    from importlib.util import find_spec

    package = target.module.rpartition(".")[0] or target.module
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        raise UsageError(f"{target.name!r} cannot be watched: its package {package!r} has no files.")
    return Path(spec.origin).parent
