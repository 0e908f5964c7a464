"""What the harness costs: the wall time of a quick run, and the part of it that is not timed calls.

    python benchmarks/quick_run.py [TARGET] [RUNS]

Runs the installed command as a user would, on the CPU at `--size cpu`, and reads the figures from the bundles. Wanted
for `ch07.memory_access`: at most 15 s for the command, and at most 20 % of its wall time for renewing inputs, judging
and bookkeeping.
"""

import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def measure(target: str) -> tuple[float, dict[str, float]]:
    """Wall time of one whole command in seconds, and the overhead that its bundle records."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "bundle"
        command = ["run", target, "--device", "cpu", "--size", "cpu", "--quiet", "--out", str(out)]
        start = time.perf_counter()
        subprocess.run([sys.executable, "-m", "aiperf_core", *command], check=True, stdout=subprocess.DEVNULL)
        wall = time.perf_counter() - start
        (file,) = (out / "targets").glob("*.json")
        return wall, json.loads(file.read_text())["overhead"]


def main(target: str = "ch07.memory_access", runs: str = "3") -> None:
    """Print a line a run, and the medians."""
    shares, walls = [], []
    for number in range(1, int(runs) + 1):
        wall, spent = measure(target)
        overhead = spent["sampling_s"] - spent["timed_s"]
        walls.append(wall)
        shares.append(overhead / wall)
        print(
            f"run {number}: {wall:.1f} s; timed calls {spent['timed_s']:.2f} s, refresh {spent['refresh_s']:.2f} s, "
            f"flush {spent['flush_s']:.2f} s, verification {spent['verification_s']:.2f} s, "
            f"messages {spent['messages_s']:.2f} s, other {spent['stopping_s'] + spent['other_s']:.2f} s; "
            f"{1e3 * overhead / spent['samples']:.1f} ms a sample, {100 * overhead / wall:.0f} % of the wall time"
        )
    print(
        f"median: {statistics.median(walls):.1f} s, overhead {100 * statistics.median(shares):.0f} % of the wall time"
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
