"""The text of each screen of `aiperf tui` at three sizes, as files that a person looks at."""

import os
from pathlib import Path

import pytest
from attrs import evolve

from aiperf_core.results import example

SIZES = ((80, 24), (120, 40), (200, 60))
SNAPSHOTS = Path(__file__).parents[1] / "snapshots" / "tui"
# What is pressed on each screen to reach the next.
WAYS = {
    "runs": (),
    "run": ("enter",),
    "row": ("enter",),
    "facts": ("escape", "tab"),
    "rows": ("2",),
    "filtered": ("slash", *"tiled"),
    "history": ("escape", "h"),
    "analyses": ("3",),
    "machines": ("4",),
    "pareto": ("p",),
    "picture": ("d",),
    "notes": ("escape", "n"),
    "compare": ("1", "space", "down", "space", "c"),
    "help": ("question_mark",),
}


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
def test_the_text_of_each_screen(plugins, drive, here, size):
    """Set AIPERF_SNAPSHOTS=write to write the files again, and look at what changed."""
    texts = {}

    async def steps(screen):
        for name, keys in WAYS.items():
            texts[name] = await screen.press(*keys)

    own = evolve(plugins, analyses={
        key: one for key, one in plugins.analyses.items() if one.distribution in ("aiperf-analysis", "aiperf-traces")
    })  # fmt: skip
    drive(here, steps, size, plugins=own)
    for name, text in texts.items():
        file = SNAPSHOTS / f"{name}-{size[0]}x{size[1]}.txt"
        if os.environ.get("AIPERF_SNAPSHOTS") == "write":
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        assert text == file.read_text(), name
        lines = text.splitlines()
        assert len(lines) == size[1]
        assert "q Quit" in lines[-1] or name == "filtered"


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_the_text_is_the_same_in_fifty_runs(plugins, drive, here):
    found = []

    async def steps(screen):
        texts = {}
        for name, keys in WAYS.items():
            texts[name] = await screen.press(*keys)
        found.append(texts)

    for _ in range(50):
        drive(here, steps)
        assert found[-1] == found[0]


def test_the_examples_are_those_that_the_snapshots_show(drive, here):
    assert {one.name for one in here.iterdir()} == {"example", "whole"}
    assert example.result().target == "ch07.memory_access"
