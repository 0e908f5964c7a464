"""`aiperf ch20`: a loop that judges what a model proposes."""

import json
from pathlib import Path

import click

from aiperf_core.plugins import Plugins


@click.group("ch20", context_settings={"help_option_names": ["-h", "--help"]})
def ch20() -> None:
    """Judge what a model proposes."""


@ch20.command("agent-loop")
@click.option("--command", required=True, metavar="COMMAND", help="Reads a prompt, and prints a file of Python.")
@click.option("--target", default="ch20.verified_search", show_default=True, metavar="TARGET", help="What to speed up.")
@click.option("--device", "-d", default="cpu", show_default=True, metavar="NAME", help="Device of the judges.")
@click.option("--rounds", default=10, show_default=True, type=click.IntRange(min=1), metavar="COUNT", help="Proposals.")
@click.option("--out", "-o", type=click.Path(path_type=Path), metavar="FILE", help="Write the best file here.")
@click.pass_obj
def agent_loop(plugins: Plugins, command: str, target: str, device: str, rounds: int, out: Path | None) -> None:
    """Ask a command for faster code, and judge what it prints.

    The command gets the target, the best file so far and the earlier verdicts on its standard input. Each answer passes
    four gates: rules, a small size, a short timing, and full judging. It runs in the sandbox of aiperf judge only. The
    command itself is yours, and runs without one.

    Example: aiperf ch20 agent-loop --command "my-model --stdin" --rounds 20 --out best.py
    """
    from aiperf_ch20.agent import judges, loop
    from aiperf_core.errors import UsageError

    selected = plugins.select((target,))
    if len(selected) != 1:
        raise UsageError(f"--target takes one target, such as practice.softmax; {target!r} matches {len(selected)}.")
    chosen = selected[0].target
    with judges(chosen.name, device) as judge:
        for number, (code, decision) in enumerate(loop(judge, command, chosen.name, _source(chosen.module), rounds), 1):
            speedup = f"  {decision.speedup:.2f}x" if decision.speedup is not None else ""
            click.echo(f"{number:3}  {decision.gate:5}  {decision.seconds:6.1f} s  {decision.reason}{speedup}")
            if decision.speedup is not None and out is not None:
                out.write_text(code)


@ch20.command("record-patches")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE")
def record_patches(file: Path) -> None:
    """Judge the patches of ch20.agent_loop, and write FILE."""
    from attrs import asdict

    from aiperf_ch20.agent import judges, record, recorded

    with judges("ch20.verified_search", "cpu") as judge:
        rows = []
        for patch in (record(judge, patch) for patch in recorded()):
            rows.append(asdict(patch))
            click.echo(f"{patch.kind:11}  {patch.wrong[0] if patch.wrong else f'{patch.speedup:.2f}x':6}  {patch.name}")
    file.write_text(json.dumps(rows, indent=1) + "\n")


def _source(module: str) -> str:
    """The text of a target's module, which is not imported."""
    from importlib.util import find_spec

    spec = find_spec(module)
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).read_text()
