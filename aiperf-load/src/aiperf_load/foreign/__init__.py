"""Results of other load generators, as points of a load. Nothing here proves their schedule: they are never trusted."""

from collections.abc import Callable
from pathlib import Path

from aiperf_core.errors import UsageError
from aiperf_load.foreign import guidellm, nvidia, vllm
from aiperf_load.foreign.fields import documents
from aiperf_load.foreign.points import Summary, point
from aiperf_load.records import LoadResult

# The tools, by the name of `--from`. `aiperf` is NVIDIA's tool of that name.
TOOLS: dict[str, Callable[..., list[Summary]]] = {
    "vllm": vllm.summaries,
    "guidellm": guidellm.summaries,
    "aiperf": nvidia.summaries,
}
ORIGINS = {"vllm": "vllm bench serve", "guidellm": "GuideLLM", "aiperf": "NVIDIA aiperf"}
NOTES = {"vllm": vllm.NOTES, "guidellm": guidellm.NOTES, "aiperf": nvidia.NOTES}


def imported(tool: str, files: list[Path]) -> LoadResult:
    """The results in files of a tool. Raises UsageError for any other file."""
    if tool not in TOOLS:
        raise UsageError(f"--from takes {', '.join(TOOLS)}; got {tool!r}.")
    found: list[Summary] = []
    left_out: list[str] = []
    sources: dict[str, str] = {}
    for file in files:
        sha256, whole = documents(file, ORIGINS[tool])
        if sha256 in sources.values():
            raise UsageError(f"'{file}' has the same content as a file before it; name each result once.")
        sources[str(file)] = sha256
        for document in whole:
            found += TOOLS[tool](document)
            left_out += guidellm.notes(document) if tool == "guidellm" else []
    told = [f"'{file}' has the SHA-256 {sha256}" for file, sha256 in sources.items()]
    return LoadResult(
        mode="import",
        origin=ORIGINS[tool],
        points=[point(f"p{number:03d}", one, ORIGINS[tool]) for number, one in enumerate(found)],
        complete=True,
        notes=[
            *NOTES[tool],
            *left_out,
            "the manifest describes the machine of the import, not that of the measurement",
            *told,
        ],
    )
