"""The JSON of google-benchmark: `--benchmark_out=FILE --benchmark_out_format=json`."""

import statistics

from aiperf_analysis.foreign.model import Document, Figure, Results

_SECONDS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}
_STATISTICS = ("mean", "median", "stddev", "min", "max")
_TIMES = {"real_time": "time", "cpu_time": "CPU time"}


def is_one(document: Document) -> bool:
    """Tell such a document by its fields."""
    return document.get("context") is not None and document.get("benchmarks") is not None


def read(document: Document) -> Results:
    """Read the results: of one repetition the mean of its iterations, of several what the tool wrote of them.

    Where it wrote no aggregates, mean and median of the repetitions are computed, as it computes them.
    """
    context = document.at("context")
    document.needs_version(context.get("json_schema_version", 1), 1, "google-benchmark")
    of_names: dict[str, list[Document]] = {}
    skipped, problems = {}, []
    for one in document.at("benchmarks").parts:
        name = one.get("run_name") or one.at("name").text
        if one.get("error_occurred") or one.get("skipped"):
            skipped[name] = one.get("error_message") or one.get("skip_message") or "skipped"
        elif one.get("run_type", "iteration") == "iteration" and not one.get("iterations"):
            problems.append(f"{name!r} has no iterations")
        else:
            of_names.setdefault(name, []).append(one)
    figures = [figure for name, rows in of_names.items() for figure in _figures(name, rows)]
    return Results(
        tool="google-benchmark",
        version=str(context.get("library_version") or ""),
        created=context.at("date").text,
        machine=context.get("host_name") or "",
        figures=figures,
        skipped=skipped,
        problems=problems,
    )


def _figures(name: str, rows: list[Document]) -> list[Figure]:
    """The figures of a benchmark; of repetitions that stand twice, one for each time."""
    runs = [one for one in rows if one.get("run_type", "iteration") == "iteration"]
    numbers = [one.get("repetition_index", 0) for one in runs]
    found = []
    for key, quantity in _TIMES.items():
        aggregates = {
            one.get("aggregate_name"): _seconds(one, key)
            for one in rows
            if one.get("run_type") == "aggregate" and one.get("aggregate_name") in _STATISTICS
        }
        samples = tuple(_seconds(one, key) for one in runs)
        computed = {"mean": statistics.fmean(samples), "median": statistics.median(samples)} if samples else {}
        if len(samples) == 1:
            del computed["median"]
        figure = Figure(name=name, quantity=quantity, statistics=computed | aggregates, samples=samples)
        found += [figure] * (1 if len(set(numbers)) == len(numbers) else 2)
    return found


def _seconds(one: Document, key: str) -> float:
    unit = one.get("time_unit", "ns")
    if unit not in _SECONDS:
        raise one.error(f"has the unit {unit!r}; accepted are {', '.join(_SECONDS)}")
    return one.at(key).number * _SECONDS[unit]
