"""Results of other tools in a store: one for each file, and none twice."""

import hashlib
import json
import time
from collections.abc import Iterator
from pathlib import Path

import sqlalchemy as sa

from aiperf_analysis.foreign.model import Figure, Results
from aiperf_analysis.foreign.reading import parse
from aiperf_analysis.store import tables
from aiperf_analysis.store.adding import Outcome
from aiperf_analysis.store.database import Database, StoreError
from aiperf_analysis.store.values import as_json, check_storable
from aiperf_core.errors import AiperfError, ExitCode
from aiperf_core.names import words
from aiperf_core.results.listing import moment


def add(database: Database, path: Path) -> tuple[Outcome, list[str]]:
    """Add the results of a file in one transaction, and tell of benchmarks in it that cannot be used.

    Raises StoreError where the store cannot be written; a file that cannot be read is an outcome.
    """
    try:
        content, changed = path.read_bytes(), path.stat().st_mtime
        results = parse(content, path, changed)
        added = _insert(database, hashlib.sha256(content).hexdigest(), path, results)
    except OSError as error:
        reason = f"cannot read '{words(str(path))}': {error.strerror or error}."
        return Outcome(path, "refused", reason, ExitCode.FAILED), []
    except StoreError:
        raise
    except AiperfError as error:
        return Outcome(path, "refused", str(error), ExitCode.FAILED), []
    code = ExitCode.FAILED if results.problems else ExitCode.OK
    return Outcome(path, "added" if added else "known", exit_code=code), results.problems


def _insert(database: Database, digest: str, path: Path, results: Results) -> bool:
    """Insert the results unless the store has this content."""
    values = {
        "id": digest,
        "tool": results.tool,
        "version": results.version,
        "path": str(path.absolute()),
        "created": results.created,
        "created_s": moment(results.created).timestamp(),
        "ingested_s": time.time(),
        "git": results.commit,
        "machine": results.machine,
        "skipped": as_json(results.skipped),
    }
    rows = [
        {
            "result": digest,
            "position": position,
            "name": one.name,
            "quantity": one.quantity,
            "unit": one.unit,
            "statistics": as_json(one.statistics),
            "samples": as_json(one.samples),
        }
        for position, one in enumerate(results.figures)
    ]
    for row in (values, *rows):
        check_storable(str(path), row)
    with database.writing() as connection:
        table = tables.foreign_result
        inserted = connection.execute(database.insert(table).values(values).on_conflict_do_nothing())
        if not inserted.rowcount:
            return False
        if rows:
            connection.execute(sa.insert(tables.foreign_figure), rows)
    return True


def stored(database: Database) -> Iterator[Results]:
    """All results, the oldest first."""
    result, figure = tables.foreign_result, tables.foreign_figure
    with database.reading() as connection:
        figures: dict[str, list[Figure]] = {}
        for row in connection.execute(sa.select(figure).order_by(figure.c.result, figure.c.position)):
            one = Figure(
                name=row.name,
                quantity=row.quantity,
                unit=row.unit,
                statistics=json.loads(row.statistics),
                samples=tuple(json.loads(row.samples)),
            )
            figures.setdefault(row.result, []).append(one)
        for row in connection.execute(sa.select(result).order_by(result.c.created_s)):
            yield Results(
                tool=row.tool,
                version=row.version,
                created=row.created,
                commit=row.git,
                machine=row.machine,
                figures=figures.get(row.id, []),
                skipped=json.loads(row.skipped),
            )
