"""A store as Parquet files, for DuckDB, Polars, pandas and other readers of Arrow."""

import importlib
import shutil
import tempfile
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from aiperf_analysis.store import tables
from aiperf_analysis.store.database import Database
from aiperf_core.errors import AiperfError, UsageError
from aiperf_core.names import words

BATCH = 20_000  # rows in memory

_SEAL = tables.bundle.c.id.label("bundle")
_OF_TARGET = ("device", "hardware", "params", "goal", "clock", "cache", "precision", "floor", *tables.WORK)


def _without(table: sa.Table, *names: str) -> list["sa.Column[Any]"]:
    return [one for one in table.c if one.name not in names]


# The files, with their columns. A row has the names of its target, its series and its bundle beside its figures.
_QUERIES: dict[str, "sa.Select[Any]"] = {
    "bundles": sa.select(*_without(tables.bundle, "number")).order_by(tables.bundle.c.created_s),
    "labels": sa.select(_SEAL, *_without(tables.label, "bundle")).join_from(tables.label, tables.bundle),
    "machines": sa.select(tables.machine),
    "software": sa.select(tables.software),
    "ceilings": sa.select(_SEAL, *_without(tables.ceiling, "bundle")).join_from(tables.ceiling, tables.bundle),
    "rows": sa.select(
        _SEAL,
        tables.bundle.c.name.label("run"),
        tables.bundle.c.created,
        tables.bundle.c.git.label("commit"),
        tables.target.c.name.label("target"),
        tables.row.c.name.label("row"),
        tables.series.c.digest.label("series"),
        *(tables.target.c[name] for name in _OF_TARGET),
        *_without(tables.row, "target", "name", "series", "bundle"),
    )
    .select_from(
        tables.row.join(tables.target, tables.target.c.id == tables.row.c.target)
        .join(tables.series, tables.series.c.id == tables.row.c.series)
        .join(tables.bundle, tables.bundle.c.number == tables.row.c.bundle)
    )
    .order_by(tables.row.c.target, tables.row.c.position),
    "findings": sa.select(
        _SEAL, tables.target.c.name.label("target"), *_without(tables.finding, "target", "position")
    ).select_from(
        tables.finding.join(tables.target, tables.target.c.id == tables.finding.c.target).join(
            tables.bundle, tables.bundle.c.number == tables.target.c.bundle
        )
    ),
    "loads": sa.select(_SEAL, *_without(tables.load, "id", "bundle", "data"))
    .join_from(tables.load, tables.bundle)
    .order_by(tables.load.c.id),
    "load_points": sa.select(
        _SEAL,
        tables.load.c.name.label("load"),
        tables.load_point.c.name.label("point"),
        tables.load.c.origin,
        *_without(tables.load_point, "load", "bundle", "name"),
    )
    .select_from(
        tables.load_point.join(tables.load, tables.load.c.id == tables.load_point.c.load).join(
            tables.bundle, tables.bundle.c.number == tables.load_point.c.bundle
        )
    )
    .order_by(tables.load_point.c.load, tables.load_point.c.position),
    "fleets": sa.select(_SEAL, *_without(tables.fleet, "id", "bundle", "data"))
    .join_from(tables.fleet, tables.bundle)
    .order_by(tables.fleet.c.id),
}


def export(database: Database, folder: Path) -> dict[str, int]:
    """Write a file `NAME.parquet` for each of `_QUERIES`: bundles, rows, points of loads, and what belongs to them.

    folder: new or empty. It is filled as a whole or not at all.

    Returns the number of rows by file. Raises UsageError where PyArrow is missing or the folder is not empty.
    """
    arrow = _arrow()
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"'{words(str(folder))}' exists and is not an empty folder. Name a new one with --parquet.")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
        try:
            with database.reading() as connection:
                counted = {
                    f"{name}.parquet": _write(arrow, connection, query, made / f"{name}.parquet")
                    for name, query in _QUERIES.items()
                }
            made.chmod(0o755)
            made.replace(folder)
        finally:
            shutil.rmtree(made, ignore_errors=True)
    except OSError as error:
        raise AiperfError(
            f"cannot write '{words(str(folder))}': {error.strerror or error}. Nothing was written there."
        ) from error
    return counted


def _arrow() -> Any:
    try:
        return importlib.import_module("pyarrow")
    except ModuleNotFoundError:
        raise UsageError(
            "--parquet needs PyArrow, which is not installed: pip install 'aiperf-analysis[parquet]'"
        ) from None


def _write(arrow: Any, connection: sa.Connection, query: "sa.Select[Any]", file: Path) -> int:
    columns = list(query.selected_columns)
    schema = arrow.schema([(one.name, _type(arrow, one.type)) for one in columns])
    count = 0
    with importlib.import_module("pyarrow.parquet").ParquetWriter(file, schema, compression="zstd") as writer:
        found = connection.execution_options(yield_per=BATCH).execute(query)
        for some in found.partitions():
            arrays = [
                arrow.array([_value(value, one.type) for value in values], _type(arrow, one.type))
                for values, one in zip(zip(*some, strict=True), columns, strict=True)
            ]
            writer.write_table(arrow.table(arrays, schema=schema))
            count += len(some)
    return count


def _value(value: Any, kind: "sa.types.TypeEngine[Any]") -> Any:
    """SQLite has no type for truth values: they are 0 and 1."""
    return bool(value) if isinstance(kind, sa.Boolean) and value is not None else value


def _type(arrow: Any, kind: "sa.types.TypeEngine[Any]") -> Any:
    if isinstance(kind, sa.Boolean):
        return arrow.bool_()
    if isinstance(kind, sa.Integer):
        return arrow.int64()
    return arrow.float64() if isinstance(kind, sa.Double) else arrow.string()
