"""Where the files of running runs lie, and how a run is recognised as dead."""

from pathlib import Path

from aiperf_core.folders import cache_folder, runtime_folder

SUFFIX = ".jsonl"
UNFINISHED = ".new"  # of a file that takes the place of the file of a run


def live_folder() -> Path:
    """The folder of the files of running runs: `aiperf/live` in `$XDG_RUNTIME_DIR`, else `live` in the cache folder."""
    return (runtime_folder() or cache_folder()) / "live"


def start_ticks(pid: int) -> int | None:
    """When a process started, in clock ticks since boot: field 22 of `/proc/PID/stat` (proc(5)).

    None if there is no such process, or it has ended and its parent has not noticed. A process number is used again,
    the pair of number and start is not.
    """
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return None
    # The name of the command, in parentheses, may contain spaces.
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else int(fields[19])
