"""How long a verdict takes, and where the time goes.

    python benchmarks/time_to_verdict.py [TARGET ...] [--tiers quick standard] [--device cpu|cuda] [--out FILE.json]

Runs the installed command as a user would, each time in a fresh process, and twice for each target and tier: `cold`, with
empty caches, so that kernels are compiled and the ceilings measured; then `warm`, with what the first run kept of both.
Wanted for `ch07.memory_access` with warm caches: at most 5 s for a quick run and 60 s for a standard one; ends with 1 where
it takes longer. The columns are seconds, and add up to the first:

wall       from the start of the command to its end
outside    what belongs to no target: the command itself, imports, planning, writing the results
ceilings   measuring what the machine can reach
start      processes, compilation, preparation and warm-up, of all rounds
sampling   the sampling loop, judging included
rest       the inputs and the reference, samples taken alone, audit, energy, and the statistics at the end

Below stands what no command that uses torch can do without: a script that imports it and makes one tensor.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

import attrs

from aiperf_core.harness.options import TIERS
from aiperf_core.results.manifest import machine

TARGET = "ch07.memory_access"
LIMITS_S = {"quick": 5.0, "standard": 60.0}
PARTS = ("outside", "ceilings", "start", "sampling", "rest")


class NoVerdictError(Exception):
    """The command ended without a result."""


@attrs.frozen
class Timing:
    """One run of the command: its wall time in seconds, and the same by what it was spent on."""

    target: str
    tier: str
    caches: str
    wall_s: float
    parts_s: dict[str, float]

    @property
    def late(self) -> bool:
        """Whether it took longer than wanted."""
        return self.target == TARGET and self.caches == "warm" and self.wall_s > LIMITS_S.get(self.tier, float("inf"))


def run(target: str, tier: str, caches: str, device: str | None, kept: Path) -> Timing:
    """Run the command once, with its caches in the folder `kept`. Raises `NoVerdictError`."""
    # Triton and torch keep compiled kernels in folders of their own.
    folders = {"AIPERF_CACHE_DIR": "aiperf", "TRITON_CACHE_DIR": "triton", "TORCHINDUCTOR_CACHE_DIR": "inductor"}
    environment = {**os.environ, **{name: str(kept / folder) for name, folder in folders.items()}}
    with tempfile.TemporaryDirectory(prefix="aiperf-verdict-") as scratch:
        bundle = Path(scratch) / "bundle"
        command = [sys.executable, "-m", "aiperf_core", "run", target, "--tier", tier, "--json", "--quiet"]
        command += ["--out", str(bundle), *(["--device", device] if device else [])]
        start = time.perf_counter()
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
        wall_s = time.perf_counter() - start
        results = json.loads(done.stdout)["targets"] if done.stdout else []
        if not results:
            raise NoVerdictError(f"{' '.join(command[1:])} ended with {done.returncode}: {done.stderr.strip()}")
        ceilings = json.loads((bundle / "manifest.json").read_text())["ceilings"] if caches == "cold" else {}
    return Timing(target, tier, caches, wall_s, parts(wall_s, results, ceilings))


def bare(device: str) -> float:
    """The wall time in seconds of a script that imports torch and makes one tensor; of three the middle one."""
    script = f"import torch; torch.ones(1, device={device!r}).sum().item()"
    times = []
    for _ in range(3):
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", script], check=True)
        times.append(time.perf_counter() - start)
    return median(times)


def parts(wall_s: float, results: list[dict[str, Any]], ceilings: dict[str, Any]) -> dict[str, float]:
    """The parts of a wall time, by the records of the targets and of the ceilings that were measured meanwhile."""
    inside = sum(one["wall_s"] for one in results)
    start = sum(one["overhead"]["start_s"] for one in results)
    sampling = sum(one["overhead"]["sampling_s"] for one in results)
    measuring = sum(one["took_s"] or 0.0 for one in ceilings.values())
    return dict(
        zip(
            PARTS,
            (wall_s - inside - measuring, measuring, start, sampling, inside - start - sampling),
            strict=True,
        )
    )


def show(timings: list[Timing]) -> None:
    """Print the table."""
    width = max(len(one.target) for one in timings)
    print(f"{'target':{width}}  {'tier':8}  caches  {'wall':>8}  " + "  ".join(f"{part:>8}" for part in PARTS))
    for one in timings:
        figures = "  ".join(f"{one.parts_s[part]:8.2f}" for part in PARTS)
        late = f"  more than {LIMITS_S[one.tier]:g} s" if one.late else ""
        print(f"{one.target:{width}}  {one.tier:8}  {one.caches:6}  {one.wall_s:8.2f}  {figures}{late}")


def main() -> int:
    """Measure, print and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="*", default=[TARGET], metavar="TARGET")
    parser.add_argument("--tiers", nargs="+", choices=tuple(TIERS), default=["quick", "standard"])
    parser.add_argument("--device", choices=("cpu", "cuda"))
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the figures there, as JSON")
    asked = parser.parse_args()
    here, timings = machine(), []
    for target in asked.targets:
        for tier in asked.tiers:
            with tempfile.TemporaryDirectory(prefix="aiperf-caches-") as kept:
                for caches in ("cold", "warm"):
                    try:
                        timings.append(run(target, tier, caches, asked.device, Path(kept)))
                    except NoVerdictError as error:
                        print(f"error: {error}", file=sys.stderr)
                        return 2
    show(timings)
    device = asked.device or ("cuda" if here.gpus else "cpu")
    bare_s = bare(device)
    print(f"\na script that imports torch and makes one tensor on {device}: {bare_s:.2f} s")
    if asked.out is not None:
        document = {
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            "cpu": here.cpu,
            "cores": here.cores,
            "gpus": [str(one["name"]) for one in here.gpus],
            "bare_s": bare_s,
            "timings": [attrs.asdict(one) for one in timings],
        }
        asked.out.parent.mkdir(parents=True, exist_ok=True)
        asked.out.write_text(json.dumps(document, indent=1) + "\n")
    return int(any(one.late for one in timings))


if __name__ == "__main__":
    sys.exit(main())
