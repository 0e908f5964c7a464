"""Hold the lines of Python of each room to the budget in `line-budget.toml`.

    python line_budget.py            # exit code 1 for a room above its budget, or without one
    python line_budget.py --write    # write the budget anew, for rooms that became smaller

`nox -s lint` runs it. A change that exceeds a budget deletes something, or raises the number with a reason in its
commit.
"""

import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).parent
FILE = "line-budget.toml"


def lines(root: Path) -> dict[str, int]:
    """Lines of Python by room: the folders of a package's source and of its tests, and the files beside them."""
    counted: dict[str, int] = {}
    for package in sorted(root.glob("aiperf-*")):
        for place in (*sorted((package / "src").glob("aiperf_*")), package / "tests"):
            for file in sorted(place.rglob("*.py")):
                inner = file.relative_to(place).parts[:-1][:1]
                room = place.joinpath(*inner).relative_to(root).as_posix()
                counted[room] = counted.get(room, 0) + len(file.read_text(encoding="utf-8").splitlines())
    return counted


def problems(counted: Mapping[str, int], budget: Mapping[str, int]) -> Iterator[str]:
    """A sentence for each room that is above its budget, or that only one of both knows."""
    for room, number in counted.items():
        if room not in budget:
            yield f"{room}: {number:,} lines, and no budget; add it to {FILE}"
        elif number > budget[room]:
            yield f"{room}: {number:,} lines, {number - budget[room]:,} above its budget of {budget[room]:,}"
    yield from (f"{room}: has a budget and no lines; remove it from {FILE}" for room in budget if room not in counted)


def main(arguments: list[str]) -> int:
    """Check the budget, or write it."""
    counted, file = lines(ROOT), ROOT / FILE
    if arguments == ["--write"]:
        known = tomllib.loads(file.read_text()) if file.is_file() else {}
        kept = {room: min(number, known.get(room, number)) for room, number in counted.items()}
        file.write_text("".join(f'"{room}" = {number}\n' for room, number in kept.items()))
        return 0
    if arguments:
        sys.stderr.write(__doc__ or "")
        return 2
    found = list(problems(counted, tomllib.loads(file.read_text())))
    for sentence in found:
        sys.stderr.write(f"{sentence}\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
