"""What large bundles cost: their size on disk, and how long commands take that read them.

    python benchmarks/large_bundle.py [--targets 300] [--samples 1000000] [--out FILE.json]
    python benchmarks/large_bundle.py --report FILE.json

Makes a bundle as a run makes it, of half as many targets on a GPU as on a CPU, five rows a target, with the noise of
real
clocks: times drift and have tails, a CPU's clocks count nanoseconds, a GPU's events have the steps and the single
precision of CUDA's, and brackets are differences of double-precision readings. Then the commands run as a user runs
them, each in a process of its own; `compare` has the bundle and a copy. Wanted for 300 targets with a million samples
in all: at most 20 MB, `show`, `compare` and `report` at most 3 s each, `recheck` at most 30 s; ends with 1 where it is
more. The second form prints a file of the first.
"""

import argparse
import json
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from attrs import evolve

from aiperf_core.measurements import Ceilings, Samples
from aiperf_core.results import example
from aiperf_core.results.bundle import Bundle
from aiperf_core.results.filenames import TARGETS
from aiperf_core.results.machine import machine
from aiperf_core.results.models import Judgement, Row, Sighting, TargetResult, Verdict
from aiperf_core.stats.judge import judge
from aiperf_core.stats.standing import rules_of

ROWS = {"strided": 1.0, "control": 1.0, "coalesced": 0.5, "wide": 1.03, "memcpy": 0.45}
ROLES = {"strided": "baseline", "control": "control", "memcpy": "yardstick"}
ROUNDS, BLOCK = 3, 4
UPTIME_S = 1e5  # of the machine, on which the rounding of brackets depends
EVENT_STEP_S = 32e-9  # of an H200's events
LIMITS = {"megabytes": 20.0, "show": 3.0, "compare": 3.0, "report": 3.0, "recheck": 30.0}


def samples(rng: np.random.Generator, index: int, count: int, median_s: float, device: str) -> Samples:
    """Samples of one row, as the harness takes them: blocks in turn, every fifth on a GPU by the other clock."""
    passes = np.arange(count) // BLOCK
    drift = np.cumsum(rng.normal(0, 1e-4, count // BLOCK + 1))[passes]
    times = median_s * np.exp(drift + rng.normal(0, 0.004, count) + rng.exponential(0.002, count))
    ns = np.rint(times * 1e9)
    wall: list[float | None] = (ns / 1e9).tolist()
    device_s: list[float | None] = [None] * count
    hidden = [False] * count
    if device == "cuda":
        ms = (np.rint(times / EVENT_STEP_S) * EVENT_STEP_S * 1e3).astype(np.float32)
        other = np.arange(count) % (BLOCK + 1) == BLOCK
        device_s = [
            None if walled else one for one, walled in zip((ms.astype(float) / 1e3).tolist(), other, strict=True)
        ]
        wall = [one if walled else None for one, walled in zip(wall, other, strict=True)]
        hidden = [one is not None for one in device_s]
    started = UPTIME_S + np.cumsum(times * len(ROWS) + 1e-2)
    bracket = (started + times + rng.gamma(2, 2e-5, count)) - started
    throttled = rng.random(count // BLOCK + 1) < 0.02
    return Samples(
        round=(np.arange(count) * ROUNDS // count).tolist(),
        block=(passes * len(ROWS) + index).tolist(),
        step=np.arange(count).tolist(),
        device_s=device_s,
        wall_s=wall,
        cpu_s=((ns + np.rint(rng.gamma(2, 3e3, count))) / 1e9).tolist(),
        bracket_s=bracket.tolist(),
        hidden=hidden,
        judged=(rng.random(count) < 0.25).tolist(),
        calls=[1] * count,
        voluntary_switches=rng.poisson(0.2, count).tolist(),
        involuntary_switches=rng.poisson(0.1, count).tolist(),
        throttled=throttled[passes].tolist(),
        answered_s=((ns + np.rint(rng.gamma(2, 5e4, count))) / 1e9).tolist(),
        **example.of_trusted_code(count),
    )


def target(number: int, count: int, ceilings: dict[str, Ceilings]) -> TargetResult:
    """A target of `count` samples in all, with the figures that a run makes of them."""
    rng, device = np.random.default_rng(number), "cuda" if number % 3 == 0 else "cpu"
    clock = "device" if device == "cuda" else "wall"
    median_s = float(np.exp(rng.uniform(np.log(1e-3), np.log(2e-2))))
    like = example.result()
    rows, virtual = [], Sighting(example.VIRTUAL.issue, example.VIRTUAL.message, example.VIRTUAL.evidence)
    for index, (name, factor) in enumerate(ROWS.items()):
        taken = samples(rng, index, count // len(ROWS), median_s * factor, device)
        row = Row(name, ROLES.get(name, "variant"), device, Verdict.MEASURED, why="one line serves a whole warp")
        alone = (np.rint(median_s * factor * 1e9 * rng.normal(1, 0.004, 20)) / 1e9).tolist()
        rows.append(evolve(row, samples=taken, isolated_samples_s=alone, memory=example.PEAK, checked=[virtual]))
    problem = evolve(like.problem, bytes_read=median_s * 1e11, bytes_written=median_s * 1e11)
    found = evolve(
        like,
        target=f"ch{number % 20 + 1:02}.target_{number:03}",
        device=device,
        clock=clock,
        problem=problem,
        rows=rows,
    )
    found = evolve(found, rounds=ROUNDS, tier="standard", clock_overhead_s=1e-7)
    scored = [
        evolve(row, judgement=Judgement(1 + sum(row.samples.judged), problem.tolerance, 0.5), warmup_s=[median_s])
        for row in judge(rows, rules_of(found, ceilings[device]))
    ]
    order = [row.name for row in scored for _ in set(row.samples.block)]
    overhead = evolve(found.overhead, samples=sum(len(row.samples.block) for row in scored))
    return evolve(found, rows=scored, order=order, overhead=overhead)


def make(path: Path, targets: int, count: int) -> Bundle:
    """A bundle as a run leaves it, with so many samples in all."""
    bundle, like = Bundle.create_at(path), example.manifest()
    ceilings = {device: evolve(like.ceilings["cuda"], device=device) for device in ("cpu", "cuda")}
    for number in range(targets):
        bundle.write_target(target(number, count // targets, ceilings))
    packages = {**like.packages, "numpy": np.__version__}
    bundle.write_manifest(evolve(like, packages=packages, ceilings=ceilings, skipped=[], exit_code=0))
    return bundle


def timed(*arguments: str) -> dict[str, float]:
    """Seconds that one whole command takes, and those of processor time of all its processes.

    Raises SystemExit with what it said if it did not do its work.
    """
    start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([sys.executable, "-m", "aiperf_core", *arguments], capture_output=True, text=True)
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise SystemExit(f"aiperf {' '.join(arguments)}: {done.stdout[-2000:]}{done.stderr}")
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"wall": wall, "cpu": cpu}


def measure(targets: int, count: int, folder: Path) -> dict[str, Any]:
    """Make the bundle and its copy, run the commands, and return the figures."""
    one = make(folder / "one", targets, count)
    two = shutil.copytree(one.path, folder / "two")
    documents, columns = (
        sum(file.stat().st_size for file in (one.path / TARGETS).glob(pattern)) for pattern in ("*.json", "*.npz")
    )
    here = machine()
    left, right = str(one.path), str(two)
    return {
        "machine": f"{here.cpu}, {here.cores} logical CPUs, {here.python}, numpy {np.__version__}",
        "date": datetime.now(UTC).date().isoformat(),
        "targets": targets,
        "samples": count // targets * targets // len(ROWS) * len(ROWS),
        "document_bytes": documents,
        "sample_bytes": columns,
        "seconds": {
            "show": timed("show", left),
            "compare": timed("compare", left, right),
            "report": timed("report", left, "--out", str(folder / "report.html")),
            "recheck --seal-only": timed("recheck", left, "--seal-only"),
            "recheck": timed("recheck", left),
        },
    }


def report(found: dict[str, Any]) -> int:
    """Print the figures; return 1 where one is beyond what is wanted."""
    sizes = [found["document_bytes"] / 1e6, found["sample_bytes"] / 1e6]
    a_sample = found["sample_bytes"] / found["samples"]
    print(f"{found['machine']}; {found['date']}")
    print(f"{found['targets']} targets, {found['samples']:,} samples: {sum(sizes):.1f} MB on disk")
    print(f"  documents {sizes[0]:.1f} MB, samples {sizes[1]:.1f} MB ({a_sample:.1f} bytes a sample)")
    late = sum(sizes) > LIMITS["megabytes"]
    print(f"  {'':27}  wall  processors")
    for name, taken in found["seconds"].items():
        limit = LIMITS.get(name)
        late |= limit is not None and taken["wall"] > limit
        wanted = f"   wanted: at most {limit:g} s" if limit else ""
        print(f"  aiperf {name:20} {taken['wall']:5.1f} s {taken['cpu']:8.1f} s{wanted}")
    return int(late)


def main() -> int:
    """Measure and report, or report what was measured."""
    parser = argparse.ArgumentParser(description="What large bundles cost.")
    parser.add_argument("--targets", type=int, default=300)
    parser.add_argument("--samples", type=int, default=1_000_000, help="in all targets together")
    parser.add_argument("--out", type=Path, metavar="FILE", help="keep the figures")
    parser.add_argument("--report", type=Path, metavar="FILE", help="print figures that were kept")
    asked = parser.parse_args()
    if asked.report:
        return report(json.loads(asked.report.read_text()))
    with tempfile.TemporaryDirectory() as folder:
        found = measure(asked.targets, asked.samples, Path(folder))
    if asked.out:
        asked.out.write_text(json.dumps(found, indent=2) + "\n")
    return report(found)


if __name__ == "__main__":
    sys.exit(main())
