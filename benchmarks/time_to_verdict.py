"""How long a verdict takes, and where the time goes.

    python benchmarks/time_to_verdict.py [TARGET ...] [--tiers quick standard] [--device cpu|cuda] [--out FILE.json]
    python benchmarks/time_to_verdict.py --report FILE.json

Runs the installed command as a user would, each time in a fresh process, and twice for each target and tier: `cold`,
with empty caches, so that kernels are compiled and the ceilings measured; then `warm`, with what the first run kept of
both. Wanted for `ch07.memory_access` with warm caches: at most 5 s for a quick run and 60 s for a standard one; ends
with 1 where it takes longer. What of it is the target's own, and not done once for all targets of a command, is shown
beside it. The columns are seconds. The first is the sum of `target`, `outside` and `ceilings`, and `target` that of the
last three:

wall       from the start of the command to its end
target     from the target's turn to its verdict
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

from aiperf_core.harness.run.options import TIERS
from aiperf_core.results.machine import machine

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
    def target_s(self) -> float:
        """The part that is the target's own, in seconds."""
        return self.wall_s - self.parts_s["outside"] - self.parts_s["ceilings"]

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
    start = sum(one["overhead"]["setup_s"] + one["overhead"]["warmup_s"] for one in results)
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
    columns = ("wall", "target", *PARTS)
    print(f"{'':{width}}  {'tier':8}  caches  " + "  ".join(f"{column:>8}" for column in columns))
    for one in timings:
        seconds = (one.wall_s, one.target_s, *(one.parts_s[part] for part in PARTS))
        figures = "  ".join(f"{each:8.2f}" for each in seconds)
        late = f"  more than {LIMITS_S[one.tier]:g} s" if one.late else ""
        print(f"{one.target:{width}}  {one.tier:8}  {one.caches:6}  {figures}{late}")


def report(document: dict[str, Any]) -> int:
    """Print what was measured; return the exit code."""
    timings = [Timing(**one) for one in document["timings"]]
    show(timings)
    device = document["device"]
    print(f"\na script that imports torch and makes one tensor on {device}: {document['bare_s']:.2f} s")
    return int(any(one.late for one in timings))


def main() -> int:
    """Measure, print and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="*", default=[TARGET], metavar="TARGET")
    parser.add_argument("--tiers", nargs="+", choices=tuple(TIERS), default=["quick", "standard"])
    parser.add_argument("--device", choices=("cpu", "cuda"))
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the figures there, as JSON")
    parser.add_argument("--report", type=Path, metavar="FILE", help="measure nothing, and print what such a file has")
    asked = parser.parse_args()
    if asked.report is not None:
        return report(json.loads(asked.report.read_text()))
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
    device = asked.device or ("cuda" if here.gpus else "cpu")
    document = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "cpu": here.cpu,
        "cores": here.cores,
        "gpus": [str(one["name"]) for one in here.gpus],
        "device": device,
        "bare_s": bare(device),
        "timings": [attrs.asdict(one) for one in timings],
    }
    if asked.out is not None:
        asked.out.parent.mkdir(parents=True, exist_ok=True)
        asked.out.write_text(json.dumps(document, indent=1) + "\n")
    return report(document)


if __name__ == "__main__":
    sys.exit(main())
