"""Whether a dashboard that follows a run changes its verdicts: A/A comparisons with the live page open, and without.

    python benchmarks/dashboard_trust.py --runs 500 --out dashboard-trust.jsonl [--device cpu] [--budget SECONDS]
    python benchmarks/dashboard_trust.py --report dashboard-trust.jsonl

The target is that of `trust.py`, whose baseline stands twice more among its variants: FASTER or SLOWER is false there.
Each repetition measures it twice on this machine, once while a server shows the run and a client follows its events;
which comes first changes. Runs are appended to the file, and those that it has are not made again. Wanted: at most 5 %
false verdicts in either, and no more with the dashboard than without: the 95 % interval of the difference (Newcombe,
Statistics in Medicine 17, 1998) does not lie above 0. The comparisons of a run share their baseline, so the intervals
are a little too narrow. Ends with 1 where that is not so, or where there are fewer repetitions than wanted.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import cattrs
import trust
from attrs import frozen

from aiperf_core.errors import AiperfError, UsageError
from aiperf_core.events import RunFinished, RunStarted, TargetStarted
from aiperf_core.harness.run.bundle_run import Relay
from aiperf_core.harness.run.from_python import Silent
from aiperf_core.harness.run.options import TIERS, AtEnd, Options
from aiperf_core.plugins import load_plugins
from aiperf_core.results.models import Verdict
from aiperf_core.stats.intervals import half_width

WANTED_RUNS, MOST_FALSE = 500, 0.05
NAME = "trust.slowdown"
# Opens the page of the run of a process, follows its events to the end, and prints their number.
FOLLOW = """
import http.client, sys, time
from aiperf_analysis.live.tail import live_runs
host, pid = sys.argv[1], int(sys.argv[2])
print("ready", flush=True)
while not (found := [one for one in live_runs() if one.newest.get("pid") == pid and one.state == "running"]):
    time.sleep(0.02)
connection = http.client.HTTPConnection(host)
for path in (f"/live/{found[0].name}", f"/api/v1/live/{found[0].name}/events"):
    connection.request("GET", path)
    answer = connection.getresponse()
    assert answer.status == 200, answer.status
    if path.startswith("/live"):
        answer.read()
print(sum(line.startswith(b"event:") for line in answer))
"""


@frozen
class Line:
    """A run: a line of the file. `events`: those that the client got; None for a run without a dashboard."""

    repetition: int
    events: int | None
    run: trust.RunLine


class Watched:
    """Tells the observers of the installed packages how runs go on, as `aiperf run` does."""

    def __init__(self, device: str) -> None:
        self._plugins = load_plugins()
        self._device = device
        self._relay = Relay(NAME, Silent(), self._plugins)
        self.phase, self.progress = self._relay.phase, self._relay.progress

    @contextmanager
    def run(self) -> Iterator[None]:
        """A run, from its start to its end."""
        hook = self._plugins.hook
        hook.aiperf_run_started(run=RunStarted(targets=(NAME,), device=self._device, bundle=""))
        hook.aiperf_target_started(target=TargetStarted(name=NAME, index=1, total=1))
        try:
            yield
        finally:
            hook.aiperf_run_finished(bundle=RunFinished(path="", exit_code=0))


@contextmanager
def dashboard(folder: Path) -> Iterator[list[int]]:
    """A server with a client that follows the run which begins next. The list gets the number of its events."""
    command = [sys.executable, "-m", "aiperf_core", "dashboard", str(folder), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        found = re.search(r"127\.0\.0\.1:\d+", server.stdout.readline())
        if found is None:
            raise AiperfError("the dashboard did not start; see its message above")
        client = subprocess.Popen(
            [sys.executable, "-c", FOLLOW, found[0], str(os.getpid())], stdout=subprocess.PIPE, text=True
        )
        assert client.stdout is not None
        try:
            client.stdout.readline()
            events: list[int] = []
            yield events
            said, _ = client.communicate(timeout=30)
            if client.returncode != 0 or int(said) == 0:
                raise AiperfError(f"the client of the dashboard got {said.strip() or 'no'} events")
            events.append(int(said))
        finally:
            client.kill()
            client.stdout.close()
            client.wait()
            server.terminate()


def make_runs(options: Options, repetitions: int, out: Path) -> None:
    """Make the runs that the file does not have yet, and append them to it."""
    assert options.device is not None
    done = {(one.repetition, one.events is not None) for one in read_lines(out)} if out.exists() else set()
    wanted = (
        (number, with_it) for number in range(repetitions) for with_it in ((True, False), (False, True))[number % 2]
    )
    missing = [one for one in wanted if one not in done]
    out.parent.mkdir(parents=True, exist_ok=True)
    processor = trust.processor_of(options.device)
    budget_s = TIERS[options.tier].budget_s if options.budget_s is None else options.budget_s
    watched = Watched(options.device)
    with tempfile.TemporaryDirectory(prefix="aiperf-dashboard-trust-") as place, out.open("a") as file:
        logs, shown = Path(place) / "logs", Path(place) / "shown"
        for folder in (logs, shown):
            folder.mkdir()
        results = trust.results(options, logs, watched)
        for number, with_it in missing:
            events = None
            if with_it:
                with dashboard(shown) as counted, watched.run():
                    result = next(results)
                (events,) = counted
            else:
                with watched.run():
                    result = next(results)
            line = Line(number, events, trust.line_of(result, number, "", processor, budget_s))
            file.write(json.dumps(cattrs.unstructure(line)) + "\n")
            file.flush()
            print(f"{'with' if with_it else 'without'}: {trust.told(line.run)}", flush=True)


def read_lines(path: Path) -> list[Line]:
    """The runs of a file. Raises UsageError for a file that cannot be read, and for a line that is not a run's."""
    converter = cattrs.Converter(forbid_extra_keys=True)
    try:
        return [converter.structure(json.loads(text), Line) for text in path.read_text().splitlines()]
    except OSError as error:
        raise UsageError(f"'{path}' cannot be read: {error.strerror}. Make it with: --runs 500 --out {path}") from None
    except (ValueError, TypeError, AttributeError, KeyError, cattrs.BaseValidationError) as error:
        raise UsageError(
            f"'{path}' holds a line that is not a run: {error}. Take it out; it can be made again."
        ) from None


def false_verdicts(lines: list[Line]) -> tuple[int, int]:
    """False verdicts, and comparisons of the baseline with itself."""
    said = [line.run.rows[name].verdict for line in lines for name in trust.SAME if name in line.run.rows]
    said = [one for one in said if one in trust.COMPARED]
    return sum(one in (Verdict.FASTER, Verdict.SLOWER) for one in said), len(said)


def difference(first: tuple[int, int], second: tuple[int, int]) -> tuple[float, float, float]:
    """The difference of two proportions with its interval, by Newcombe's method 10."""
    (hits, of), (others, of_others) = first, second
    one, other = hits / max(1, of), others / max(1, of_others)
    (low, high), (low_other, high_other) = trust.wilson(*first), trust.wilson(*second)
    below = ((one - low) ** 2 + (high_other - other) ** 2) ** 0.5
    above = ((high - one) ** 2 + (other - low_other) ** 2) ** 0.5
    return one - other, one - other - below, one - other + above


def report(lines: list[Line], least: int = WANTED_RUNS) -> int:
    """Print the rates of both kinds of runs, and their difference; 1 where the claim does not hold."""
    sides = {
        True: [one for one in lines if one.events is not None],
        False: [one for one in lines if one.events is None],
    }
    found = {}
    for with_it, runs in sides.items():
        found[with_it] = false_verdicts(runs)
        widths = [half_width(row.speedup) for one in runs for row in one.run.rows.values() if row.speedup is not None]
        width = f"; median half width {median(widths):.2%}" if widths else ""
        print(f"{'with the dashboard' if with_it else 'without'}: {len(runs)} runs; false verdicts "
              f"{trust.proportion(*found[with_it])}{width}")  # fmt: skip
    middle, low, high = difference(found[True], found[False])
    print(f"difference {100 * middle:+.2f} % (95 % interval {100 * low:+.2f} % to {100 * high:+.2f} %)")
    enough = min(map(len, sides.values())) >= least
    if not enough:
        print(f"too few runs: {least} of each kind are wanted")
    honest = all(hits <= MOST_FALSE * of for hits, of in found.values())
    return int(not (enough and honest and low <= 0))


def main() -> int:
    """Make runs and report them; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=WANTED_RUNS, help=f"of each kind ({WANTED_RUNS})")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--tier", choices=tuple(TIERS), default="quick")
    parser.add_argument("--budget", type=float, metavar="SECONDS", help="sampling time of a run (the tier's)")
    parser.add_argument("--out", type=Path, default=Path("dashboard-trust.jsonl"), help="where runs are appended")
    parser.add_argument("--report", type=Path, metavar="FILE", help="report the runs of this file only")
    asked = parser.parse_args()
    if asked.runs < 1 or (asked.budget is not None and not asked.budget > 0):
        parser.error("--runs and --budget must be above 0")
    try:
        if asked.report is None:
            at_end = AtEnd(audit=False, energy=False)
            options = Options(device=asked.device, tier=asked.tier, budget_s=asked.budget, at_end=at_end)
            make_runs(options, asked.runs, asked.out)
        return report(read_lines(asked.report or asked.out), asked.runs)
    except AiperfError as error:
        print(f"error: {error}", file=sys.stderr)
        return int(error.exit_code)
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
