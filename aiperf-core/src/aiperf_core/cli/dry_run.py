"""`aiperf run --dry-run`: show what a run would measure, and measure nothing."""

from typing import TYPE_CHECKING

import click

from aiperf_core import units
from aiperf_core.cli.measuring import echo_json
from aiperf_core.cli.tables import print_table
from aiperf_core.errors import ExitCode
from aiperf_core.names import words

if TYPE_CHECKING:
    from aiperf_core.harness.run.bundle_run import BundleRun, Preview


def dry_run(run: "BundleRun", *, as_json: bool) -> int:
    """Print the targets and implementations of a run, with its estimated time."""
    from attrs import asdict

    from aiperf_core.cli.run_view import estimate

    previews, skipped = run.preview()
    seconds, unknown = sum(one.seconds for one in previews), sum(not one.known for one in previews)
    if as_json:
        left_out = [{"target": one.target, "verdict": str(one.verdict), "reason": one.reason} for one in skipped]
        targets = [asdict(one, filter=lambda field, _: field.name != "described") for one in previews]
        echo_json({"targets": targets, "skipped": left_out, "seconds": seconds, "unknown": unknown})
        return ExitCode.OK
    rows = [(words(one.target), one.device, one.size, one.tier, _time(one), _implementations(one)) for one in previews]
    rows += [(words(one.target), "", "", "", str(one.verdict), words(one.reason)) for one in skipped]
    print_table(("target", "device", "size", "tier", "time", "implementations"), rows)
    count = "1 target" if len(previews) == 1 else f"{len(previews)} targets"
    click.echo(f"\n{count}: {estimate(seconds, len(previews), unknown)}. Nothing was measured.")
    return ExitCode.OK


def _time(preview: "Preview") -> str:
    return f"{'about' if preview.known else 'at least'} {units.span(preview.seconds)}"


def _implementations(preview: "Preview") -> str:
    """The names of the implementations that run, and of those that do not with their reasons."""
    skipped = [f"{words(name)} ({words(reason)})" for name, reason in preview.skipped.items()]
    return ", ".join(map(words, preview.implementations)) + (f"; skipped: {', '.join(skipped)}" if skipped else "")
