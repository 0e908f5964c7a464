"""How long the analysis of large traces takes, and how much memory.

    python benchmarks/analysis_traces.py [--megabytes 100] [--ranks 1] [--repeats 1] [--folder FOLDER]

Traces with known figures are generated, one for each rank, and analysed by `aiperf analyze trace` in a process of its
own. The figures are checked. Ends with 1 where one is wrong, or where a limit is given and not kept.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from aiperf_traces import example

LAYERS = 60


def job_of(folder: Path, megabytes: float, ranks: int) -> example.Job:
    """A job whose traces have about this size."""
    two = example.Job(steps=2, layers=LAYERS, ranks=ranks, straggler=ranks - 1 if ranks > 1 else None, late=7000)
    size = example.write(folder / "two.json", two).stat().st_size / two.steps
    (folder / "two.json").unlink()
    return example.Job(
        steps=max(8, round(megabytes * 1e6 / size)),
        layers=LAYERS,
        ranks=ranks,
        straggler=two.straggler,
        late=two.late,
        offsets=tuple(1000 * rank for rank in range(ranks)),
    )


def analyse(files: list[Path], out: Path) -> tuple[float, float, float]:
    """Seconds that pass, seconds of the processor, and the peak of memory in bytes."""
    start = time.perf_counter()
    command = [sys.executable, "-m", "aiperf_core", "analyze", "trace", *map(str, files), "--out", str(out)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    _, status, used = os.wait4(process.pid, 0)
    passed = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    error = process.stderr.read() if process.stderr else ""
    if process.returncode:
        raise SystemExit(f"aiperf analyze trace ended with {process.returncode}: {error}")
    return passed, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024


def wrong(result: dict[str, object], job: example.Job) -> list[str]:
    """The figures that are not as the job was made."""
    found = []
    expected = {
        "window": job.step * job.steps,
        "compute": (18_000 * job.layers + 10_000) * job.steps,
        "copies": 10_000 * job.steps,
    }
    cells = result["tables"][0]["records"][0]["cells"] if job.ranks == 1 else None  # type: ignore[index]
    for name, value in expected.items() if cells else ():
        if round(cells[name]["value"] * 1e9) != value:
            found.append(f"{name} is {cells[name]['value']} s instead of {value} ns")
    details: dict[str, object] = result["details"]  # type: ignore[assignment]
    path = details["critical_path"]
    if path["length_ns"] != job.step:  # type: ignore[index]
        found.append(f"the critical path is {path['length_ns']} ns instead of {job.step}")  # type: ignore[index]
    if job.ranks > 1 and details["straggler"] != f"rank {job.straggler}":
        found.append(f"the straggler is {details['straggler']} instead of rank {job.straggler}")
    return found


def main() -> int:
    """Run as a script."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=float, default=100.0, help="of each trace")
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--folder", type=Path, help="of the traces, which are deleted afterwards")
    parser.add_argument("--limit-s", type=float, help="end with 1 above this time")
    parser.add_argument("--limit-bytes", type=float, help="end with 1 above this memory")
    given = parser.parse_args()
    failed = False
    with tempfile.TemporaryDirectory(dir=given.folder) as made:
        folder = Path(made)
        job = job_of(folder, given.megabytes, given.ranks)
        files = [example.write(folder / f"rank{rank}.json", job, rank) for rank in range(job.ranks)]
        size = sum(path.stat().st_size for path in files)
        print(f"{job.ranks} traces, {size / 1e6:.0f} MB, {job.steps} steps")
        print(f"{'passed':>10} {'processor':>10} {'memory':>10} {'of trace':>12}  figures")
        for _ in range(given.repeats):
            out = folder / "result.json"
            passed, used, peak = analyse(files, out)
            bad = wrong(json.loads(out.read_text()), job)
            late = given.limit_s is not None and passed > given.limit_s
            large = given.limit_bytes is not None and peak > given.limit_bytes
            failed |= bool(bad) or late or large
            shown = "; ".join(bad) or "exact"
            print(f"{passed:8.1f} s {used:8.1f} s {peak / 1e6:7.0f} MB {size / passed / 1e6:7.1f} MB/s  {shown}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
