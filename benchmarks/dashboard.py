"""Measure the dashboard: start, first byte of each page, filtering, memory, with folders of 100 and 1,000 bundles.

    python benchmarks/dashboard.py [--bundles 100,1000] [--rounds 5] [--out FILE.json]

A server runs as a process of its own. Its bundles are made up, in a temporary folder. Needs a quiet machine. The exit
code is 1 if a figure is beyond its bound: start 1 s, first byte 0.5 s when warm, search in 10,000 rows 0.15 s, memory
150 MB with 100 bundles, scripts and styles 120 kB gzipped.
"""

import argparse
import gzip
import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from datetime import UTC, datetime, timedelta
from pathlib import Path

from attrs import evolve

from aiperf_analysis.dashboard import templating
from aiperf_core.measurements import Estimate
from aiperf_core.results import example
from aiperf_core.results.bundle import Bundle

START = datetime(2026, 1, 1, tzinfo=UTC)
PAGES = ("/", "/runs", "/rows", "/pareto", "/history", "/roofline", "/stacking", "/tradeoff", "/recommend", "/coverage",
         "/validity", "/machines", "/checklist", "/calc")  # fmt: skip
BOUNDS = {"start_s": 1.0, "first_byte_s": 0.5, "search_s": 0.15, "memory_mb": 150.0, "assets_bytes": 120 * 1024}
BOUND_WITH = 100  # bundles; with more, only the start and the search have a bound
ROWS_OF_BUNDLE = 10


def make(folder: Path, count: int) -> None:
    """Made-up bundles, a run an hour, of rows whose times drift by chance."""
    variant = next(row for row in example.rows() if row.name == "coalesced")
    baseline = next(row for row in example.rows() if row.role == "baseline")
    for number in range(count):
        factor = 1 + ((number * 7919) % 101 - 50) / 20_000
        rows = [baseline]
        for index in range(ROWS_OF_BUNDLE - 1):
            time_s = 1e-3 * factor * (1 + index / 10)
            low, high = time_s * 0.998, time_s * 1.002
            rows.append(evolve(variant, name=f"variant-{index}", builds_on=None, time_s=Estimate(time_s, low, high)))
        bundle = Bundle.create_at(folder / f"run-{number:05d}")
        bundle.write_target(evolve(example.result(), rows=rows, order=[row.name for row in rows]))
        created = (START + timedelta(hours=number)).isoformat()
        bundle.write_manifest(evolve(example.manifest(), created=created, commit_time=created, exit_code=0))


def got(address: str) -> float:
    """Seconds until the first byte of an answer."""
    begin = time.perf_counter()
    with urllib.request.urlopen(address) as answer:
        answer.read(1)
        taken = time.perf_counter() - begin
        answer.read()
    return taken


def memory_mb(process: int) -> float:
    """The resident memory of a process."""
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{process}/status").read_text())
    return int(found[1]) / 1024 if found else float("nan")


def measured(folder: Path, rounds: int) -> dict[str, object]:
    """The figures of a server of a folder."""
    begin = time.perf_counter()
    command = [sys.executable, "-m", "aiperf_core", "dashboard", str(folder), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            line = process.stdout.readline() if process.stdout else ""
            address = re.search(r"http://\S+/", line)
            if address is None:
                raise SystemExit(f"the server did not start: {line}")
            root = address[0].rstrip("/")
            got(f"{root}/login")
            found: dict[str, object] = {"start_s": time.perf_counter() - begin}
            found["first_visit_s"] = {page: got(root + page) for page in PAGES}
            warm = {page: statistics.median(got(root + page) for _ in range(rounds)) for page in PAGES}
            found["first_byte_s"] = warm
            found["search_s"] = statistics.median(got(f"{root}/rows?q=variant-3") for _ in range(rounds))
            found["memory_mb"] = memory_mb(process.pid)
        finally:
            process.terminate()
    return found


def beyond(figures: dict[str, object]) -> list[str]:
    """The figures beyond their bounds."""
    wrong = []
    for name, bound in BOUNDS.items():
        value = figures.get(name)
        for where, one in value.items() if isinstance(value, dict) else [("", value)]:
            if isinstance(one, float | int) and one > bound:
                wrong.append(f"{name} {where}: {one:.3g} > {bound:g}")
    return wrong


def main() -> int:
    """Measure, print, and compare with the bounds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bundles", default="100,1000", help="sizes of the folders")
    parser.add_argument("--rounds", type=int, default=5, help="answers of which the median counts")
    parser.add_argument("--out", type=Path, help="a JSON file of the figures")
    options = parser.parse_args()
    assets = sum(len(gzip.compress(content)) for content, _, _ in templating.assets().values())
    whole: dict[str, object] = {"assets_bytes": assets}
    wrong = beyond(whole)
    for count in map(int, options.bundles.split(",")):
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place) / "runs"
            make(folder, count)
            figures = measured(folder, options.rounds)
        whole[f"bundles_{count}"] = figures
        print(json.dumps({count: figures}, indent=2))
        bound = figures if count <= BOUND_WITH else {"start_s": figures["start_s"], "search_s": figures["search_s"]}
        wrong += [f"{count} bundles: {one}" for one in beyond(bound)]
    print(json.dumps({"assets_bytes": assets}))
    if options.out:
        options.out.write_text(json.dumps(whole, indent=2) + "\n")
    print("\n".join(wrong) or "all within bounds")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
