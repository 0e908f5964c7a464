"""The front pages: README.md and docs/index.md have their parts in order, and their picture is that of a stored run."""

import re
from pathlib import Path

import pytest

from aiperf_core.loading import load_benchmark
from aiperf_core.plugins import load_plugins
from aiperf_core.report.picture import render_svg
from aiperf_learn.pages.model import lesson_page

ROOT = Path(__file__).parents[2]
PICTURE = ROOT / "docs" / "static" / "memory-access.svg"
TARGET = "ch07.memory_access"
REMEDY = (
    f"write it again: aiperf page {TARGET} --out build/page.md; cp build/page-{TARGET}.svg {PICTURE.relative_to(ROOT)}; "
    "the paragraph 'Measured on' of build/page.md goes to README.md"
)


@pytest.fixture
def drawn():
    """The picture as a file and the paragraph on its run, as `aiperf page` writes them."""
    (target,) = [one for one in load_plugins().targets if one.name == TARGET]
    ladder = lesson_page(target, load_benchmark(target)).ladders[0]
    (origin,) = ladder.provenance
    return render_svg(ladder.drawing), origin.text


def places(text, parts):
    return [text.find(part) for part in parts]


def test_the_readme_says_what_it_is_shows_a_result_and_how_to_try_it_in_this_order():
    text = (ROOT / "README.md").read_text()
    found = places(
        text,
        [
            "# aiperf\n",
            "](docs/static/memory-access.svg)",
            "Measured on `",
            "## Try it\n",
            "$ git clone ",
            "$ cd aiperf\n",
            "$ python3 -m venv .venv && .venv/bin/pip install -q -c constraints.txt -e ./aiperf-core -e ./aiperf-ch07 ",
            "`aiperf` on PyPI is another\nproject",
            "## What makes its numbers different\n",
            "## Who it is for\n",
            "## Documentation\n",
            "## Tests\n",
        ],
    )
    assert -1 not in found
    assert found == sorted(found)
    about = re.split(r"(?<=[.])\s+", text.partition("\n")[2].strip().partition("\n\n")[0])
    assert len(about) == 2, "what it is, in two sentences"
    (block,) = re.findall(r"```console\n(\$ git clone.*?)```", text, re.DOTALL)
    assert block.count("$ ") == 3, "three lines to try it"


def test_no_page_installs_from_an_index_what_no_index_has():
    for page in (ROOT / "README.md", *(ROOT / "docs").glob("*.md")):
        for line in re.findall(r"^\$ .*pip install (.*)$", page.read_text(), re.MULTILINE):
            wrong = re.search(r"(?<![./\w-])aiperf(?!-acme)[\w-]*(?![\w./-])", line)
            assert not wrong, f"{page.name}: pip install {line}"


def test_ci_finds_the_line_of_the_tests():
    lines = re.findall(r"python3 -m venv .* -s tests$", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert lines == [
        "python3 -m venv .venv && .venv/bin/pip install -q -c constraints.txt nox && .venv/bin/nox -s tests"
    ]


def test_the_picture_and_its_origin_are_those_of_the_stored_run(drawn):
    picture, provenance = drawn
    assert PICTURE.read_text() == picture, REMEDY
    assert '<svg width="720"' in picture
    assert "no stored figure</text>" not in picture
    assert provenance in " ".join((ROOT / "README.md").read_text().split()), REMEDY


@pytest.mark.parametrize(
    ("page", "shown"), [("README.md", "docs/static/"), ("docs/index.md", "static/"), ("docs/start.md", "static/")]
)
def test_the_front_pages_show_the_picture(page, shown):
    text = (ROOT / page).read_text()
    assert f"]({shown}memory-access.svg)" in text
    assert "----------" not in text, "a result is a picture, not a terminal's table"
