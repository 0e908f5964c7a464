"""Write the dumps of stores of a former version, which the tests upgrade. They were made once, and stay as they are.

    python aiperf-analysis/tests/stored/make.py 2

A change of a revision after its release would show as a failing test, not as another dump.
"""

import runpy
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

from attrs import evolve

from aiperf_analysis.store import adding, database
from aiperf_core.results import example
from aiperf_core.results.bundle import Bundle

HERE = Path(__file__).parent
FLEETS = runpy.run_path(str(HERE.parent / "fleet_bundles.py"))
LOADS = runpy.run_path(str(HERE.parent / "load_bundles.py"))
SERVER = runpy.run_path(str(HERE.parent / "postgres_server.py"))


def fill(url: str, folder: Path, revision: int) -> None:
    """Make a store with two runs of a target and a run of another; then also bundles of a load and of a fleet."""
    database.made(url, revision)
    bundles = []
    for number, name in enumerate(("ch07.memory_access", "ch07.memory_access", "ch07.transpose")):
        bundle = Bundle.create_at(folder / f"run{number}")
        bundle.write_target(evolve(example.result(), target=name, rows=example.rows()[:3]))
        created = f"2026-11-2{number}T10:00:00+00:00"
        bundle.write_manifest(evolve(example.manifest(), created=created, labels={"branch": "main"}))
        bundles.append(bundle.path)
    if revision > 1:
        bundles.append(LOADS["stored"](folder / "load"))
    if revision > 2:
        bundles.append(FLEETS["written"](folder / "fleet"))
    # Their tables came later.
    if revision < 2:
        adding._renew = lambda *_: None  # type: ignore[assignment]
    if revision < 3:
        adding.insert_loads = lambda *_: 0
    adding.insert_fleets = lambda *_: 0
    with database._connected(url) as store:
        for path in bundles:
            assert adding.add(store, path).ending == "added"


def main() -> None:
    """Write both dumps of a version."""
    revision = int(sys.argv[1])
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        fill(f"sqlite:///{folder}/store.db", folder / "sqlite", revision)
        connection = sqlite3.connect(folder / "store.db")
        (HERE / f"revision_{revision}.sqlite.sql").write_text("\n".join(connection.iterdump()) + "\n")
        connection.close()
        with SERVER["server"]() as url:
            fill(url, folder / "postgresql", revision)
            dump = subprocess.run(
                [SERVER["programs"]() / "pg_dump", "--inserts", "--no-owner", url], check=True, capture_output=True
            ).stdout.decode()
        # Lines with a backslash are commands of psql.
        lines = [line for line in dump.splitlines() if line and not line.startswith(("--", "\\"))]
        (HERE / f"revision_{revision}.postgresql.sql").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
