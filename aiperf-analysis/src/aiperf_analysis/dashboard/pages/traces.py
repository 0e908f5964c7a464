"""Traces below the folder of the results: which there are, and where their time goes."""

import hashlib
import os
from pathlib import Path

from attrs import frozen

from aiperf_analysis.dashboard import filters, shown
from aiperf_analysis.dashboard.asked import Asked, View
from aiperf_analysis.dashboard.pages import document
from aiperf_analysis.sources.errors import NotFoundError
from aiperf_analysis.sources.source import FolderSource
from aiperf_core import units
from aiperf_core.analysis_options import from_texts, options_of
from aiperf_core.errors import AiperfError
from aiperf_core.names import words
from aiperf_core.report.result import Column, Record, Result, Table, counted
from aiperf_core.results.filenames import LOGS, MANIFEST, TARGETS
from aiperf_core.results.models import DOCUMENT_KINDS

ENDINGS = (".json", ".json.gz", ".sqlite")
NOT_TRACES = ("profile.json", "manifest.json")
LEFT_OUT = (TARGETS, LOGS, *DOCUMENT_KINDS)  # folders of a bundle that hold no traces
MOST, DEEPEST = 2000, 6


@frozen
class TraceFile:
    """A file that may be a trace. `id` is a hash of its place below the root."""

    id: str
    name: str
    path: Path
    size: int


def files(root: Path) -> list[TraceFile]:
    """The traces below a folder, links excepted, in the order of their names."""
    found: list[TraceFile] = []
    todo = [(root, 0)]
    while todo and len(found) < MOST:
        folder, depth = todo.pop()
        try:
            entries = sorted(os.scandir(folder), key=lambda one: one.name)
        except OSError:
            continue
        is_bundle = any(one.name == MANIFEST for one in entries)
        for one in entries:
            if one.is_dir(follow_symlinks=False) and depth < DEEPEST and one.name[0] != ".":
                if not (is_bundle and one.name in LEFT_OUT):
                    todo.append((Path(one.path), depth + 1))
            elif one.is_file(follow_symlinks=False) and one.name.endswith(ENDINGS) and one.name not in NOT_TRACES:
                place = str(Path(one.path).relative_to(root))
                digest = hashlib.sha256(place.encode(errors="replace")).hexdigest()[:24]
                found.append(TraceFile(digest, place, Path(one.path), one.stat(follow_symlinks=False).st_size))
    return sorted(found, key=lambda one: one.name)


def _files(asked: Asked) -> list[TraceFile]:
    source = asked.site.source
    return files(source.root) if isinstance(source, FolderSource) else []


def page(asked: Asked) -> View:
    """The list of traces."""
    result = every(asked)
    tables = [shown.leading(one, "/trace/") for one in result.tables]
    return document.view(asked, result, api="/api/v1/traces", filtered=False, tables=tables)


def every(asked: Asked) -> Result:
    """All traces as a result."""
    found = _files(asked)
    columns = [Column("name", "file"), Column("size", "size", "figure"), Column("id", "id")]
    records = [Record({"name": one.name, "size": counted(one.size, "B"), "id": one.id}) for one in found]
    told = "They are files of torch.profiler and of nsys below the folder of the results."
    return Result(
        analysis="traces",
        title=units.plural("trace", len(found)),
        summary=[told if found else "There are no traces below the folder of the results; a store has none."],
        tables=[Table("traces", "Traces", columns, records)],
    )


def page_of_one(asked: Asked) -> View:
    """The analysis of a trace."""
    file = _file(asked)
    texts = filters.others(asked.query)
    pairs = [(key, text) for key, some in texts.items() for text in some]
    return document.view(
        asked,
        one(asked),
        title=file.name,
        api=filters.with_query(f"/api/v1/traces/{file.id}", pairs),
        command=["analyze", "trace", str(file.path), *(part for key, text in pairs for part in (f"--{key}", text))],
        crumbs=[("Traces", "/traces")],
        filtered=False,
    )


def _file(asked: Asked) -> TraceFile:
    for file in _files(asked):
        if file.id == asked.path["id"]:
            return file
    raise NotFoundError(f"'{words(asked.path['id'][:80])}' is the id of no trace here. The traces: /traces")


def one(asked: Asked) -> Result:
    """Where the time of a trace goes. Raises AiperfError for a file that is no trace."""
    file = _file(asked)
    installed = asked.site.plugins.analyses.get("trace")
    if installed is None:
        raise AiperfError(
            "The analysis 'trace' is not installed. Install it, in a clone of aiperf: pip install -e ./aiperf-traces"
        )
    function = installed.record.resolve()
    texts = {name: list(some) for name, some in filters.others(asked.query).items()}
    result: Result = function([file.path], from_texts(options_of(function), texts))
    return result
