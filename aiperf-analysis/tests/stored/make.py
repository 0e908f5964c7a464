"""Write the dumps of stores of the first version, which the tests upgrade. They were made once, and stay as they are.

    python aiperf-analysis/tests/stored/make.py

A change of revision 1 after its release would show as a failing test, not as another dump.
"""

import runpy
import sqlite3
import subprocess
import tempfile
from pathlib import Path

from attrs import evolve

from aiperf_analysis.store import adding, database
from aiperf_core.results import example
from aiperf_core.results.bundle import Bundle

HERE = Path(__file__).parent
SERVER = runpy.run_path(str(HERE.parent / "postgres_server.py"))


def fill(url: str, folder: Path) -> None:
    """Make a store of version 1 with two runs of a target and a run of another."""
    database.made(url, 1)
    adding._renew = lambda *_: None  # type: ignore[assignment]  # its table came later
    with database._connected(url) as store:
        for number, name in enumerate(("ch07.memory_access", "ch07.memory_access", "ch07.transpose")):
            bundle = Bundle.create_at(folder / f"run{number}")
            bundle.write_target(evolve(example.result(), target=name, rows=example.rows()[:3]))
            created = f"2026-11-2{number}T10:00:00+00:00"
            bundle.write_manifest(evolve(example.manifest(), created=created, labels={"branch": "main"}))
            assert adding.add(store, bundle.path).ending == "added"


def main() -> None:
    """Write both dumps."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        fill(f"sqlite:///{folder}/store.db", folder / "sqlite")
        connection = sqlite3.connect(folder / "store.db")
        (HERE / "revision_1.sqlite.sql").write_text("\n".join(connection.iterdump()) + "\n")
        connection.close()
        with SERVER["server"]() as url:
            fill(url, folder / "postgresql")
            dump = subprocess.run(
                [SERVER["programs"]() / "pg_dump", "--inserts", "--no-owner", url], check=True, capture_output=True
            ).stdout.decode()
        # Lines with a backslash are commands of psql.
        lines = [line for line in dump.splitlines() if line and not line.startswith(("--", "\\"))]
        (HERE / "revision_1.postgresql.sql").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
