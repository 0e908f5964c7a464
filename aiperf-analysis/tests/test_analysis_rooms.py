"""The rooms of the package lie in layers, as those of the core do: a file imports only from its own room and below it.

Every import counts: at the top of a file, within a function, and for types alone.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "aiperf_analysis"
# From the ground up. A room is a folder, or a file of the package's own folder.
LAYERS = (
    {"documents", "filters", "sparkline"},
    {"fleet_documents"},
    {"selection", "machine", "power_watch", "live", "models"},
    {"joint", "sizes", "history"},
    {"lines", "foreign"},
    {"store", "advice", "ci"},
    {"sources", "analyses", "schema"},
    {"demo", "cli", "dashboard", "tui"},
    {"plugin"},
)
# Within the layer of what a person sees: commands start both, which read the commands' options, and never each other.
FRONTS = {("cli", "demo"), ("cli", "dashboard"), ("cli", "tui"), ("dashboard", "cli"), ("tui", "cli")}
HEIGHTS = {room: height for height, rooms in enumerate(LAYERS) for room in rooms}


def room_of(file: Path) -> str:
    """The room of a file."""
    return file.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported(text: str) -> Iterator[str]:
    """The rooms that a file imports, anywhere in it."""
    for node in ast.walk(ast.parse(text)):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        parts = [name.split(".") for name in names]
        yield from (one[1] for one in parts if one[0] == "aiperf_analysis" and len(one) > 1)


def upward(room: str, text: str) -> list[str]:
    """The arrows of a file that do not point down, in words."""
    return [
        f"{room} imports {other}, which does not lie below it"
        for other in sorted({*imported(text)} - {room})
        if HEIGHTS[other] >= HEIGHTS[room] and (room, other) not in FRONTS
    ]


FILES = [file for file in sorted(SOURCE.rglob("*.py")) if file.parent != SOURCE or file.name != "__init__.py"]


def test_every_room_has_a_layer():
    assert {room_of(file) for file in FILES} == set(HEIGHTS)


def test_no_import_points_up():
    found = [f"{file.relative_to(SOURCE)}: {one}" for file in FILES for one in upward(room_of(file), file.read_text())]
    assert found == []


def test_an_arrow_that_points_up_is_named():
    text = "def read():\n    from aiperf_analysis.dashboard import site\n"
    assert upward("tui", text) == ["tui imports dashboard, which does not lie below it"]
    assert upward("store", "import aiperf_analysis.sources.source\n") == [
        "store imports sources, which does not lie below it"
    ]
