"""How fast `aiperf tui` is: the first screen, and from a key to the redrawn screen, with many rows.

Run on a quiet machine: `python benchmarks/tui_speed.py`. The exit code is 1 where a limit is missed.
"""

import argparse
import asyncio
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

FIRST_LIMIT_S, KEY_LIMIT_S = 0.5, 0.1
KEYS = ("down", "pagedown", "end", "home", "s", "slash", "1", "2", "backspace", "backspace", "escape", "right", "left")
# In a process of its own, so that imports count: from the start of the command's code to the first table.
FIRST = """
import time; begin = time.perf_counter()
import asyncio, sys
from pathlib import Path
from aiperf_core.plugins import load_plugins
plugins = load_plugins()
loaded = time.perf_counter()
from aiperf_analysis.tui.app import ResultsApp
from aiperf_analysis.tui.grid import Grid
from aiperf_analysis.tui.source import Source

async def main():
    app = ResultsApp(plugins, Source(Path(sys.argv[1])))
    async with app.run_test(size=(120, 40)) as pilot:
        shown = time.perf_counter()
        while not app.screen.query_one(Grid).total:
            await pilot.pause(0.002)
        print(loaded - begin, shown - loaded, time.perf_counter() - loaded)

asyncio.run(main())
"""


def first_screen(folder: Path, repeats: int) -> tuple[list[float], list[float]]:
    """Seconds from the loaded plugins to the first screen, and to its first table, of new processes."""
    screens, tables = [], []
    for _ in range(repeats):
        command = [sys.executable, "-c", FIRST, str(folder)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        _, screen, table = map(float, done.stdout.split())
        screens.append(screen)
        tables.append(table)
    return screens, tables


def bundles(folder: Path, count: int) -> None:
    """A folder of small bundles."""
    from attrs import evolve

    from aiperf_core.results import example
    from aiperf_core.results.bundle import Bundle

    for number in range(count):
        made = Bundle.create_at(folder / f"run-{number:05d}")
        made.write_target(example.result())
        made.write_manifest(evolve(example.manifest(), created=f"2026-11-{1 + number % 28:02d}T10:00:00+00:00"))


async def keys(rows: int, repeats: int) -> dict[str, list[float]]:
    """Seconds from each key to the redrawn screen, by key, with this number of rows."""
    from aiperf_analysis.result import Column, Figure, Record, Result, Table
    from aiperf_analysis.tui.app import ResultsApp
    from aiperf_analysis.tui.places import RunsScreen
    from aiperf_analysis.tui.source import Source
    from aiperf_core.plugins import load_plugins

    columns = [Column("name", "row"), Column("verdict", "verdict", "verdict"), Column("time", "median", "figure")]
    records = [
        Record({"name": f"ch07.target_{number % 97}:row {number}", "verdict": "FASTER",
                "time": Figure(value=1e-3 + number, low=1e-3, high=2e-3 + number, unit="s")})
        for number in range(rows)
    ]  # fmt: skip
    result = Result(analysis="a", title="A", summary=["a"], tables=[Table("t", "t", columns, records)])
    setattr(RunsScreen, "make", lambda *_: result)  # noqa: B010  # a stand-in for reading
    app = ResultsApp(load_plugins(), Source(Path()))
    found: dict[str, list[float]] = {key: [] for key in KEYS}
    async with app.run_test(size=(120, 40)) as pilot:
        await app.workers.wait_for_complete()
        for _ in range(repeats):
            for key in KEYS:
                begin = time.perf_counter()
                app.simulate_key(key)
                await pilot.pause()
                app.screen._compositor.render_strips()
                found[key].append(time.perf_counter() - begin)
    return found


def main() -> int:
    """Measure and print; 1 where a limit is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--bundles", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=7)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        bundles(Path(folder), given.bundles)
        screens, tables = first_screen(Path(folder), given.repeats)
    screen = statistics.median(screens)
    print(f"first screen {screen:.3f} s (limit {FIRST_LIMIT_S} s); table of {given.bundles} bundles "
          f"{statistics.median(tables):.3f} s")  # fmt: skip
    worst = 0.0
    for key, times in asyncio.run(keys(given.rows, given.repeats)).items():
        median = statistics.median(times)
        worst = max(worst, median)
        print(f"{key:10} median {1e3 * median:6.1f} ms, worst {1e3 * max(times):6.1f} ms")
    print(f"key to redraw with {given.rows:,} rows: at most {1e3 * worst:.1f} ms (limit {1e3 * KEY_LIMIT_S:.0f} ms)")
    return int(screen > FIRST_LIMIT_S or worst > KEY_LIMIT_S)


if __name__ == "__main__":
    sys.exit(main())
