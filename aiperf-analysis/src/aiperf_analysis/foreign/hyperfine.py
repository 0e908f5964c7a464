"""The JSON of hyperfine: `hyperfine --export-json FILE`."""

from aiperf_analysis.foreign.model import Document, Figure, Results

_STATISTICS = ("mean", "stddev", "median", "min", "max")


def is_one(document: Document) -> bool:
    """Tell such a document by its fields."""
    results = document.get("results")
    return isinstance(results, list) and all(isinstance(one, dict) and "command" in one for one in results)


def read(document: Document) -> Results:
    """Read the results. Times are of one run, in seconds; the file says neither when nor where."""
    figures, skipped = [], {}
    for one in document.at("results").parts:
        values = ", ".join(f"{name}={value}" for name, value in (one.get("parameters") or {}).items())
        name = one.at("command").text + (f" [{values}]" if values else "")
        if any(one.get("exit_codes") or ()):
            codes = sorted({str(code) for code in one.get("exit_codes") if code != 0})
            skipped[name] = f"runs ended with exit code {', '.join(codes)}"
            continue
        samples = tuple(part.number for part in one.at("times").parts) if one.get("times") else ()
        figures.append(Figure(name=name, statistics=one.numbers(*_STATISTICS), samples=samples))
    return Results(tool="hyperfine", created="", figures=figures, skipped=skipped)
