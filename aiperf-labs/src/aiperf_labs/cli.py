"""`aiperf labs` and `aiperf techniques`: the ladders that are installed, and the techniques that targets measure."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from attrs import asdict

from aiperf_core.cli.tables import print_table
from aiperf_core.errors import ExitCode, UsageError
from aiperf_core.plugins import Plugins
from aiperf_labs import coverage
from aiperf_labs.one_model.cli import one_model
from aiperf_labs.stored import Ratio, Stored, keys_here, stored
from aiperf_labs.techniques import TECHNIQUES, claims

if TYPE_CHECKING:
    from aiperf_core.targets import InstalledTarget
    from aiperf_labs.ladders import Ladder

LAB = "lab-"
HERE, ELSEWHERE, NOT_YET = "proven here", "proven elsewhere", "not yet"
STATES = (HERE, ELSEWHERE, NOT_YET)
IN = click.option(
    "--in",
    "folder",
    type=click.Path(path_type=Path),
    default=Path("artifacts/runs"),
    show_default=True,
    metavar="FOLDER",
    help="The folder of the bundles.",
)
JSON = click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")


@click.command("techniques", context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--state", type=click.Choice([one.replace(" ", "-") for one in STATES]), help="Only these.")
@IN
@JSON
@click.pass_obj
def techniques(plugins: Plugins, state: str | None, folder: Path, as_json: bool) -> None:
    """List techniques, with the targets that claim them and whether a result is stored.

    A target claims a technique with the tag technique-ID. It is proven by a believed verdict on a variant of such a
    target, in a bundle of the folder or in an expectations file of its package.
    """
    claimed = claims(plugins.targets)
    here = keys_here()
    proofs = stored([one for one in plugins.targets if any(one.name in names for names in claimed.values())], folder)
    rows = [_covered(number, names, proofs, here) for number, names in claimed.items()]
    counts = {one: sum(row["state"] == one for row in rows) for one in STATES}
    shown = [row for row in rows if state is None or row["state"].replace(" ", "-") == state]
    if as_json:
        click.echo(json.dumps({"counts": counts, "techniques": shown}, indent=2))
        return
    cells = [(row["id"], row["state"], row["chapter"], row["name"], ", ".join(row["targets"])) for row in shown]
    print_table(("ID", "state", "chapter", "technique", "targets"), cells)
    click.echo(f"\n{len(rows)} techniques: " + ", ".join(f"{count} {one}" for one, count in counts.items()))


def _covered(number: int, names: list[str], proofs: list[Stored], here: set[str]) -> dict[str, Any]:
    machines = sorted({one.machine for one in proofs if one.target in names})
    state = HERE if here & {*machines} else ELSEWHERE if machines else NOT_YET
    return {**asdict(TECHNIQUES[number]), "state": state, "targets": names, "machines": machines}


class _Labs(click.Group):
    """A group whose command is `show` where the first argument names none: the name of a lab, or an option."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put `show` before arguments that begin with no command and no option of the group."""
        if not args or (args[0] not in self.commands and args[0] not in ctx.help_option_names):
            args = ["show", *args]
        return super().parse_args(ctx, args)


@click.group("labs", cls=_Labs, context_settings={"help_option_names": ["-h", "--help"]})
def labs() -> None:
    """List the labs, show the ladders of one, or measure one model with every technique a switch."""


labs.add_command(one_model)


@labs.command("techniques", context_settings={"help_option_names": ["-h", "--help"]})
@IN
@JSON
@click.pass_obj
def proofs(plugins: Plugins, folder: Path, as_json: bool) -> None:
    """List the techniques, each with what is known of it.

    That is a verdict, an artefact, or the reason why there is none.

    A verdict is a stored result of a target that claims the technique. An artefact is a target or a switch of the one
    model without one, or a command whose output is the evidence. The exit code is 1 where one has nothing.
    """
    claimed = claims(plugins.targets)
    found = stored([one for one in plugins.targets if any(one.name in names for names in claimed.values())], folder)
    measured = {one.target for one in found}
    rows = [_proven(number, names, measured) for number, names in claimed.items()]
    if as_json:
        click.echo(json.dumps({"techniques": rows}, indent=2))
    else:
        cells = [(row["id"], row["technique"], row["kind"], row["text"]) for row in rows]
        print_table(("ID", "technique", "proof", "what"), cells)
        counts = {kind: sum(row["kind"] == kind for row in rows) for kind in ("verdict", "artefact", "reason")}
        told = ", ".join(f"{count} with {kind}" for kind, count in counts.items())
        click.echo(f"\n{len(rows)} techniques: {told}")
    if any(row["kind"] == "nothing" for row in rows):
        click.get_current_context().exit(ExitCode.FAILED)


def _proven(number: int, names: list[str], measured: set[str]) -> dict[str, Any]:
    proof = coverage.proof(number, names, [name for name in names if name in measured])
    kind, text = (proof.kind, proof.text) if proof else ("nothing", "")
    return {"id": number, "technique": TECHNIQUES[number].name, "kind": kind, "text": text}


@labs.command("show", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("lab", required=False)
@IN
@JSON
@click.pass_obj
def show(plugins: Plugins, lab: str | None, folder: Path, as_json: bool) -> None:
    """List the labs, or show the ladders of one lab or target.

    A lab is a name such as decode-optimization, or a target of it. Its ladders come with the figures of the newest
    stored result, and with what is lost when one mechanism is left out.
    """
    names = sorted({name for one in plugins.targets for name in _labs_of(one)})
    by_lab = [(name, one) for name in names for one in plugins.targets if name in _labs_of(one)]
    if lab is None:
        _list(by_lab, as_json)
        return
    chosen = [one for name, one in by_lab if lab in (name, one.name)]
    if not chosen:
        raise UsageError(f"{lab!r} is neither a lab nor a target of one. The labs: {', '.join(names) or 'none'}")
    found = stored(chosen, folder)
    ladders = [(target, *pair) for target in chosen for pair in _ladders(target, found)]
    if as_json:
        records = [
            {"target": target.name, **asdict(one), "origin": origin and asdict(origin)}
            for target, one, origin in ladders
        ]
        click.echo(json.dumps({"ladders": records}, indent=2))
        return
    for target, one, origin in ladders:
        _print(target.name, one, origin)


def _labs_of(target: "InstalledTarget") -> list[str]:
    return [tag.removeprefix(LAB) for tag in target.tags if tag.startswith(LAB)]


def _list(by_lab: "list[tuple[str, InstalledTarget]]", as_json: bool) -> None:
    rows: list[dict[str, Any]] = []
    for name, target in by_lab:
        steps = {ladder.device: len(ladder.steps) for ladder, _ in _ladders(target, [])}
        rows.append({"lab": name, "target": target.name, "summary": target.summary, "steps": steps})
    if as_json:
        click.echo(json.dumps({"labs": rows}, indent=2))
    elif rows:
        print_table(("lab", "target", "steps", "summary"), [_cells(**row) for row in rows])
    else:
        click.echo("No labs are installed. Get some, in a clone of aiperf: pip install -e ./aiperf-labs")


def _cells(lab: str, target: str, summary: str, steps: dict[str, int]) -> tuple[str, ...]:
    return lab, target, ", ".join(f"{count} on {device}" for device, count in steps.items()), summary


def _ladders(target: "InstalledTarget", found: list[Stored]) -> "Iterator[tuple[Ladder, Stored | None]]":
    """The ladder of each device, with its newest stored result."""
    from aiperf_core.loading import load_benchmark
    from aiperf_labs.ladders import ladder

    bench = load_benchmark(target)
    for device in target.devices:
        newest = next((one for one in found if (one.target, one.device) == (target.name, device)), None)
        yield ladder(bench, device, newest), newest


def _print(name: str, ladder: "Ladder", origin: Stored | None) -> None:
    where = f"{origin.origin}, {origin.machine}, {origin.date[:10]}" if origin else "no stored result"
    click.echo(f"{name} on {ladder.device}: {where}\n")
    rows = [(ladder.baseline, "", "1.00x", "")]
    rows += [(one.name, one.adds, _ratio(one.total), _ratio(one.gain)) for one in ladder.steps]
    print_table(("step", "adds", "of the baseline", "of the step below"), rows)
    if ladder.left_out:
        click.echo()
        print_table(
            ("left out", "variant", "times as long"),
            [(one.mechanism, one.name, _ratio(one.loss)) for one in ladder.left_out],
        )
    click.echo()


def _ratio(found: Ratio | None) -> str:
    return f"{found.value:.2f}x [{found.low:.2f}, {found.high:.2f}]" if found else "-"
