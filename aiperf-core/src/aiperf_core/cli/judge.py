"""`aiperf judge`: benchmark untrusted code in a sandbox."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from aiperf_core.candidate_format import AIPERF, Format, Reference, known_format
from aiperf_core.cli.color import color_option
from aiperf_core.cli.measuring import Measuring, measuring_options, server_ahead
from aiperf_core.cli.refusal import refused
from aiperf_core.errors import ExitCode, UsageError
from aiperf_core.plugins import Plugins
from aiperf_core.targets import InstalledTarget, Selection

if TYPE_CHECKING:
    from aiperf_core.tolerance import Tolerance


def _known(context: click.Context, _: click.Parameter, name: str) -> Format:
    return known_format(name, context.obj.known_formats)


@click.command("judge")
@click.argument("candidate", type=click.Path(path_type=Path), required=False, metavar="CANDIDATE.py")
@click.option(
    "--target",
    required=True,
    metavar="TARGET[:BASELINE]",
    help="Target that the candidate implements, and the baseline to compare with.",
)
@click.option(
    "--format",
    "kind",
    default=AIPERF.name,
    show_default=True,
    metavar="NAME",
    callback=_known,
    help="How candidate and reference are written: aiperf, kernelbench (CANDIDATE.py defines ModelNew; --target is a "
    "file with Model, get_inputs, get_init_inputs), flashinfer-trace (JSON), or a plugin's format (aiperf plugins).",
)
@click.option(
    "--tolerance",
    type=float,
    metavar="NUMBER",
    help="Largest relative L2 error, in place of that of the target; 0 demands equal bits. Needs --tolerance-reason.",
)
@click.option("--tolerance-reason", metavar="REASON", help="Why that tolerance is right; it stands in the result.")
@click.option("--watch", is_flag=True, help="Judge again whenever CANDIDATE.py or the reference is saved.")
@click.option(
    "--serve",
    "socket",
    type=click.Path(path_type=Path),
    metavar="SOCKET",
    help="Judge candidates that programs send as JSON lines to this socket, without CANDIDATE.py.",
)
@measuring_options(timeout_s=30.0, scope="")
@color_option
@click.pass_obj
def judge(
    plugins: Plugins,
    candidate: Path | None,
    target: str,
    kind: Format,
    tolerance: float | None,
    tolerance_reason: str | None,
    watch: bool,
    socket: Path | None,
    measuring: Measuring,
) -> int:
    """Benchmark untrusted code in a sandbox, against the baseline of a target.

    CANDIDATE.py defines `class Implementation` with `run(self, ...)` and an optional `prepare(self, ...)`. The
    parameters are inputs and sizes of the target. The candidate runs in a sandboxed process that holds no reference,
    tolerance or seed. Another process makes the verdict. Exit code 3: the candidate is INVALID. A file that was INVALID
    three times is refused until it changes.

    With --watch and --serve the processes stay warm between verdicts. --serve answers each line with a line; see the
    documentation on judging.

    \b
    Examples:
      aiperf judge softmax.py --target practice.softmax
      aiperf judge model.py --format kernelbench --target reference.py
    """
    if (candidate is None) == (socket is None) or (watch and socket is not None):
        raise UsageError("Give CANDIDATE.py, with --watch or without, or --serve SOCKET. See: aiperf judge --help")
    server = server_ahead()
    if watch or socket is not None:
        from aiperf_core.cli.judging import Judging
        from aiperf_core.harness.run.options import Overrides

        accepted = _tolerance(tolerance, tolerance_reason)
        selection, baseline = _selection(plugins, target, kind)
        judging = Judging(server, plugins, selection, kind, Overrides(baseline=baseline, tolerance=accepted), measuring)
        return judging.serve(socket) if socket is not None else judging.watch(candidate or Path())
    assert candidate is not None
    from aiperf_core.cli.resuming import execute
    from aiperf_core.cli.run_view import RunView, consoles
    from aiperf_core.formats.candidate import check_candidate
    from aiperf_core.harness.run.bundle_run import BundleRun, NewBundle
    from aiperf_core.harness.run.options import Overrides
    from aiperf_core.harness.run.request import ResolvedRequest
    from aiperf_core.validity import quarantine

    accepted = _tolerance(tolerance, tolerance_reason)
    selection, baseline = _selection(plugins, target, kind)
    source = check_candidate(candidate, kind, plugins.known_formats)
    quarantine.refuse_known(source)
    options = measuring.options(candidate=source, overrides=Overrides(baseline=baseline, tolerance=accepted))
    screen, err = consoles()
    view = RunView(err, quiet=measuring.quiet)
    request = ResolvedRequest([selection], options)
    new = NewBundle(name=selection.target.name, out=measuring.out, labels=measuring.labels)
    planned = BundleRun(server, plugins, request, new, view)
    code = execute(planned, view, screen, as_json=measuring.as_json)
    for result in planned.results:
        quarantine.note(source, result)
    return ExitCode.USAGE if refused(selection.target, planned.results) else code


def _tolerance(rel_l2: float | None, reason: str | None) -> "Tolerance | None":
    """The tolerance that the user asks for."""
    from aiperf_core.tolerance import Tolerance

    if rel_l2 is None and reason is None:
        return None
    if rel_l2 is None or not (reason and reason.strip()):
        raise UsageError("--tolerance and --tolerance-reason go together; the reason stands in the result.")
    if not 0 <= rel_l2 < 1:
        raise UsageError(f"--tolerance takes a relative error from 0 up to 1; got {rel_l2:g}.")
    return Tolerance(rel_l2, " ".join(reason.split()), name="requested")


def _selection(plugins: Plugins, target: str, kind: Format) -> tuple[Selection, str | None]:
    """The target, and the name of the baseline if given."""
    if kind.resolve().needs_reference:
        return Selection(_referenced(Path(target), kind)), None
    name, _, baseline = target.partition(":")
    selections = plugins.select((name,))
    if len(selections) != 1:
        raise UsageError(f"--target takes one target, such as practice.matmul; {name!r} matches {len(selections)}.")
    return Selection(selections[0].target), baseline or None


def _referenced(path: Path, kind: Format) -> InstalledTarget:
    """The target of a reference file."""
    if not path.is_file():
        raise UsageError(f"--target '{path}' is not a file; --format {kind.name} needs the file of the reference.")
    module = Reference(kind.load, path.resolve()).module
    return InstalledTarget(f"{kind.name}.{path.stem}", module, f"the reference of {path.name}")
