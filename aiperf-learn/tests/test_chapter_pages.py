"""The pages of chapters: written notes and generated parts are joined, and none is lost."""

import re
import sys
from pathlib import Path

import pytest

from aiperf_core.plugins import load_plugins
from aiperf_core.report import svg

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


def test_a_page_lists_its_targets_with_pictures_and_links(chapters):
    page = chapters.page((DOCS / "ch12.md").read_text())
    assert page.startswith("# Chapter 12")
    order = ["| target | devices | goal | lesson |", "[`ch12.cuda_graphs`](lessons/ch12.cuda_graphs.md)"]
    order += ["## `ch12.cuda_graphs`", '<figure class="ladder" id="figure-ch12.cuda_graphs"><svg']
    order += ["](lessons/ch12.cuda_graphs.md)\n\n## `ch12.graph_while`", "## Run them", "\nlessons/ch12.cuda_graphs\n"]
    places = [page.find(part) for part in order]
    assert -1 not in places
    assert places == sorted(places)
    assert page.count("<style>") == 1
    assert "- **Observe.**" not in page


def test_a_lesson_has_its_notes_before_its_exercise(chapters):
    (target,) = [target for target in chapters.targets_of("ch12") if target.name == "ch12.cuda_graphs"]
    page = chapters.lesson(target, "- **Observe.** A ```` fence.")
    order = ["# ch12.cuda_graphs\n", "<style>", "Question</dt>", "## Results\n", "<svg", "Measured on ", "## Code\n"]
    order += [
        "## When it turns round\n",
        "## Notes\n\n- **Observe.** A ````",
        "## Exercise\n",
        "To check it: <code>aiperf run",
    ]
    places = [page.find(part) for part in order]
    assert -1 not in places
    assert places == sorted(places)
    assert "## Notes" not in chapters.lesson(target, "")


def test_pages_of_lessons_are_written_where_they_differ_and_old_ones_go(chapters, monkeypatch, tmp_path):
    monkeypatch.setattr(chapters, "HERE", tmp_path)
    monkeypatch.setattr(chapters, "LESSONS", tmp_path / "lessons")
    (tmp_path / "ch17.md").write_text(
        "# Seventeen\n\n<!-- generated: chapter ch17 -->\n\n## `routing_policy`\n\n- **Observe.** it\n"
    )
    (tmp_path / "lessons").mkdir()
    (tmp_path / "lessons/ch17.gone.md").write_text("old")
    chapters.write_lessons()
    pages = {path.name: path for path in (tmp_path / "lessons").iterdir()}
    assert {*pages} == {f"{target.name}.md" for target in chapters.targets_of("ch17")}
    assert "- **Observe.** it" in pages["ch17.routing_policy.md"].read_text()
    before = {name: path.stat().st_mtime_ns for name, path in pages.items()}
    pages["ch17.disagg_plan.md"].write_text("changed")
    chapters.write_lessons()
    after = {name: path.stat().st_mtime_ns for name, path in pages.items()}
    assert {name for name in after if after[name] != before[name]} == {"ch17.disagg_plan.md"}
    assert pages["ch17.disagg_plan.md"].read_text().startswith("# ch17.disagg_plan\n")


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
    rules = chapters.style(svg.style_sheet(within="figure.ladder")).splitlines()
    assert any(rule.startswith('body[data-theme="dark"] { --page: #14181d') for rule in rules)
    assert any(rule.startswith("@media (prefers-color-scheme: dark)") for rule in rules)
    alone = [rule for rule in rules if not rule.startswith(("<", "body", "@media", "figure.ladder "))]
    assert alone == []


def test_other_pages_stay_as_they_are(chapters):
    assert chapters.page("# Title\n\n## `gather`\n") == "# Title\n\n## `gather`\n"


def test_notes_on_no_target_are_an_error(chapters):
    with pytest.raises(ValueError, match=r"^the page has notes on 'gone', which is no target of the chapter$"):
        chapters.page("# Chapter 12\n\n<!-- generated: chapter ch12 -->\n\n## `gone`\n\nnote\n")
