"""How quick a store with many rows answers, how quick bundles are added, and what kills do to it.

    python benchmarks/analysis_store.py [--rows 1000000] [--repeats 40] [--bundles 100] [--kills 200] [--engine sqlite]

Three parts for each engine:

- *answers*: a store is filled with generated rows, and each question is asked `--repeats` times after three more that
  warm the caches. The rows are copies of the rows of a bundle with other names, times and figures. They are inserted
  into the tables directly, not through bundles, which do not exist. All columns are filled, so that
  the size is that of real results.
- *adding*: bundles that the core wrote, with `--targets` targets each, are added one after the other: seals are
  checked, samples included.
- *kills*: `--writers` processes add the same bundles at once. Again and again one of them is killed (SIGKILL) at a
  random moment of adding and started again. At the end each bundle must be there once with all its rows, and each that
  a process reported must be there before the last pass.

PostgreSQL is a server that `aiperf-analysis/tests/postgres_server.py` starts in a temporary folder, without fsync.
The times are those of the wall, with other work of the machine in them, which its load tells; `cpu` is the processor
time of this process alone, which is all that SQLite uses. Ends with 1 when a limit is missed.
"""

import argparse
import os
import random
import resource
import runpy
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import sqlalchemy as sa
from attrs import evolve, frozen

from aiperf_analysis.filters import Filters
from aiperf_analysis.store import adding, figures, listing, summaries, tables
from aiperf_analysis.store.database import Database, made, opened
from aiperf_core.measurements import Samples
from aiperf_core.results import example
from aiperf_core.results.bundle import Bundle
from aiperf_core.results.models import TargetResult

ROOT = Path(__file__).parents[1]
WARM_UPS = 3
KINDS = ("nvidia-h200-x1", "nvidia-b200-x1")
NAMES = 100  # of targets
TARGETS, ROWS = 10, 5  # of a generated bundle, and of each of its targets
SAMPLES = 300  # of a row of the template, more than a course has points
BATCH = 200  # generated bundles in a transaction
LIMITS_S = {"overview": 0.3, "series": 0.1, "rows": 0.5}
LIMIT_BUNDLES_PER_S = 20
LIMIT_BYTES = 2e9


def main() -> int:
    """Run the parts, print a table for each engine, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=40)
    parser.add_argument("--bundles", type=int, default=100, help="how many are added for their rate")
    parser.add_argument("--targets", type=int, default=1, help="of each of these bundles")
    parser.add_argument("--writers", type=int, default=4)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--engine", choices=("sqlite", "postgresql", "both"), default="sqlite")
    parser.add_argument("--part", action="append", choices=PARTS, help="only this part; may be repeated")
    given = parser.parse_args()
    engines = ("sqlite", "postgresql") if given.engine == "both" else (given.engine,)
    good = True
    with tempfile.TemporaryDirectory(prefix="aiperf-store-") as name:
        folder = Path(name)
        bundles = written(folder / "bundles", given.bundles, given.targets)
        for engine in engines:
            with database_url(engine, folder) as place:
                for part in given.part or PARTS:
                    good &= PARTS[part](engine, place, given, bundles)
    return int(not good)


def told(engine: str, what: str, found: str, limit: str, good: bool) -> bool:
    """Print a line of the table."""
    print(f"{engine:10}  {what:44}  {found:>32}  {limit:>10}  {'met' if good else 'MISSED'}", flush=True)
    return good


@contextmanager
def database_url(engine: str, folder: Path) -> Iterator[str]:
    """Where databases of an engine can be made."""
    if engine == "sqlite":
        yield str(folder)
        return
    with runpy.run_path(str(ROOT / "aiperf-analysis" / "tests" / "postgres_server.py"))["server"]() as url:
        yield url


@contextmanager
def separate(engine: str, place: str, part: str) -> Iterator[str]:
    """A new store for a part."""
    if engine == "sqlite":
        own = f"sqlite:///{place}/{part}.db"
        made(own)
        yield own
        for file in Path(place).glob(f"{part}.db*"):
            file.unlink()
        return
    server = sa.create_engine(sa.make_url(place).set(drivername="postgresql+psycopg"), isolation_level="AUTOCOMMIT")
    with server.connect() as connection:
        connection.execute(sa.text(f"CREATE DATABASE {part}"))
        own = place.replace("/postgres?", f"/{part}?")
        made(own)
        yield own
        connection.execute(sa.text(f"DROP DATABASE {part} WITH (FORCE)"))
    server.dispose()


# --- bundles


def written(folder: Path, count: int, targets: int) -> list[Path]:
    """Write bundles, each of another run."""
    folder.mkdir()
    return [bundle(folder / f"run{number:04}", number, targets) for number in range(count)]


def bundle(path: Path, number: int, targets: int) -> Path:
    """Write a bundle."""
    made_one = Bundle.create_at(path)
    for target in range(targets):
        made_one.write_target(evolve(template(number), target=f"bench.target{target:03}"))
    manifest = evolve(
        example.manifest(), created=f"2026-01-01T{number // 3600:02}:{number // 60 % 60:02}:{number % 60:02}+00:00"
    )
    made_one.write_manifest(evolve(manifest, skipped=[], labels={"branch": "main"}))
    return path


def template(seed: int) -> TargetResult:
    """A result with `ROWS` rows and `SAMPLES` samples in each."""
    random_ = np.random.default_rng(seed)
    rows = [
        evolve(row, samples=samples(random_, row.time_s.value if row.time_s else 1e-3)) for row in example.rows()[:ROWS]
    ]
    return evolve(example.result(), rows=rows, order=[row.name for row in rows])


def samples(random_: np.random.Generator, time_s: float) -> Samples:
    """Samples that scatter by half a percent."""
    # As CUDA events give them: milliseconds in single precision.
    times = (time_s * (1 + 0.005 * random_.standard_normal(SAMPLES)) * 1e3).astype(np.float32).astype(float) / 1e3
    nothing, falses, ones = [None] * SAMPLES, [False] * SAMPLES, [1] * SAMPLES
    counted = list(range(SAMPLES))
    return Samples(
        round=[0] * SAMPLES,
        block=[number // 5 * ROWS for number in counted],
        step=counted,
        device_s=times.tolist(),
        wall_s=nothing,
        cpu_s=nothing,
        bracket_s=(times + 1e-5).round(9).tolist(),
        hidden=[True] * SAMPLES,
        judged=falses,
        calls=ones,
        voluntary_switches=[0] * SAMPLES,
        involuntary_switches=[0] * SAMPLES,
        throttled=falses,
        answered_s=nothing,
        **example.of_trusted_code(SAMPLES),
    )


# --- answers


def answers(engine: str, place: str, given: argparse.Namespace, bundles: Sequence[Path]) -> bool:
    """Fill a store, ask it, and tell the times."""
    with separate(engine, place, "answers") as url, opened(url) as database:
        start = time.perf_counter()
        longest = fill(database, bundles[0], given.rows // (TARGETS * ROWS))
        size = size_of(database)
        print(
            f"\n{engine}: {given.rows} generated rows, filled in {time.perf_counter() - start:.0f} s; {given.repeats} "
            f"questions of each kind; {os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}"
        )
        print(f"{'engine':10}  {'what':44}  {'found':>32}  {'limit':>10}")
        good = True
        points = len(figures.series(database, longest))
        questions: dict[str, tuple[str, Callable[[], object]]] = {
            "overview": ("overview", lambda: summaries.newest_results(database, Filters(), 12)),
            "series": (f"series of {points} points", lambda: figures.series(database, longest)),
            "rows": ("first page of rows", lambda: first_page(database, Filters())),
        }
        for name, (what, ask) in questions.items():
            walls, processor = timed(ask, given.repeats)
            half, most = np.quantile(walls, (0.5, 0.95))
            limit = LIMITS_S[name]
            shown = f"{half * 1e3:.0f} ms, p95 {most * 1e3:.0f} ms, cpu {np.median(processor) * 1e3:.0f} ms"
            good &= told(engine, f"{what}, warm", shown, f"{limit * 1e3:.0f} ms", most <= limit)
        one, _ = timed(lambda: first_page(database, Filters(("bench.target007",), KINDS[0])), given.repeats)
        told(engine, "rows of a target, warm", f"p95 {np.quantile(one, 0.95) * 1e3:.0f} ms", "", True)
        good &= told(
            engine, "size of the database", f"{size / 1e9:.2f} GB", f"{LIMIT_BYTES / 1e9:.0f} GB", size <= LIMIT_BYTES
        )
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        told(engine, "memory of this process, the filling included", f"{memory / 1e6:.0f} MB", "", True)
    return good


def first_page(database: Database, filters: Filters) -> Sequence[object]:
    """The first 200 rows that the filters select, as the dashboard asks for them."""
    return figures.rows(database, figures.matches(database, filters), 0, 200)


def timed(ask: Callable[[], object], repeats: int) -> tuple[list[float], list[float]]:
    """The times of a question in seconds: of the wall, and of this process's processor."""
    walls, processor = [], []
    for number in range(WARM_UPS + repeats):
        start, before = time.perf_counter(), time.process_time()
        ask()
        if number >= WARM_UPS:
            walls.append(time.perf_counter() - start)
            processor.append(time.process_time() - before)
    return walls, processor


def fill(database: Database, path: Path, count: int) -> str:
    """Fill a store with copies of a bundle; return the key of the longest series."""
    content = adding._read(path)
    (of,) = content.targets[:1]
    keys = {}
    with database.writing() as connection:
        connection.execute(sa.insert(tables.machine), [content.machine])
        connection.execute(sa.insert(tables.software), [content.software])
        for name in range(NAMES):
            for kind in KINDS:
                for row in of.rows:
                    digest = f"{name:03}-{KINDS.index(kind)}-{row['name']}"
                    target = f"bench.target{name:03}"
                    own = {
                        "digest": digest,
                        "target": target,
                        "hardware": kind,
                        "texts": f"{target} {row['name']} {kind}",
                    }
                    values = {**row["series"], **own}
                    keys[name, kind, row["name"]] = len(keys) + 1
                    connection.execute(sa.insert(tables.series), [{**values, "id": len(keys)}])
    for start in range(0, count, BATCH):
        insert(database, content, of, keys, range(start, min(start + BATCH, count)))
    with database.writing() as connection:
        for name in range(NAMES):
            connection.execute(sa.text(NEWEST), {"name": f"bench.target{name:03}"})
    finish(database)
    return f"000-0-{of.rows[1]['name']}"


# The newest result of each target, as adding bundle by bundle finds them.
NEWEST = """
INSERT INTO newest (name, hardware, device, params_hash, target, created_s, bundle_name)
SELECT name, hardware, device, params_hash, max(id), max(created_s), 'newest' FROM target WHERE name = :name
GROUP BY name, hardware, device, params_hash
"""


def insert(database: Database, content: Any, of: Any, keys: dict[Any, int], numbers: range) -> None:
    """Insert generated bundles. The first target is in each of them, so that its series are the longest."""
    values: dict[sa.Table, list[dict[str, Any]]] = {}

    def put(table: sa.Table, one: dict[str, Any]) -> None:
        values.setdefault(table, []).append(one)

    random_ = np.random.default_rng(numbers.start)
    links = {"machine": content.machine["id"], "software": content.software["id"]}
    for number in numbers:
        seal, kind, created = f"{number:064x}", KINDS[number % 2], 1.7e9 + 600.0 * number
        name = f"run{number}"
        counted = {"targets": TARGETS, "rows": TARGETS * ROWS}
        own = {"number": number + 1, "id": seal, "name": name, "created_s": created}
        put(tables.bundle, {**content.bundle, **links, **counted, **own})
        for label in content.labels:
            put(tables.label, {**label, "bundle": number + 1})
        for ceiling in content.ceilings:
            put(tables.ceiling, {**ceiling, "bundle": number + 1})
        others = [(number // 2 * (TARGETS - 1) + place) % (NAMES - 1) + 1 for place in range(TARGETS - 1)]
        for place, target in enumerate((0, *others)):
            of_target = {"target": number * TARGETS + place + 1}
            more = {"bundle": number + 1, "name": f"bench.target{target:03}", "hardware": kind, "created_s": created}
            put(tables.target, {**of.target, **more, "id": of_target["target"]})
            for finding in of.findings:
                put(tables.finding, {**finding, **of_target})
            for row, factor in zip(of.rows, 1 + 0.01 * random_.standard_normal(len(of.rows)), strict=True):
                scaled = {key: value * factor for key, value in row.items() if key.startswith("time_s") and value}
                links_of_row = {**of_target, "bundle": number + 1, "series": keys[target, kind, row["name"]]}
                put(tables.row, {**row, **scaled, **links_of_row, "created_s": created})
    with database.writing() as connection:
        for table, some in values.items():
            connection.execute(sa.insert(table), some)


def finish(database: Database) -> None:
    """What an engine does by itself after a while: count its rows, and empty the log of writes."""
    with database.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        if database.is_sqlite:
            connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
        else:
            connection.exec_driver_sql("VACUUM ANALYZE")
            connection.exec_driver_sql("CHECKPOINT")


def size_of(database: Database) -> int:
    """The size of a database, in bytes."""
    if database.is_sqlite:
        return Path(database.engine.url.database or "").stat().st_size
    with database.reading() as connection:
        return int(connection.execute(sa.text("SELECT pg_database_size(current_database())")).scalar_one())


# --- adding


def added(engine: str, place: str, given: argparse.Namespace, bundles: Sequence[Path]) -> bool:
    """Add bundles, and tell how many a second."""
    with separate(engine, place, "added") as url, opened(url) as database:
        adding.add(database, bundles[0])  # imports
        start, before = time.perf_counter(), time.process_time()
        endings = [adding.add(database, path).ending for path in bundles[1:]]
        rate = len(endings) / (time.perf_counter() - start)
        processor_s = (time.process_time() - before) / len(endings)
    good = set(endings) == {"added"} and rate >= LIMIT_BUNDLES_PER_S
    what = f"bundles of {given.targets} x {ROWS} x {SAMPLES} samples added"
    return told(
        engine,
        what,
        f"{rate:.0f} bundles/s, cpu {processor_s * 1e3:.0f} ms each",
        f"{LIMIT_BUNDLES_PER_S} a second",
        good,
    )


# --- kills


IN_A_ROUND = 30  # bundles


def kills(engine: str, place: str, given: argparse.Namespace, bundles: Sequence[Path]) -> bool:
    """Let processes add the same bundles and kill them; tell what is lost and what is doubled.

    A round ends when all bundles are there; the next has a store of its own.
    """
    random_ = random.Random(1)
    some = bundles[:IN_A_ROUND]
    killed = rounds = lost = wrong = 0
    with separate(engine, place, "pace") as url, opened(url) as database:
        start = time.perf_counter()
        for path in some[:3]:
            adding.add(database, path)
        pace_s = (time.perf_counter() - start) / 3
    while killed < given.kills:
        rounds += 1
        with separate(engine, place, f"kills{rounds}") as url, tempfile.TemporaryDirectory() as folder:
            killed += Round(url, Path(folder), some, pace_s, random_).run(given.writers, given.kills - killed)
            reported = {line for file in Path(folder).iterdir() for line in file.read_text().split()}
            more_lost, more_wrong = examined(url, reported, some)
            lost, wrong = lost + more_lost, wrong + more_wrong
    shown = f"{lost} lost, {wrong} wrong"
    return told(engine, f"{given.writers} writers, {killed} kills, {rounds} stores", shown, "0, 0", lost == wrong == 0)


@frozen
class Round:
    """Processes that add the same bundles to a store.

    folder: for the reports of the processes.
    pace_s: how long a bundle takes. A process is killed within the time of some bundles after it has begun to add.
    """

    url: str
    folder: Path
    bundles: Sequence[Path]
    pace_s: float
    random: random.Random

    def run(self, writers: int, most: int) -> int:
        """Run the processes until all bundles are added, and kill at most so many. Returns how many were killed."""
        killed = 0
        running = [self.start() for _ in range(writers)]
        while running:
            pid, report = running.pop(self.random.randrange(len(running)))
            while not report.exists() and not ended(pid):
                time.sleep(0.001)
            time.sleep(self.random.uniform(0, 3 * self.pace_s))
            if ended(pid):
                continue  # it is through
            if killed < most:
                os.kill(pid, signal.SIGKILL)
                killed += 1
            os.waitpid(pid, 0)
            if killed < most:
                running.append(self.start())
        return killed

    def start(self) -> tuple[int, Path]:
        """Start a process that adds the bundles in an order of its own, and reports each that is stored."""
        report = self.folder / f"{self.random.random()}"
        order = self.random.sample(self.bundles, len(self.bundles))
        pid = os.fork()
        if pid:
            return pid, report
        try:
            with opened(self.url) as database, report.open("ab", buffering=0) as file:
                for path in order:
                    if adding.add(database, path).ending in ("added", "known"):
                        file.write(f"{path}\n".encode())
            os._exit(0)
        finally:
            os._exit(1)


def ended(pid: int) -> bool:
    """Whether a process has ended, also where that was asked before."""
    try:
        return os.waitpid(pid, os.WNOHANG)[0] != 0
    except ChildProcessError:
        return True


def examined(url: str, reported: set[str], bundles: Sequence[Path]) -> tuple[int, int]:
    """How many bundles are lost, and how many tables are wrong after a last pass."""
    with opened(url) as database:
        there = {one.path for one in listing.listed(database)}
        lost = len(reported - there)
        wrong = int(not whole(database, len(there)))
        for path in bundles:
            adding.add(database, path)
        wrong += int(not whole(database, len(bundles)))
    return lost, wrong


def whole(database: Database, bundles: int) -> bool:
    """Whether a store has so many bundles, each with all its rows and once."""
    with database.reading() as connection:
        counted = [
            connection.execute(sa.select(sa.func.count()).select_from(table)).scalar_one()
            for table in (tables.bundle, tables.target, tables.row)
        ]
        declared = connection.execute(
            sa.select(
                sa.func.coalesce(sa.func.sum(tables.bundle.c.targets), 0),
                sa.func.coalesce(sa.func.sum(tables.bundle.c.rows), 0),
            )
        ).one()
        sound = not database.is_sqlite or connection.exec_driver_sql("PRAGMA integrity_check").scalar() == "ok"
    targets, rows = map(int, declared)
    return sound and counted == [bundles, targets, rows]


PARTS = {"answers": answers, "adding": added, "kills": kills}

if __name__ == "__main__":
    sys.exit(main())
