"""Measure the dashboard: start, pages, first paint, filtering, memory, and pages over a store with very many rows.

    python benchmarks/dashboard.py [--bundles 100,1000] [--rows 1000000] [--rounds 20] [--out FILE.json]

A server runs as a process of its own. Its bundles and the rows of its store are made up, in a temporary folder; the
rows are those of `analysis_store.py`. First paint and the filter of a table of 10,000 rows are those of Chromium, which
must be installed. Needs a quiet machine. A line is printed for each figure with its limit; times of pages are the 95 %
quantiles of `--rounds` answers, the last byte included, after two that warm the caches, each with the processor time of
the server for an answer. The exit code is 1 if a limit is missed.
"""

import argparse
import gzip
import json
import os
import re
import runpy
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
from attrs import evolve, field, frozen

from aiperf_analysis.dashboard import templating
from aiperf_analysis.store.database import made, opened
from aiperf_core.measurements import Estimate
from aiperf_core.results import example
from aiperf_core.results.bundle import Bundle

ROOT = Path(__file__).parents[1]
START = datetime(2026, 1, 1, tzinfo=UTC)
PAGES = ("/", "/runs", "/rows", "/pareto", "/history", "/roofline", "/stacking", "/tradeoff", "/recommend", "/coverage",
         "/validity", "/machines", "/checklist", "/calc")  # fmt: skip
ROWS_OF_BUNDLE = 10
WARM_UPS = 2
LIMIT_START_S, LIMIT_PAGE_S, LIMIT_PAINT_S, LIMIT_FILTER_S = 1.0, 0.5, 0.5, 0.15
LIMIT_MEMORY_MB, LIMIT_ASSETS_B = 150.0, 120 * 1024
# Of a store, by the name of the page.
LIMITS_STORE_S = {"overview": 0.3, "series": 0.1, "board": 0.5}
TABLE_ROWS = 10_000


@frozen
class Lines:
    """The figures that were printed, and which of them missed their limit."""

    found: dict[str, dict[str, Any]] = field(factory=dict)

    def tell(self, name: str, value: float, unit: str, limit: float | None = None) -> None:
        """Print a figure with its limit, and keep it."""
        ending = "" if limit is None else "MET" if value <= limit else "MISSED"
        told = "" if limit is None else f"limit {limit:g} {unit}"
        print(f"{name:52}  {value:12.4g} {unit:3}  {told:18}  {ending}".rstrip(), flush=True)
        self.found[name] = {"value": value, "unit": unit, "limit": limit}

    @property
    def missed(self) -> list[str]:
        """The names of the figures beyond their limits."""
        return [name for name, one in self.found.items() if one["limit"] is not None and one["value"] > one["limit"]]


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
    """Seconds until the last byte of an answer."""
    begin = time.perf_counter()
    with urllib.request.urlopen(address) as answer:
        answer.read()
    return time.perf_counter() - begin


def answered(name: str, address: str, process: int, rounds: int, limit: float, lines: Lines) -> None:
    """Tell the 95 % quantile of the seconds of an answer, when it is warm, and the server's processor time for one.

    The second has no limit. It tells how much of the first other work of the machine may have added.
    """
    for _ in range(WARM_UPS):
        got(address)
    before = processor_s(process)
    walls = [got(address) for _ in range(rounds)]
    lines.tell(name, float(np.quantile(walls, 0.95)), "s", limit)
    lines.tell(f"{name}, processor time", (processor_s(process) - before) / rounds, "s")


def processor_s(process: int) -> float:
    """The processor time of a process so far, in seconds."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory_mb(process: int) -> float:
    """The resident memory of a process."""
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{process}/status").read_text())
    return int(found[1]) / 1024 if found else float("nan")


@contextmanager
def served(*what: str) -> Iterator[tuple[str, int, float]]:
    """A server of a folder or of a store: its address, its process, and the seconds until its first answer."""
    begin = time.perf_counter()
    command = [sys.executable, "-m", "aiperf_core", "dashboard", *what, "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            line = process.stdout.readline() if process.stdout else ""
            address = re.search(r"http://\S+/", line)
            if address is None:
                raise SystemExit(f"the server did not start: {line}")
            root = address[0].rstrip("/")
            got(f"{root}/login")
            yield root, process.pid, time.perf_counter() - begin
        finally:
            process.terminate()


def of_folder(count: int, rounds: int, lines: Lines) -> None:
    """The figures of a server of a folder of made-up bundles."""
    with tempfile.TemporaryDirectory() as place:
        make(Path(place) / "runs", count)
        with served(str(Path(place) / "runs")) as (root, process, start_s):
            lines.tell(f"{count} bundles: server start", start_s, "s", LIMIT_START_S)
            lines.tell(f"{count} bundles: server start, processor time", processor_s(process), "s")
            lines.tell(f"{count} bundles: first visit of /", got(f"{root}/"), "s", LIMIT_PAGE_S)
            # Programs wait until every bundle is read.
            lines.tell(f"{count} bundles: until all are read, with their history", got(f"{root}/api/v1/overview"), "s")
            for page in PAGES:
                got(root + page)
                answered(f"{count} bundles: {page}", root + page, process, rounds, LIMIT_PAGE_S, lines)
            search = f"{count} bundles: search in {count * ROWS_OF_BUNDLE} rows"
            answered(search, f"{root}/rows?q=variant-3", process, rounds, LIMIT_FILTER_S, lines)
            lines.tell(f"{count} bundles: memory", memory_mb(process), "MB", LIMIT_MEMORY_MB)
            in_browser(root, f"{count} bundles", rounds, lines)


def of_store(rows: int, rounds: int, lines: Lines) -> None:
    """The figures of a server of a store with very many rows."""
    names = runpy.run_path(str(ROOT / "benchmarks" / "analysis_store.py"))
    with tempfile.TemporaryDirectory() as place:
        url = f"sqlite:///{place}/store.db"
        made(url)
        template = names["bundle"](Path(place) / "template", 1, 1)
        with opened(url) as database:
            longest = names["fill"](database, template, rows // (names["TARGETS"] * names["ROWS"]))
        with served("--db", url) as (root, process, start_s):
            lines.tell(f"{rows} rows: server start", start_s, "s", LIMIT_START_S)
            lines.tell(f"{rows} rows: server start, processor time", processor_s(process), "s")
            for name, page in (("overview", "/"), ("series", f"/series/{longest}"), ("board", "/rows")):
                lines.tell(f"{rows} rows: first visit of {name}", got(root + page), "s")
                answered(f"{rows} rows: {name}", root + page, process, rounds, LIMITS_STORE_S[name], lines)
            for name, page in (("runs", "/runs"), ("search", "/rows?q=target007")):
                answered(f"{rows} rows: {name}", root + page, process, rounds, LIMIT_PAGE_S, lines)
            lines.tell(f"{rows} rows: memory", memory_mb(process), "MB", LIMIT_MEMORY_MB)


# What the browser does: the time of a change of the filter until the page is laid out.
FILTER = """
() => { const field = document.querySelector('main .seek input'); const took = [];
  for (const text of ['r', 'ro', 'row 9', 'odd group-5', 'nothing fits', '']) {
    field.value = text; const begin = performance.now();
    field.dispatchEvent(new Event('input')); document.body.getBoundingClientRect();
    took.push(performance.now() - begin);
  } return Math.max(...took) / 1000; }
"""
# Not waited for by an expression in a string, which the page's content security policy refuses.
PAINT = """
() => new Promise(done => new PerformanceObserver(list => {
  for (const one of list.getEntriesByName('first-contentful-paint')) done(one.startTime / 1000);
}).observe({type: 'paint', buffered: true}))
"""


def in_browser(root: str, what: str, rounds: int, lines: Lines) -> None:
    """First paint of the overview, and the filter of a table of 10,000 rows, in Chromium."""
    from playwright.sync_api import sync_playwright

    chromium = runpy.run_path(str(ROOT / "aiperf-analysis" / "tests" / "chromium.py"))
    with sync_playwright() as playwright:
        program, arguments = str(chromium["program"]()), chromium["arguments"]()
        browser = playwright.chromium.launch(executable_path=program, args=arguments)
        lines.tell(f"{what}: first paint of /", repeated(lambda: painted(browser, root), rounds), "s", LIMIT_PAINT_S)
        found = repeated(lambda: filtered(browser, root), rounds)
        lines.tell(f"{what}: filter of {TABLE_ROWS} rows in a page", found, "s", LIMIT_FILTER_S)
        browser.close()


def repeated(measure: Callable[[], float], rounds: int) -> float:
    """The 95 % quantile of a figure of the browser, after one that warms its caches."""
    return float(np.quantile([measure() for _ in range(1 + rounds)][1:], 0.95))


def painted(browser: Any, root: str) -> float:
    """Seconds until the first content of the overview is painted, in a page without a cache."""
    page = browser.new_page()
    page.goto(root)
    found = float(page.evaluate(PAINT))
    page.close()
    return found


def filtered(browser: Any, root: str) -> float:
    """The longest time of a change of the filter of a table of 10,000 rows, with the server's script and style."""
    texts = [(f"row {one}", f"{'odd' if one % 2 else 'even'} of group-{one % 97}") for one in range(TABLE_ROWS)]
    body = "".join(f"<tr><th>{one}</th>{f'<td>{other}</td>' * 8}</tr>" for one, other in texts)
    heads = "<th>name</th>" * 9
    table = f"<table data-sortable data-long><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>"

    def answer(route: Any) -> None:
        found = route.fetch()
        head, _, rest = found.text().partition("<h1>")
        route.fulfill(response=found, body=f"{head}<h1>long</h1>{table}</main>{rest.partition('</main>')[2]}")

    page = browser.new_page()
    page.route("**/runs?long", answer)
    page.goto(f"{root}/runs?long")
    page.wait_for_selector("main .seek input")
    found = float(page.evaluate(FILTER))
    page.close()
    return found


def main() -> int:
    """Measure, print, and compare with the limits."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bundles", default="100,1000", help="sizes of the folders")
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows of the store; 0 for no store")
    parser.add_argument("--rounds", type=int, default=20, help="answers of which the 95 %% quantile counts")
    parser.add_argument("--out", type=Path, help="a JSON file of the figures")
    options = parser.parse_args()
    lines = Lines()
    print(f"{os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}; times are 95 % quantiles of {options.rounds}")
    assets = sum(len(gzip.compress(content)) for content, _, _ in templating.assets().values())
    lines.tell("scripts and styles, compressed", assets, "B", LIMIT_ASSETS_B)
    for count in map(int, filter(None, options.bundles.split(","))):
        of_folder(count, options.rounds, lines)
    if options.rows:
        of_store(options.rows, options.rounds, lines)
    if options.out:
        options.out.write_text(json.dumps(lines.found, indent=2) + "\n")
    print(f"MISSED: {', '.join(lines.missed)}" if lines.missed else "all MET")
    return 1 if lines.missed else 0


if __name__ == "__main__":
    sys.exit(main())
