"""Rows and samples of bundles as Arrow tables, for pandas, Polars, DuckDB and other readers of Arrow."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from attrs import fields

from aiperf_core.measurements import Samples
from aiperf_core.report.text import KINDS, SAMPLE_KINDS, arrow_table, table
from aiperf_core.results.address import Address, find
from aiperf_core.results.bundle import Bundle
from aiperf_core.results.filenames import MANIFEST
from aiperf_core.results.jsontext import dumps
from aiperf_core.results.listing import Run, Store

Source = str | Path | Bundle | Run | Store | Iterable[str | Path | Bundle | Run | Store]

# The columns of the bundle of a row, before the others of a row. `labels` is a JSON object.
ORIGIN = ("bundle", "seal", "created", "commit", "commit_time", "labels")
_KINDS = dict.fromkeys(ORIGIN, "str") | KINDS


def rows_table(source: Source) -> Any:
    """A `pyarrow.Table` with a row for each implementation.

    source: a bundle, its path or address, a run, a store, or several of these.

    Its columns are `bundle`, `seal`, `created`, `commit`, `commit_time`, `labels` (a JSON object) and those of `aiperf
    export --format csv`. A figure that was not measured or is not believed is null; `verdict` and `reason` say why.
    Raises UsageError where PyArrow is not installed.
    """
    columns: dict[str, list[Any]] = {name: [] for name in _KINDS}
    for address in _addresses(source):
        origin = _origin(address.bundle)
        for row in table(address.bundle.path.name, address.bundle.manifest, address.outlines()):
            for name, value in (origin | row).items():
                columns[name].append(value)
    return arrow_table(columns, _KINDS)


def samples_table(source: Source) -> Any:
    """A `pyarrow.Table` with a row for each sample of each implementation, believed or not.

    source: as of `rows_table`.

    Its columns are `bundle` and those of `aiperf export --samples`. A time is in seconds and covers `calls` calls.
    Raises UsageError where PyArrow is not installed.
    """
    columns: dict[str, list[Any]] = {name: [] for name in ("bundle", *SAMPLE_KINDS)}
    names = [one.name for one in fields(Samples)]
    for address in _addresses(source):
        for result in address.results():
            for row in result.rows:
                count = len(row.samples.block)
                of_row = {
                    "bundle": str(address.bundle.path),
                    "target": result.target,
                    "implementation": row.name,
                    "verdict": row.verdict.value,
                }
                for name, value in of_row.items():
                    columns[name] += [value] * count
                for name in names:
                    columns[name] += getattr(row.samples, name)
    return arrow_table(columns, {"bundle": "str"} | SAMPLE_KINDS)


def _addresses(source: Source) -> Iterator[Address]:
    if isinstance(source, str | Path):
        yield find(str(source))
    elif isinstance(source, Bundle):
        yield Address(source)
    elif isinstance(source, Run):
        yield Address(source.bundle)
    else:
        for one in source.runs() if isinstance(source, Store) else source:
            yield from _addresses(one)


def _origin(bundle: Bundle) -> dict[str, str | None]:
    manifest = bundle.manifest
    return {
        "bundle": str(bundle.path),
        "seal": manifest.hashes.get(MANIFEST),
        "created": manifest.created,
        "commit": manifest.git,
        "commit_time": manifest.commit_time,
        "labels": dumps(manifest.labels).strip(),
    }
