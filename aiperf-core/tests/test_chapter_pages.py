"""The pages of chapters: written notes and generated parts are joined, and none is lost."""

import re
import sys
from pathlib import Path

import pytest

from aiperf_core.plugins import load_plugins

DOCS = Path(__file__).parents[2] / "docs"
GROUPS = sorted({one.group for one in load_plugins().targets if re.fullmatch(r"ch\d+", one.group)})


@pytest.fixture
def chapters(monkeypatch):
    monkeypatch.syspath_prepend(str(DOCS))
    import chapters

    yield chapters
    sys.modules.pop("chapters")


@pytest.mark.parametrize("group", GROUPS)
def test_every_chapter_has_a_page_whose_notes_are_on_its_targets(chapters, group):
    source = (DOCS / f"{group}.md").read_text()
    mark = chapters.MARK.search(source)
    assert mark, f"docs/{group}.md has no mark"
    assert mark["name"] == group
    chapters.sections(source[mark.end() :], [one for one in load_plugins().targets if one.group == group])


def test_a_page_has_generated_parts_and_notes_of_each_target(chapters):
    page = chapters.page((DOCS / "ch12.md").read_text())
    assert page.startswith("# Chapter 12")
    order = ["| target | devices | goal | lesson |", "## `ch12.cuda_graphs`", "- **Workload.**", "| device | impl"]
    order += [
        '<figure class="ladder" id="figure-ch12.cuda_graphs"><svg',
        "Measured on `nvidia-h200-x1`",
        "- **Observe.**",
    ]
    order += ["## `ch12.graph_while`", "- **Judged.**", "## Run them"]
    places = [page.find(one, page.find("## `ch12.graph_while`") if one == "- **Judged.**" else 0) for one in order]
    assert -1 not in places
    assert places == sorted(places)
    assert page.count("<style>") == 1


def test_the_overview_has_every_chapter_with_its_targets_and_measured_results(chapters):
    rows = [
        line for line in chapters.page((DOCS / "lessons.md").read_text()).splitlines() if re.match(r"\| \[.*ch\d", line)
    ]
    assert len(rows) == len(GROUPS)
    (row,) = [line for line in rows if "(ch07.md)" in line]
    count = sum(one.group == "ch07" for one in load_plugins().targets)
    assert row.startswith(f"| [Chapter 7: how accesses meet the memory system](ch07.md) | {count} | ")
    assert re.search(r"\d+ on `nvidia-h200-x1`", row)


def test_the_pictures_of_the_site_have_a_dark_scheme_and_leave_others_alone(chapters):
    rules = chapters.style().splitlines()
    assert any(rule.startswith('body[data-theme="dark"] { --page: #14181d') for rule in rules)
    assert any(rule.startswith("@media (prefers-color-scheme: dark)") for rule in rules)
    alone = [rule for rule in rules if not rule.startswith(("<", "body", "@media", "figure.ladder "))]
    assert alone == []


def test_other_pages_stay_as_they_are(chapters):
    assert chapters.page("# Title\n\n## `gather`\n") == "# Title\n\n## `gather`\n"


def test_notes_on_no_target_are_an_error(chapters):
    with pytest.raises(ValueError, match=r"^the page has notes on 'gone', which is no target of the chapter$"):
        chapters.page("# Chapter 12\n\n<!-- generated: chapter ch12 -->\n\n## `gone`\n\nnote\n")
