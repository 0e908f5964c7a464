"""The results of asv: the files `results/MACHINE/COMMIT-ENVIRONMENT.json`, with `results/benchmarks.json` beside."""

import itertools
import json
from datetime import UTC, datetime
from typing import Any

from aiperf_analysis.foreign.model import Document, Figure, ForeignError, Results

VERSION = 2
_UNITS = {"seconds": "s", "bytes": "B"}
# The type of a benchmark by the beginning of its function's name, with quantity and unit, as asv takes them.
_TYPES = {"time": ("time", "s"), "timeraw": ("time", "s"), "mem": ("memory", "B"), "peakmem": ("peak memory", "B")}


def is_one(document: Document) -> bool:
    """Tell such a document by its fields."""
    return document.get("result_columns") is not None or document.get("commit_hash") is not None


def read(document: Document) -> Results:
    """Read the results of a commit. Of a time asv keeps the median, and its own samples where it was told to."""
    document.needs_version(document.get("version"), VERSION, "asv")
    columns, units = [one.text for one in document.at("result_columns").parts], _units(document)
    figures, skipped = [], {}
    results = document.at("results")
    for name, values in (results.data if isinstance(results.data, dict) else {}).items():
        row = results.at(name)
        cells = {column: cell.data for column, cell in zip(columns, row.parts, strict=False)} if values else {}
        quantity, unit = _quantity(name, units)
        for place, (title, value) in enumerate(_each(row, name, cells)):
            if value is None or value != value:  # NaN: left out by its setup
                skipped[title] = "asv has no result: it failed or was skipped"
                continue
            number = Document(document.path, value, f"results.{title}").number
            statistic = "median" if quantity == "time" else "value"
            samples = (cells.get("samples") or [None] * (place + 1))[place] or ()
            figures.append(
                Figure(name=title, quantity=quantity, unit=unit, statistics={statistic: number}, samples=tuple(samples))
            )
    return Results(
        tool="asv",
        created=_when(document),
        commit=document.at("commit_hash").text,
        machine=(document.get("params") or {}).get("machine") or document.path.parent.name,
        figures=figures,
        skipped=skipped,
    )


def _each(row: Document, name: str, cells: dict[str, Any]) -> list[tuple[str, Any]]:
    """The results of a benchmark by its name and parameters, in asv's order."""
    found = cells.get("result")
    combinations = list(itertools.product(*(cells.get("params") or ())))
    titles = [f"{name}({', '.join(one)})" if one else name for one in combinations]
    if found is None:
        return [(title, None) for title in titles]
    if not isinstance(found, list) or len(found) != len(titles):
        raise row.error(f"does not have a result for each of {len(titles)} combinations of parameters")
    return list(zip(titles, found, strict=True))


def _units(document: Document) -> dict[str, tuple[str, str]]:
    """The type and the unit of each benchmark, of the file that asv keeps beside the machines' folders."""
    path = document.path.parent.parent / "benchmarks.json"
    try:
        described = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return {
        name: (str(one.get("type")), str(one.get("unit")))
        for name, one in described.items()
        if isinstance(one, dict)
    }  # fmt: skip


def _quantity(name: str, units: dict[str, tuple[str, str]]) -> tuple[str, str]:
    """The quantity and the unit of a benchmark; of one that asv tracks, the unit is known from the other file only."""
    if name in units and units[name][0] == "track":
        return "value", _UNITS.get(units[name][1], units[name][1])
    begin = name.rpartition(".")[2].partition("_")[0].lower()
    return _TYPES.get(begin, ("value", ""))


def _when(document: Document) -> str:
    """The time of the commit."""
    try:
        return datetime.fromtimestamp(document.at("date").number / 1000, UTC).isoformat()
    except (OverflowError, OSError, ValueError) as error:
        if isinstance(error, ForeignError):
            raise
        raise document.at("date").error("is no time") from None
