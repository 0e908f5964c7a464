"""The extras: one for every other package, and two that hold others."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
EXTRAS = tomllib.loads((ROOT / "aiperf-bench" / "pyproject.toml").read_text())["project"]["optional-dependencies"]
OTHERS = {path.parent.name.removeprefix("aiperf-") for path in ROOT.glob("aiperf-*/pyproject.toml")} - {"bench", "core"}


def held(extra: str) -> set[str]:
    """The extras that an extra holds."""
    (requirement,) = EXTRAS[extra]
    found = re.fullmatch(r"aiperf-bench\[(.*)\]", requirement)
    assert found
    return set(found[1].split(","))


def test_every_package_has_an_extra() -> None:
    single = {name: requirements for name, requirements in EXTRAS.items() if name not in ("torch", "book", "all")}
    assert single == {name: [f"aiperf-{name}~=0.1.0"] for name in OTHERS}


def test_extras_of_several_packages_hold_all_of_them() -> None:
    chapters = {name for name in OTHERS if name.startswith("ch")}
    assert held("book") == chapters
    assert held("all") == {"book"} | OTHERS - chapters
