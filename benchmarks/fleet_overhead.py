"""The overhead of a fleet: the time of a task beyond that of `aiperf run` itself.

    python benchmarks/fleet_overhead.py [--on here slurm ray] [--tasks 6] --out figures.json

A stub stands for the measurement, so that a task is nothing but overhead: submission, start of Python on the machine,
delivery, check of the seal, fleet file. Slurm and Ray are clusters of three nodes on this machine, started and ended by
the script. The figure of an engine is the wall time of the fleet by its tasks, times the number of machines, less the
time of the stub alone.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import nullcontext
from pathlib import Path

ROOT = Path(__file__).parents[1]
TESTS = ROOT / "aiperf-fleet" / "tests"
sys.path.append(str(TESTS))
LIMIT_S = 10.0


def main(arguments=None):
    """Measure, print a line for each engine, and write the figures; 1 where an engine is beyond the limit."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--on", nargs="+", default=["here", "slurm", "ray"], choices=["here", "slurm", "ray"])
    parser.add_argument("--tasks", type=int, default=6)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="fleet-overhead-") as folder:
        found = {engine: of_engine(engine, given.tasks, Path(folder) / engine) for engine in given.on}
    document = {"load": os.getloadavg()[0], "processors": os.cpu_count(), "limit_s": LIMIT_S, "engines": found}
    given.out.write_text(json.dumps(document, indent=2) + "\n")
    for engine, one in found.items():
        verdict = "within" if one["overhead_s"] <= LIMIT_S else "BEYOND"
        print(
            f"{engine}: {one['overhead_s']:.2f} s a task, {verdict} {LIMIT_S:g} s; "
            f"{one['tasks']} tasks in {one['wall_s']:.1f} s"
        )
    return int(any(one["overhead_s"] > LIMIT_S for one in found.values()))


def of_engine(engine, tasks, folder):
    """The times of a fleet of stubs."""
    folder.mkdir()
    stub = folder / "stub"
    stub.mkdir()
    python = stub / "python"
    python.write_text(f'#!/bin/sh\nexport STUB={stub}\nexec {sys.executable} {TESTS}/stub_machine.py "$@"\n')
    python.chmod(0o755)
    target = json.loads(aiperf("list", "--json"))[0]["name"]
    suite = folder / "suite.toml"
    suite.write_text(f'name = "overhead"\ntargets = ["{target}"]\nrepeats = {tasks}\n')
    with cluster(engine, folder) as running:
        machines = len(running.nodes) if running else 1
        environment = running.environment if running else {}
        began = time.monotonic()
        printed = aiperf(
            "fleet", "run", str(suite), "--on", engine, "--out", str(folder / "f"), "--python", str(python),
            "--poll", "0.2", "--json", "--quiet", **environment,
        )  # fmt: skip
        wall_s = time.monotonic() - began
    states = [task["attempts"][-1]["ending"] for task in json.loads(printed)["fleet"]["tasks"]]
    assert states == ["DONE"] * tasks, states
    alone_s = statistics.median(stub_alone(python, folder, target) for _ in range(3))
    return {
        "tasks": tasks,
        "machines": machines,
        "wall_s": wall_s,
        "stub_s": alone_s,
        "overhead_s": max(0.0, wall_s * machines / tasks - alone_s),
    }


def cluster(engine, folder):
    """The cluster of an engine; None for this machine."""
    if engine == "here":
        return nullcontext()
    from local_ray import LocalRay
    from local_slurm import LocalSlurm

    return {"slurm": LocalSlurm, "ray": LocalRay}[engine](folder / "cluster")


def stub_alone(python, folder, target):
    """The seconds of the stub alone."""
    from aiperf_fleet.machine import Order, to_text

    order = to_text(Order(["run", target]))
    given = {"AIPERF_FLEET_RESULT": str(folder / "alone"), "AIPERF_FLEET_MACHINE": "alone"}
    began = time.monotonic()
    subprocess.run([python, "-m", "aiperf_fleet.machine", order], env={**os.environ, **given}, check=True)
    return time.monotonic() - began


def aiperf(*arguments, **environment):
    """What a command prints. Fails with its messages."""
    line = [sys.executable, "-m", "aiperf_core", *arguments]
    done = subprocess.run(line, capture_output=True, text=True, env={**os.environ, **environment}, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
