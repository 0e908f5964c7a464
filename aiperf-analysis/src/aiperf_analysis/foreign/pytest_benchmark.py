"""The JSON of pytest-benchmark: `pytest --benchmark-json=FILE`."""

from aiperf_analysis.foreign.model import Document, Figure, Results

_STATISTICS = ("min", "max", "mean", "stddev", "median", "iqr")
# Of the tool, whose version is the format's.
_MAJORS = ("3", "4", "5")
_NO_COMMIT = "unversioned"


def is_one(document: Document) -> bool:
    """Tell such a document by its fields."""
    return document.get("machine_info") is not None and document.get("benchmarks") is not None


def read(document: Document) -> Results:
    """Read the results. Times are of one call, in seconds."""
    version = document.at("version").text
    if version.partition(".")[0] not in _MAJORS:
        raise document.error(f"pytest-benchmark has version {version!r}; this aiperf reads {' to '.join(_MAJORS[::2])}")
    figures, problems = [], []
    for one in document.at("benchmarks").parts:
        name, stats = one.at("fullname").text, one.at("stats")
        if not stats.get("rounds") or not stats.get("iterations"):
            problems.append(f"{name!r} has no iterations")
            continue
        samples = tuple(part.number for part in stats.at("data").parts) if stats.get("data") else ()
        figures.append(Figure(name=name, statistics=stats.numbers(*_STATISTICS), samples=samples))
    commit = (document.get("commit_info") or {}).get("id") or ""
    return Results(
        tool="pytest-benchmark",
        version=version,
        created=document.at("datetime").text,
        commit="" if commit == _NO_COMMIT else commit,
        machine=document.get("machine_info").get("node") or "",
        figures=figures,
        problems=problems,
    )
