"""`aiperf ci`: run a suite of targets after each commit, and stop at a confirmed regression."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from aiperf_core.cli.measuring import json_option
from aiperf_core.cli.result_file import result_file_option, show_result
from aiperf_core.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from aiperf_analysis.ci.gating import Gated
    from aiperf_analysis.ci.suite import Suite

SUITE = click.argument("suite", type=click.Path(path_type=Path), metavar="SUITE")
CONCLUSIVE = click.option(
    "--require-conclusive", "conclusive", is_flag=True, help="Exit with 5 where a suspect is left."
)
REPORT = click.option(
    "--report", type=click.Path(path_type=Path, file_okay=False), metavar="FOLDER",
    help="Write the report to this folder. [default: FOLDER/NAME/report of the suite]",
)  # fmt: skip


@click.group("ci")
def ci() -> None:
    """Run a suite of targets continuously, and stop at a confirmed regression.

    Exit codes: 0 no change, or too few runs yet; 1 failed; 3 distrusted; 4 a confirmed regression; 5 inconclusive with
    --require-conclusive; 75 the machine is not fit now, so try later.
    """


@ci.command("init")
@click.argument("suite", type=click.Path(path_type=Path), metavar="[SUITE]", required=False)
@click.option("--systemd", "kind", flag_value="systemd", help="Print a unit with a persistent timer for SUITE.")
@click.option("--cron", "kind", flag_value="cron", help="Print a line of a crontab for SUITE.")
@click.option("--github", "kind", flag_value="github", help="Print a workflow of GitHub Actions for SUITE.")
@click.option("--gitlab", "kind", flag_value="gitlab", help="Print a job of GitLab for SUITE.")
def init(suite: Path | None, kind: str | None) -> None:
    """Print a suite to start from, or a scheduler's snippet.

    The snippet runs SUITE on a schedule. Nothing is installed.

    \b
    Examples:
      aiperf ci init > suite.toml
      aiperf ci init suite.toml --github
    """
    from aiperf_analysis.ci import templates

    if kind is None:
        click.echo(templates.SUITE, nl=False)
        return
    if suite is None:
        raise UsageError(f"--{kind} needs the suite that it runs: aiperf ci init --{kind} SUITE.toml")
    found = _read(suite)
    click.echo(templates.snippet(kind, suite, found.name, found.home, sys.executable), nl=False)


@ci.command("run")
@SUITE
@CONCLUSIVE
@REPORT
@json_option("the report as one JSON document")
def run(suite: Path, conclusive: bool, report: Path | None, as_json: bool) -> int:
    """Measure the targets of SUITE, confirm suspects once, and gate.

    Waits for the lock of the host and for a quiet machine, no longer than the suite says. The bundles are kept in the
    suite's folder.

    \b
    Examples:
      aiperf ci run suite.toml
    """
    found = _read(suite)
    from aiperf_analysis.ci import running
    from aiperf_core.devices.fitness import lock

    with lock(found.busy.wait_s):
        gated, ran = running.run(found, _say)
    problems = [one for one in (running.add_to_store(found, ran),) if one]
    bundles = [str(one.bundle) for one in ran]
    return _told(found, gated, bundles, problems, conclusive=conclusive, report=report, as_json=as_json, tell=True)


@ci.command("check")
@SUITE
@click.argument("bundles", nargs=-1, metavar="[BUNDLE]...")
@CONCLUSIVE
@REPORT
@json_option("the report as one JSON document")
def check(suite: Path, bundles: tuple[str, ...], conclusive: bool, report: Path | None, as_json: bool) -> int:
    """Gate the newest of the bundles that exist.

    They are those in the suite's folder, and each BUNDLE. Nothing is measured.
    """
    found = _read(suite)
    from aiperf_analysis.ci import accepted
    from aiperf_analysis.ci.accepted import applied
    from aiperf_analysis.ci.gating import decide, history

    selection = history(found, bundles)
    if not selection.runs and not selection.changed:
        raise UsageError(
            f"the suite '{found.name}' has no bundles in '{found.runs}'. Name some, or make some: aiperf ci run {suite}"
        )
    gated = applied(decide(found, selection), accepted.read(found))
    newest = [one.path for one in selection.runs[:1]]
    return _told(found, gated, newest, [], conclusive=conclusive, report=report, as_json=as_json, tell=False)


@ci.command("history")
@SUITE
@click.option("--metric", metavar="NAME", help="The figure. [default: that of the first gate]")
@result_file_option
@json_option("the result as one JSON document")
def history(suite: Path, metric: str | None, **values: Any) -> ExitCode:
    """Show the history of SUITE, as aiperf analyze history does."""
    found = _read(suite)
    from aiperf_analysis.analyses.history import Options, analyze
    from aiperf_analysis.ci import accepted
    from aiperf_analysis.ci.gating import decide
    from aiperf_analysis.ci.gating import history as runs_of
    from aiperf_analysis.cli.analyze import output_of
    from aiperf_analysis.sizes import analyzed
    from aiperf_core.analysis_options import from_texts

    first = found.gates[0] if found.gates else None
    texts = {"metric": metric or (first.metric if first else "time"), "order": "created"}
    if first is not None and first.floor is not None:
        texts["floor"] = str(first.floor)
    selection = runs_of(found)
    gated = accepted.applied(decide(found, selection), accepted.read(found))
    options = from_texts(Options, texts)
    return output_of(values, selection, lambda: accepted.shown(analyzed(analyze, selection, options), gated))


@ci.command("accept")
@SUITE
@click.argument("series", metavar="SERIES")
@click.option("--because", required=True, metavar="REASON", help="It is shown in the history.")
def accept(suite: Path, series: str, because: str) -> None:
    """Accept a regression in the newest run of SUITE.

    SERIES is a target:implementation. Its present level is not flagged again; a worse one is. Who accepted it, when and
    why is kept in the suite's folder.

    \b
    Examples:
      aiperf ci accept suite.toml ch07.gather:sorted --because 'more exact'
    """
    found = _read(suite)
    from aiperf_analysis.ci import accepted
    from aiperf_analysis.ci.gating import decide, history

    gated = accepted.applied(decide(found, history(found)), accepted.read(found))
    for one in accepted.accept(found, gated, series, because):
        _say(f"{one.series}, {one.metric}: {one.sentence}")


@ci.command("bisect")
@click.argument("good")
@click.argument("bad")
@SUITE
@click.option(
    "--runs",
    type=click.IntRange(5, 100),
    default=8,
    show_default=True,
    metavar="COUNT",
    help="Runs of the good commit.",
)
@click.option(
    "--build", metavar="COMMAND", help="Prepare each commit with this command. It is started without a shell."
)
def bisect(good: str, bad: str, suite: Path, runs: int, build: str | None) -> ExitCode:
    """Find the commit that made SUITE slower.

    It lies between GOOD and BAD; git bisect looks for it.

    GOOD is measured several times; each commit is held to these runs. The code that is measured must come from the
    working tree, as after pip install -e.
    """
    found = _read(suite)
    from aiperf_analysis.ci import bisect as bisection
    from aiperf_core.devices.fitness import lock

    with lock(found.busy.wait_s):
        done = bisection.bisect(found, good, bad, build, _say, runs)
    if done.commit is None:
        click.echo(done.told)
        return ExitCode.INCONCLUSIVE
    click.echo(f"the first bad commit: {done.commit}")
    return ExitCode.OK


@ci.command("pair")
@click.option("--base", required=True, metavar="COMMIT", help="The commit that is compared with.")
@click.option("--head", default="HEAD", show_default=True, metavar="COMMIT", help="The commit that is judged.")
@click.option("--build", metavar="COMMAND", help="Prepare each side once with this command, without a shell.")
@click.option(
    "--pairs", type=click.IntRange(5, 1000), default=10, show_default=True, metavar="COUNT", help="Pairs of runs."
)
@click.option("--statistic", metavar="NAME", help="Such as mean, median or min. [default: the median, else the mean]")
@click.option(
    "--floor",
    type=click.FloatRange(0, 1, max_open=True),
    default=0.01,
    show_default=True,
    metavar="FRACTION",
    help="The smallest difference that matters.",
)
@click.option(
    "--require-conclusive", "conclusive", is_flag=True, help="Exit with 5 where a benchmark is left undecided."
)
@result_file_option
@json_option("the result as one JSON document")
@click.argument("command", nargs=-1, required=True, metavar="-- COMMAND...")
def pair(
    base: str,
    head: str,
    build: str | None,
    pairs: int,
    statistic: str | None,
    floor: float,
    conclusive: bool,
    out: Path | None,
    as_json: bool,
    command: tuple[str, ...],
) -> ExitCode:
    """Compare the benchmarks of two commits, in pairs of fresh runs.

    COMMAND runs benchmarks of pytest-benchmark, google-benchmark, nvbench or hyperfine, in a worktree of each side, and
    writes their JSON to the file {out}. Both sides take turns. A suspect is confirmed or refuted by as many new pairs.
    What is not committed is not measured. --out FILE.md writes a summary for a pull request.

    Exit codes: 0 no regression; 1 a build or a run failed; 4 a confirmed regression; 5 with --require-conclusive, where
    a benchmark is gone, too noisy, or a suspect.

    \b
    Examples:
      aiperf ci pair --base main -- pytest bench --benchmark-json={out}
      aiperf ci pair --base v1 --build make -- hyperfine --export-json {out} ./a
    """
    from aiperf_analysis.ci import pair as pairing
    from aiperf_analysis.ci.paired import report

    plan = pairing.Plan(base=base, head=head, command=command, build=build, pairs=pairs)
    commits = plan.commits()
    folder = pairing.new_folder(commits)
    first, second = pairing.run(plan, commits, folder, statistic, floor, _say)
    repeat = pairing.repeat(plan, commits, statistic, floor)
    result = report(first, second, statistic, floor, commits, repeat, str(folder))
    code = show_result(result, out, as_json=as_json)
    undecided = any(
        record.cells["verdict"] in ("SUSPECT", "INCONCLUSIVE", "TOO NOISY") for record in result.tables[0].records
    )
    return ExitCode.INCONCLUSIVE if conclusive and undecided and code == ExitCode.OK else code


def _read(path: Path) -> "Suite":
    from aiperf_analysis.ci.suite import FORMAT

    return FORMAT.read(path)


def _say(text: str) -> None:
    from aiperf_core.names import words

    click.echo(words(text), err=True)


def _told(
    suite: "Suite",
    gated: "Gated",
    bundles: list[str],
    problems: list[str],
    *,
    conclusive: bool,
    report: Path | None,
    as_json: bool,
    tell: bool,
) -> int:
    """Write the report, show it, and return the exit code."""
    from aiperf_analysis.ci import running
    from aiperf_analysis.ci.report import HEADS, Report, rows, write
    from aiperf_core.cli.tables import print_table, print_text
    from aiperf_core.results import jsontext

    code = gated.exit_code(conclusive=conclusive)
    labels = {**running.labels_of_commit(), **suite.labels, "suite": suite.name}
    found = Report(suite, gated, code, bundles, labels, problems)
    text = jsontext.dumps(found.document)
    write(found, report or suite.home / "report")
    if tell and (failed := running.notify(suite, text)):
        problems.append(f"notify: {failed}")
    for one in problems:
        _say(one)
    if as_json:
        click.echo(text, nl=False)
    else:
        print_text(found.headline)
        print_table(HEADS, rows(found))
    return code
