"""The budget of lines: what is counted as a room, and what is a problem."""

from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "line_budget.py"
pytestmark = pytest.mark.skipif(not SCRIPT.is_file(), reason="needs the repository")


def test_rooms_are_the_folders_of_source_and_tests(script, tmp_path):
    for name, count in {
        "aiperf-x/src/aiperf_x/one.py": 3,
        "aiperf-x/src/aiperf_x/room/two.py": 5,
        "aiperf-x/src/aiperf_x/room/inner/three.py": 7,
        "aiperf-x/tests/test_one.py": 11,
    }.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("x = 1\n" * count)
    assert script.lines(tmp_path) == {
        "aiperf-x/src/aiperf_x": 3,
        "aiperf-x/src/aiperf_x/room": 12,
        "aiperf-x/tests": 11,
    }


@pytest.mark.parametrize(
    ("counted", "allowed", "sentences"),
    [
        ({"room": 10}, {"room": 10}, []),
        ({"room": 1200}, {"room": 1100}, ["room: 1,200 lines, 100 above its budget of 1,100"]),
        ({"room": 7}, {}, ["room: 7 lines, and no budget; add it to line-budget.toml"]),
        ({}, {"room": 7}, ["room: has a budget and no lines; remove it from line-budget.toml"]),
    ],
)
def test_each_kind_of_problem(script, counted, allowed, sentences):
    assert list(script.problems(counted, allowed)) == sentences
