"""`aiperf labs one-model`: plan, run and show the ladders of one trained model."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from aiperf_core.cli.tables import print_table
from aiperf_core.errors import ExitCode, UsageError
from aiperf_core.plugins import Plugins
from aiperf_labs.one_model import plan
from aiperf_labs.one_model.sizes import PRESETS, preset
from aiperf_labs.one_model.switches import LADDERS, SWITCHES

if TYPE_CHECKING:
    from aiperf_labs.one_model.plan import Part

HELP = {"help_option_names": ["-h", "--help"]}
INTERRUPTED = 130
OUT = click.option(
    "--out",
    "-o",
    "folder",
    type=click.Path(path_type=Path),
    default=Path("artifacts/one-model"),
    show_default=True,
    metavar="FOLDER",
    help="The folder of the plan and its bundles.",
)
LADDER = click.option(
    "--ladder",
    "ladders",
    multiple=True,
    type=click.Choice([*LADDERS, plan.SCREEN]),
    help="Only these. May be repeated. [default: all of the plan]",
)


@click.group("one-model", context_settings=HELP)
def one_model() -> None:
    """Measure techniques as switches of one trained model."""


@one_model.command("plan", context_settings=HELP)
@click.option("--size", "-s", type=click.Choice([*PRESETS]), default="ci", show_default=True, help="Size of the model.")
@click.option("--device", "-d", type=click.Choice(["cpu", "cuda"]), help="[default: cpu for ci, else cuda]")
@LADDER
@OUT
@click.pass_obj
def plan_(plugins: Plugins, size: str, device: str | None, ladders: tuple[str, ...], folder: Path) -> None:
    """Train the model, and write rungs and predictions.

    The model is trained once for each version of its sources. A plan is never edited: the runs carry its hash.
    """
    chosen, where = preset(size), device or ("cpu" if size == "ci" else "cuda")
    names = ladders or _usual(chosen.ranks, where)
    if (folder / plan.FILE).exists():
        plan.write(folder, {})  # says why not, before the model is trained
    from aiperf_labs.one_model import trained

    _require(where, chosen.ranks)
    made = trained.trained(chosen, where, lambda line: click.echo(line, err=True))
    document = plan.make(chosen, where, names, plugins.targets)
    digest = plan.write(folder, document)
    click.echo(f"{folder / plan.FILE}, sha256 {digest[:16]}: {made.above_floor:.3f} nats a token above the floor\n")
    for name, rungs in document["ladders"].items():
        click.echo(f"{name}: {LADDERS[name]}")
        print_table(("rung", "adds", "predicted step", "predicted so far"), [_cells(rung) for rung in rungs])
        click.echo()
    skipped = {one.target for one in SWITCHES if document["sources"].get(one.target) == "not installed"}
    for target in sorted(skipped - {""}):
        from aiperf_labs.one_model.chapters import missing

        click.echo(f"its switches will be SKIPPED: {missing(target)}")


def _usual(ranks: int, device: str) -> tuple[str, ...]:
    """The ladders of a size: of two ranks on two GPUs, of all on a CPU."""
    if device == "cpu":
        return (*LADDERS, plan.SCREEN)
    return ("ranks",) if ranks > 1 else ("train", "serve")


def _require(device: str, ranks: int) -> None:
    """Raise `UsageError` where this machine has not the GPUs, or the memory, that the size needs."""
    if device == "cpu":
        return
    from aiperf_core.devices.probe import nvidia

    gpus = nvidia().gpus
    if len(gpus) < ranks:
        raise UsageError(f"this size needs {ranks} GPUs, and this machine has {len(gpus)}. Take --size ci, on a CPU")
    import torch

    # Weights, gradients and two moments of 0.56e9 parameters in float32 are 9 GB; activations of a batch are most.
    needed = 60e9
    if torch.cuda.get_device_properties(0).total_memory < needed:
        raise UsageError("this size needs a GPU with 60 GB of memory. Take --size ci, on a CPU")


def _cells(rung: dict[str, Any]) -> tuple[str, ...]:
    step, total = (plan.gain_of(rung["predicted"], kind) for kind in ("step", "total"))
    says = rung["must"] and f"must read {rung['must']}"
    return rung["name"], rung["adds"], str(step or says or "-"), str(total or "-")


@one_model.command("run", context_settings=HELP)
@LADDER
@click.option("--budget", "budget_s", type=click.FloatRange(min=0.1), metavar="SECONDS", help="Of sampling, a part.")
@click.option("--quiet", "-q", is_flag=True, help="Show no progress.")
@OUT
@click.pass_obj
def run(plugins: Plugins, ladders: tuple[str, ...], budget_s: float | None, quiet: bool, folder: Path) -> int:
    """Measure the ladders of a plan.

    A part that is done stays; one that was interrupted goes on.
    Each part is a bundle in the folder of the plan, with a placebo that must read SAME and a sabotage that must read
    INVALID. The exit code is 1 where a guard reads anything else, and 5 where the machine was too busy to tell.
    """
    document, digest = plan.read(folder)
    from aiperf_labs.one_model import trained

    plan.check(document, folder, plugins.targets, trained.path_of(preset(document["size"])))
    from aiperf_core.cli.resuming import run_to_end
    from aiperf_core.cli.run_view import RunView, consoles, print_result
    from aiperf_core.harness.processes.child import ForkServer
    from aiperf_labs.one_model import runner

    wrong: list[str] = []
    screen, err = consoles()
    for part in _parts(document, ladders):
        if runner.state_of(folder, part) == "done":
            click.echo(f"{part.name} is done: {folder / part.name}", err=True)
            continue
        with ForkServer() as server, RunView(err, quiet=quiet) as view:
            measuring = runner.prepared(server, plugins, folder, part, document, digest, budget_s, view)
            code = run_to_end(measuring, lambda result: print_result(screen, result))
        if code == INTERRUPTED or measuring.resumable:
            click.echo(f"interrupted; continue with: aiperf labs one-model run --out {folder}", err=True)
            return INTERRUPTED
    for name, (result, _) in runner.results(folder, _parts(document, ladders), digest).items():
        wrong += [f"{name}: {line}" for line in runner.broken(result)]
    for line in wrong:
        click.echo(line, err=True)
    click.echo(f"The page: aiperf labs one-model page --out {folder}", err=True)
    if any(not line.endswith("INCONCLUSIVE") for line in wrong):
        return ExitCode.FAILED
    return ExitCode.INCONCLUSIVE if wrong else ExitCode.OK


def _parts(document: dict[str, Any], ladders: tuple[str, ...]) -> "list[Part]":
    planned = [*document["ladders"], *([plan.SCREEN] if document["screen"] else [])]
    if unplanned := [name for name in ladders if name not in planned]:
        raise UsageError(f"{', '.join(unplanned)} is not in the plan, which has {', '.join(planned)}")
    return plan.parts(ladders or planned, document["device"])


@one_model.command("page", context_settings=HELP)
@OUT
def page(folder: Path) -> None:
    """Write page.md of a plan and its runs, with pictures."""
    document, digest = plan.read(folder)
    from aiperf_core import atomic
    from aiperf_labs.one_model import page as pages
    from aiperf_labs.one_model import runner

    found = runner.results(folder, _parts(document, ()), digest)
    files = {}
    for name, rungs in document["ladders"].items():
        drawn = pages.picture(name, rungs, found)
        if drawn is not None:
            files[name] = f"{name}.svg"
            atomic.write(folder / files[name], drawn.encode())
    atomic.write(folder / "page.md", pages.markdown(document, digest, found, files).encode())
    click.echo(f"{folder / 'page.md'}: {len(found)} of {len(_parts(document, ()))} parts are measured")
