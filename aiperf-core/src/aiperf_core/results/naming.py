"""How a command names a bundle: by a path, by the name of its folder or the start of it, or as `latest`.

Names are those of the folders in `artifacts/runs`, or in the folder of `--in`. A path wins over a name, a whole name
over `latest`, and `latest` over the start of a name.
"""

import os
import re
from pathlib import Path

from aiperf_core.errors import UsageError
from aiperf_core.names import words
from aiperf_core.results.bundle import DEFAULT_PARENT
from aiperf_core.results.filenames import MANIFEST
from aiperf_core.targets import nearest

LATEST = "latest"
ACCEPTED = f"a path, the name of a bundle or the start of it, {LATEST}, {LATEST}~1 (the bundle before)"
SHOWN = 5  # names in a message


def located(text: str, folder: Path = DEFAULT_PARENT) -> Path | None:
    """The path of the bundle that `text` names; None where it names nothing. A path need not exist.

    Raises UsageError if several names start with `text`, or if there are fewer bundles than `latest~N` counts.
    """
    if is_path(text):
        return Path(text)
    if os.path.exists(os.path.join(text, MANIFEST)):
        return Path(text)
    known = names(folder)
    if text in known:
        return folder / text
    if counted := re.fullmatch(rf"{LATEST}(?:~([0-9]{{1,6}}))?", text):
        return _latest(text, int(counted[1] or 0), folder)
    starting = [name for name in known if text and name.startswith(text)]
    if len(starting) > 1:
        raise UsageError(
            f"'{words(text)}' is the start of {len(starting)} bundles in '{folder}': {_listed(starting)}. Give more of "
            "the name."
        )
    if starting:
        return folder / starting[0]
    return Path(text) if text and os.path.lexists(text) else None


def unknown(text: str, folder: Path = DEFAULT_PARENT) -> UsageError:
    """The error for a text that names no bundle: what is accepted, and the newest bundles."""
    from aiperf_core.results.listing import bundles

    known = [one.name for one in bundles(folder)]
    hint = nearest(text, [*known, LATEST])
    newest = f" The newest in '{folder}': {_listed(known)}." if known else f" '{folder}' holds no bundles."
    return UsageError(f"{words(text)!r} names no bundle.{hint}{newest} Accepted: {ACCEPTED}.")


def is_path(text: str) -> bool:
    """Whether a text can only be a path: it contains a slash, or is `.` or `..`."""
    return "/" in text or text in (".", "..")


def names(folder: Path) -> list[str]:
    """The names of the bundles in a folder, readable or not, the last in the alphabet first. Links are left out."""
    try:
        with os.scandir(folder) as entries:
            found = [one.name for one in entries if one.is_dir(follow_symlinks=False)]
    except OSError:
        return []
    return sorted((name for name in found if os.path.exists(folder / name / MANIFEST)), reverse=True)


def _latest(text: str, before: int, folder: Path) -> Path:
    """The bundle whose run began last, or one before it. Bundles that cannot be read do not count."""
    from aiperf_core.results.listing import Run, bundles

    runs = [one for one in bundles(folder) if isinstance(one, Run)]
    if before < len(runs):
        return runs[before].path
    if not runs:
        raise UsageError(f"'{text}' names no bundle: '{folder}' holds none. Make one: aiperf run PATTERN")
    oldest = LATEST + (f"~{len(runs) - 1}" if len(runs) > 1 else "")
    raise UsageError(
        f"'{text}' names no bundle: '{folder}' holds {len(runs)}, and the oldest is '{oldest}' ({runs[-1].name})."
    )


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(words(name) for name in names[:SHOWN]) + more
