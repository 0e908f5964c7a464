"""The targets of this repository have goals, and the page of goals is the one that `aiperf goals --page` writes."""

import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "goals.md"
pytestmark = [
    pytest.mark.docs,
    pytest.mark.skipif(not PAGE.is_file(), reason="needs the repository's folder `docs`"),
]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The page, and the command that wrote it from the expectations files alone."""
    folder = tmp_path_factory.mktemp("goals")
    command = [sys.executable, "-m", "aiperf_core", "goals", "--in", str(folder), "--page", str(folder / "goals.md")]
    return folder / "goals.md", subprocess.run(command, capture_output=True, text=True, check=False)


def test_every_target_has_a_goal(made):
    _, done = made
    assert (done.returncode, done.stderr) == (0, "")


def test_the_page_is_up_to_date(made):
    page, _ = made
    assert PAGE.read_text() == page.read_text(), "write it again: aiperf goals --page docs/goals.md"
