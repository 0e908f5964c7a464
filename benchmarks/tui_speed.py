"""How fast `aiperf tui` is: the first screen, and from a key to the redrawn screen, with many rows.

Run on a quiet machine: `python benchmarks/tui_speed.py`. The exit code is 1 where a limit is missed. Times are those of
the clock; the time of the processor stands beside, since other programs do not lengthen it.
"""

import argparse
import asyncio
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

FIRST_LIMIT_S, KEY_LIMIT_S = 0.5, 0.1
KEYS = ("down", "pagedown", "end", "home", "s", "slash", "1", "2", "backspace", "backspace", "escape", "right", "left")
# In a process of its own, so that imports count: from the start of the command's code to the first table.
FIRST = """
import time; begin = time.perf_counter()
cpu = time.process_time()
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
        shown, spent = time.perf_counter(), time.process_time()
        while not app.screen.query_one(Grid).total:
            await pilot.pause(0.002)
        print(shown - loaded, spent - cpu, time.perf_counter() - loaded)

asyncio.run(main())
"""


def first_screen(folder: Path, repeats: int) -> tuple[list[float], list[float], list[float]]:
    """Of new processes: seconds to the first screen, of the processor until then, and to the first table."""
    found = []
    for _ in range(repeats):
        command = [sys.executable, "-c", FIRST, str(folder)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        found.append([float(one) for one in done.stdout.split()])
    screens, processor, tables = map(list, zip(*found, strict=True))
    return screens, processor, tables


def bundles(folder: Path, count: int) -> None:
    """A folder of small bundles."""
    from attrs import evolve

    from aiperf_core.results import example
    from aiperf_core.results.bundle import Bundle

    for number in range(count):
        made = Bundle.create_at(folder / f"run-{number:05d}")
        made.write_target(example.result())
        made.write_manifest(evolve(example.manifest(), created=f"2026-11-{1 + number % 28:02d}T10:00:00+00:00"))


async def _drained() -> None:
    """Wait until every task of the event loop waits for something: all messages are handled."""
    loop, still = asyncio.get_running_loop(), 0
    while still < 3:
        await asyncio.sleep(0)
        still = 0 if loop._ready else still + 1  # type: ignore[attr-defined]


async def keys(rows: int, repeats: int) -> dict[str, list[tuple[float, float]]]:
    """Seconds from each key to the redrawn screen, and of the processor, by key, with this number of rows."""
    from textual.worker import WorkerCancelled

    from aiperf_analysis.tui.app import ResultsApp
    from aiperf_analysis.tui.places import RunsScreen
    from aiperf_analysis.tui.source import Source
    from aiperf_core.plugins import load_plugins
    from aiperf_core.report.result import Column, Figure, Record, Result, Table

    columns = [Column("name", "row"), Column("verdict", "verdict", "verdict"), Column("time", "median", "figure")]
    records = [
        Record({"name": f"ch07.target_{number % 97}:row {number}", "verdict": "FASTER",
                "time": Figure(value=1e-3 + number, low=1e-3, high=2e-3 + number, unit="s")})
        for number in range(rows)
    ]  # fmt: skip
    result = Result(analysis="a", title="A", summary=["a"], tables=[Table("t", "t", columns, records)])
    setattr(RunsScreen, "make", lambda *_: result)  # noqa: B010  # a stand-in for reading
    app = ResultsApp(load_plugins(), Source(Path()))
    found: dict[str, list[tuple[float, float]]] = {key: [] for key in KEYS}
    async with app.run_test(size=(120, 40)) as pilot:
        for _ in range(3):
            with suppress(WorkerCancelled):  # a newer worker took its place
                await app.workers.wait_for_complete()
            await pilot.pause()
        for _ in range(repeats):
            for key in KEYS:
                begin, cpu = time.perf_counter(), time.process_time()
                app.simulate_key(key)
                for _ in range(2):  # what the drawing asks for may be drawn once more
                    await _drained()
                    app.screen._on_timer_update()
                app.screen._compositor.render_strips()
                found[key].append((time.perf_counter() - begin, time.process_time() - cpu))
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
        screens, processor, tables = first_screen(Path(folder), given.repeats)
    screen = statistics.median(screens)
    print(
        f"first screen {screen:.3f} s (limit {FIRST_LIMIT_S} s; fastest {min(screens):.3f} s, processor with plugins "
        f"{statistics.median(processor):.3f} s); table of {given.bundles} bundles {statistics.median(tables):.3f} s"
    )
    worst = 0.0
    for key, times in asyncio.run(keys(given.rows, given.repeats)).items():
        median, cpu = (statistics.median(part) for part in zip(*times, strict=True))
        worst = max(worst, median)
        shown = f"{key:10} median {1e3 * median:6.1f} ms, worst {1e3 * max(times)[0]:6.1f} ms"
        print(f"{shown}, processor {1e3 * cpu:6.1f} ms")
    print(f"key to redraw with {given.rows:,} rows: at most {1e3 * worst:.1f} ms (limit {1e3 * KEY_LIMIT_S:.0f} ms)")
    return int(screen > FIRST_LIMIT_S or worst > KEY_LIMIT_S)


if __name__ == "__main__":
    sys.exit(main())
