"""The JSON of nvbench: `--json FILE`."""

from aiperf_analysis.foreign.model import Document, Figure, Results

# The summaries that are times, by the beginning of their tags.
_TIMES = {
    "nv/cold/time/gpu": "time",
    "nv/batch/time/gpu": "batch time",
    "nv/cold/time/cpu": "CPU time",
    "nv/cpu_only/time/cpu": "time",
}
_STATISTICS = ("mean", "median", "min", "max")
_SIZES = ("nv/cold/sample_size", "nv/cpu_only/sample_size")


def is_one(document: Document) -> bool:
    """Tell such a document by its fields."""
    return document.get("devices") is not None and document.get("benchmarks") is not None


def read(document: Document) -> Results:
    """Read the results: of each state the times by the GPU's clock, of batches and by the host's clock, in seconds."""
    version = document.at("meta").at("version")
    document.needs_version(version.at("json").get("major"), 1, "nvbench")
    devices = {one.get("id"): one.at("name").text for one in document.at("devices").parts}
    figures, skipped, problems = [], {}, []
    for benchmark in document.at("benchmarks").parts:
        for state in benchmark.at("states").parts:
            values = " ".join(f"{one.at('name').text}={one.get('value')}" for one in _parts(state, "axis_values"))
            name = " ".join(filter(None, [benchmark.at("name").text, values, _device(state, devices)]))
            if state.get("is_skipped"):
                skipped[name] = state.get("skip_reason") or "skipped"
                continue
            summaries = {one.at("tag").text: _value(one) for one in _parts(state, "summaries")}
            if any(summaries.get(tag) == 0 for tag in _SIZES):
                problems.append(f"{name!r} has no samples")
                continue
            figures += _figures(name, summaries)
    return Results(
        tool="nvbench",
        version=str(version.at("nvbench").get("string") or ""),
        created="",
        machine=", ".join(dict.fromkeys(devices.values())),
        figures=figures,
        skipped=skipped,
        problems=problems,
    )


def _parts(document: Document, key: str) -> list[Document]:
    return document.at(key).parts if document.get(key) is not None else []


def _device(state: Document, devices: dict[int, str]) -> str:
    """The device of a state, where the file has several."""
    return f"device={state.get('device')}" if len(devices) > 1 and state.get("device") is not None else ""


def _value(summary: Document) -> float | None:
    """The number of a summary; None where it is a text."""
    for one in _parts(summary, "data"):
        if one.get("name") == "value" and one.get("type") != "string":
            return one.at("value").number
    return None


def _figures(name: str, summaries: dict[str, float | None]) -> list[Figure]:
    found = []
    for begin, quantity in _TIMES.items():
        values = {key: summaries.get(f"{begin}/{key}") for key in _STATISTICS}
        there = {key: value for key, value in values.items() if value is not None}
        if there:
            found.append(Figure(name=name, quantity=quantity, statistics=there))
    return found
