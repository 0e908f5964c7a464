"""A/A comparisons with and without Ray's daemons beside them: whether a node of Ray makes results less certain.

    python benchmarks/fleet_ray_noise.py [--pairs 8] [--minutes 8] [--target practice.sum_rows] --out figures.json

Each pair runs the target once without Ray and once on a machine with an idle head of Ray (dashboard off), in changing
order, and waits for idle processors before each run. The tier is standard, so that each run also compares the baseline
with itself. The figures are written after each pair, and the same command again adds pairs to them, until there are
`--pairs`. Reported are, for both: how many of these comparisons have an interval without 1, the spread of the
baseline's median time over runs, and the ratio of the times with its interval from the pairs.

Exit code 0: all pairs are there. 5: some are missing, so call it again. 1: runs without a trusted baseline and control.
"""

import argparse
import json
import math
import os
import platform
import subprocess
import sys
import tempfile
import time
from contextlib import nullcontext
from pathlib import Path
from statistics import mean, stdev

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "aiperf-fleet" / "tests"))
KINDS = ("without", "with")
# What must be the same where pairs are added.
SAME = ("target", "size", "budget_s", "host", "processors")
MOST_VOID = 3
# Ray is busy for a while after its start.
IDLE, IDLE_S = 0.1, 60.0


def main(arguments=None, runner=None):
    """Measure the missing pairs while there is time, print, and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=8, help="pairs in all (8)")
    parser.add_argument("--minutes", type=float, default=8.0, help="the time for pairs of this call (8)")
    parser.add_argument("--target", default="practice.sum_rows")
    parser.add_argument("--size", default="cpu")
    parser.add_argument("--budget", type=float, default=2.0, metavar="SECONDS", help="sampling time of a run (2)")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="the figures; pairs in it are kept")
    given = parser.parse_args(arguments)
    if given.pairs < 2:
        parser.error("--pairs takes at least 2")
    document = {"target": given.target, "size": given.size, "budget_s": given.budget}
    document |= {"host": platform.node(), "processors": os.cpu_count(), "pairs": [], "void": []}
    if given.out.exists():
        before = json.loads(given.out.read_text())
        if differ := [name for name in SAME if before.get(name) != document[name]]:
            parser.error(
                f"'{given.out}' has pairs with another {differ[0]}: {before.get(differ[0])}. Name another --out."
            )
        document |= {name: before[name] for name in ("pairs", "void")}
    measure(document, given, runner or run)
    return report(document, given.pairs)


def measure(document, given, runner):
    """Add pairs. One begins only if the longest so far would end in time, and is dropped if it does not."""
    given.deadline, longest, void = time.monotonic() + 60 * given.minutes, 0.0, 0
    while len(document["pairs"]) < given.pairs and void < MOST_VOID and time.monotonic() + longest < given.deadline:
        began, number = time.monotonic(), len(document["pairs"]) + len(document["void"])
        try:
            pair = {kind: runner(given, kind) for kind in (KINDS if number % 2 else KINDS[::-1])}
        except subprocess.TimeoutExpired:
            break
        longest = max(longest, time.monotonic() - began)
        trusted = all(one["time_s"] and one["control"] for one in pair.values())
        document["pairs" if trusted else "void"].append(pair)
        void += not trusted
        if len(document["pairs"]) > 1:
            document |= figures(document["pairs"])
        whole = given.out.with_suffix(".part")
        whole.write_text(json.dumps(document, indent=2) + "\n")
        whole.replace(given.out)
        print(f"pair {number + 1}: {time.monotonic() - began:.0f} s{'' if trusted else ', not trusted'}", flush=True)


def run(given, kind):
    """The median time of the baseline, and the interval of its speedup over itself; null if they are untrusted."""
    from local_ray import LocalRay

    with tempfile.TemporaryDirectory(prefix="ray-noise-") as folder:
        out = Path(folder) / "bundle"
        line = ["run", given.target, "--device", "cpu", "--size", given.size, "--tier", "standard", "--quiet"]
        line = [sys.executable, "-m", "aiperf_core", *line, "--budget", str(given.budget), "--out", str(out)]
        with LocalRay(Path(folder) / "ray", nodes=1) if kind == "with" else nullcontext():
            busy = wait_for_idle(given.deadline)
            left_s = max(0.1, given.deadline - time.monotonic())
            subprocess.run(line, stdout=subprocess.DEVNULL, check=False, timeout=left_s)
        (file,) = (out / "targets").glob("*.json")
        rows = {one["role"]: one for one in json.loads(file.read_text())["rows"]}
    time_s, speedup = rows["baseline"]["time_s"], rows["control"]["speedup"]
    return {
        "time_s": time_s and time_s["value"],
        "control": speedup and [speedup["low"], speedup["high"]],
        "busy": busy,
    }


def wait_for_idle(deadline):
    """Wait until the processors are idle, at most for a while; the share of them that is busy then."""
    import psutil

    deadline = min(deadline, time.monotonic() + IDLE_S)
    while (busy := psutil.cpu_percent(1.0) / 100) > IDLE and time.monotonic() < deadline:
        pass
    return busy


def figures(pairs):
    """The figures of both kinds, and the ratio of the times."""
    runs = {kind: [one[kind] for one in pairs] for kind in KINDS}
    return {kind: summary(found) for kind, found in runs.items()} | {"ratio": ratio(runs)}


def summary(runs):
    """The figures of the runs of one kind."""
    logs = [math.log(one["time_s"]) for one in runs]
    without_1 = sum(not low <= 1 <= high for low, high in (one["control"] for one in runs))
    return {"runs": len(runs), "without_1": without_1, "spread": stdev(logs)}


def ratio(runs):
    """The ratio and its 95 % interval, from the pairs."""
    from aiperf_core.stats.distributions import t_end

    pairs = zip(runs["with"], runs["without"], strict=True)
    logs = [math.log(one["time_s"] / other["time_s"]) for one, other in pairs]
    half = t_end(len(logs) - 1) * stdev(logs) / math.sqrt(len(logs))
    return [math.exp(mean(logs) + one) for one in (-half, 0.0, half)]


def report(document, wanted):
    """Print the figures; the exit code."""
    there = len(document["pairs"])
    if "ratio" in document:
        for kind in KINDS:
            one = document[kind]
            wrong = f"{one['without_1']} of {one['runs']} A/A intervals without 1"
            print(f"{kind} Ray: {wrong}, spread of runs {one['spread']:.2%}")
        low, middle, high = document["ratio"]
        print(f"time with Ray by the time without: {middle:.4f} [{low:.4f}, {high:.4f}]")
    print(f"{there} of {wanted} pairs" + (f", {len(document['void'])} not trusted" if document["void"] else ""))
    if there >= wanted:
        return 0
    return 1 if not there and document["void"] else 5


if __name__ == "__main__":
    sys.exit(main())
