"""Pages of lessons: their parts, the differences between steps, and packages of strangers."""

import re
from html.parser import HTMLParser

import pytest
from acme_package import COPY, PLUGIN, measured, store

from aiperf_core.loading import load_benchmark
from aiperf_core.plugins import load_plugins
from aiperf_core.results.bundle import Bundle
from aiperf_core.results.models import Verdict
from aiperf_learn.pages.code import Line, StepCode
from aiperf_learn.pages.html import LONG, document, html_fragment, inline
from aiperf_learn.pages.markdown import lesson
from aiperf_learn.pages.model import lesson_page

VOID = {"meta", "link", "br", "circle", "path"}


class Checked(HTMLParser):
    """A page whose elements are closed in order."""

    def __init__(self):
        super().__init__()
        self.open, self.texts = [], []

    def handle_starttag(self, tag, attrs):
        for name, value in attrs:
            assert not (name in ("src", "href") and not value.startswith("#")), (
                f"<{tag} {name}={value}> leads elsewhere"
            )
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in VOID and tag != "html":
            assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


def checked(page):
    """The text of a page's HTML."""
    parser = Checked()
    parser.feed(html_fragment(page))
    parser.close()
    assert parser.open == []
    return " ".join("".join(parser.texts).split())


def page_of(name, **more):
    target = next(target for target in load_plugins().targets if target.name == name)
    return lesson_page(target, load_benchmark(target), **more)


def step_of(page, name, device="cuda"):
    return next(step for step in page.steps if (step.name, step.device) == (name, device))


def changed(step, file):
    """The lines of a difference with their signs."""
    return [f"{line.sign}{line.text.strip()}" for line in step.changes[file] if line.sign in "+-="]


@pytest.fixture(scope="module")
def bank_conflicts():
    return page_of("ch06.bank_conflicts")


def test_a_lesson_has_its_parts_in_order(bank_conflicts):
    text = checked(bank_conflicts)
    parts = ["What does it cost when", "Numbers", "What do you expect of each step?", "naive baseline", " Results "]
    parts += [
        "step verdict",
        "Measured on nvidia-h200-x1",
        " Code ",
        "on cuda, over one_bank",
        "The whole file bank_conflicts.cu",
    ]
    parts += ["Evidence", "Goal on cuda", "one_bank32 has LDS.32, STS.32, lacks LDS.64, LDS.128", "When it turns round"]
    parts += ["Exercise", "To check it: aiperf watch ch06.bank_conflicts:padded"]
    places = [text.find(part) for part in parts]
    assert -1 not in places
    assert places == sorted(places)


def test_the_prediction_is_folded_and_the_limits_stand_alone(bank_conflicts):
    fragment = html_fragment(bank_conflicts)
    folded = re.search(r"<details><summary>What do you expect.*?</details>", fragment, re.DOTALL)[0]
    assert "reads a column in 32 wavefronts" in folded
    assert "<code>padded</code> over <code>one_bank</code>: 14 to 16.5x" in folded
    assert "reads a column in 32 wavefronts" not in fragment.replace(folded, "")[: fragment.find("<pre")]
    markdown = "\n\n".join(lesson(bank_conflicts, lambda name, drawing: name))
    assert "\n\n<details><summary>What do you expect of each step?" in markdown
    assert markdown.count("<details>") == markdown.count("</details>")


def test_a_kernel_in_a_template_shows_what_its_arguments_decide(bank_conflicts):
    padded = changed(step_of(bank_conflicts, "padded"), "bank_conflicts.cu")
    assert "-turned<PLAIN>(a, out, tiles, passes);" in padded
    assert "+turned<PADDED>(a, out, tiles, passes);" in padded
    assert "=if (LAYOUT == PADDED) return r * (SIDE + 1) + c;" in padded
    assert "=if (LAYOUT == SWIZZLED) return r * SIDE + (r ^ c);" not in padded
    merged = changed(step_of(bank_conflicts, "merged"), "bank_conflicts.cu")
    assert "=if (MERGED) {" in merged
    assert "=template <Layout LAYOUT, bool MERGED = false>" in merged


def test_flags_show_the_lines_that_read_them_and_the_arguments_that_they_decide():
    page = page_of("ch18.flash_decode")
    step = step_of(page, "tensor_cores")
    lines = changed(step, "flash_decode.py")
    assert lines[:2] == ["-# Switched on: split", "+# Switched on: split, dot"]
    assert "=block = MANY if self.flags.dot else FEW" in lines
    assert any(line.startswith("=if DOT") for line in changed(step, "flash_decode_triton.py"))
    assert not any("STAGES" in line and "DOT" not in line for line in lines)


def test_an_instance_of_a_template_is_named_with_its_arguments():
    page = page_of("ch07.lowbit_gemv")
    step = step_of(page, "staged")
    assert step.instance == "wide<2, 4, true>"
    assert "Kernel: wide<2, 4, true>" in checked(page)
    assert any(line.startswith("=") for line in changed(step, "lowbit_gemv.cu"))


def code(before, after, name="a.py"):
    parts = {"device": "cpu", "role": "variant", "why": "", "teaches": "", "predict": "", "kind": "", "parent": "one"}
    return StepCode(name="two", files=after, before=before, **parts)


def test_a_difference_has_its_surroundings_and_gaps():
    text = [f"line {number}" for number in range(20)]
    other = [*text[:10], "new", *text[11:]]
    lines = code({"a.py": "\n".join(text)}, {"a.py": "\n".join(other)}).changes["a.py"]
    assert lines[0] == Line("@", "", 7)
    assert [line.text for line in lines[1:4]] == text[7:10]
    assert lines[4:6] == [Line("-", "line 10", 10), Line("+", "new", 10)]
    assert [line.text for line in lines[6:9]] == text[11:14]
    assert [line.sign for line in lines[9:]] == ["@"]


def test_a_file_that_stays_as_it_is_has_no_difference():
    step = code({"a.py": "a", "b.c": "int b;"}, {"a.py": "a", "b.c": "int c;"})
    assert [*step.changes] == ["b.c"]
    assert step.same == ["a.py"]


@pytest.mark.parametrize("text", ["<script>", "a `b < c` d & e", "`", "```", "`a`b`"])
def test_texts_are_escaped(text):
    shown = str(inline(text))
    assert "<script" not in shown
    assert re.sub(r"</?code>", "", shown).count("<") == 0


# --- packages of strangers


@pytest.fixture
def read(site):
    """The page of a target of the package acme."""

    def read(name="gather", **more):
        target = next(target for target in site.load().targets if target.name == f"acme.{name}")
        return lesson_page(target, load_benchmark(target), **more)

    return read


def test_a_target_without_figures_says_so(package, read):
    text = checked(read())
    assert "Not measured on a GPU yet." in text
    assert "+def ordered(a): ..." in text
    store(package, "xeon-x16", {"ordered": (4.0, 3.9, 4.1)})
    text = checked(read())
    assert "Measured on xeon-x16" in text
    assert "Not measured on a GPU yet." in text
    assert "No stored measurement." in checked(read("copy"))


def test_a_step_without_a_stored_time_has_the_reason(package, read):
    store(package, "nvidia-h200-x1", {"ordered": (4.0, 3.9, 4.1), "halved": (8.0, 7.9, 8.1)})
    (ladder,) = read().ladders
    cells = {record.cells["implementation"]: record.cells for record in ladder.table.records}
    assert (cells["ordered"]["over"], cells["ordered"]["step"].value) == ("shuffled", 4.0)
    assert cells["ordered"]["verdict"] == cells["ordered"]["step_verdict"] == "FASTER"
    assert cells["ordered"]["bound"] == "memory"
    assert (cells["halved"]["over"], cells["halved"]["step"].reason) == ("ordered", "no ratio to ordered is stored")
    assert cells["halved"]["step_verdict"] == ""
    assert "- (no ratio to ordered is stored)" in checked(read())


def test_a_goal_at_other_sizes_has_not_the_figure_of_these(package, read):
    gather = package / "gather.py"
    goal = 'bench.reach(of="speedup", at_least=2, device="cuda"'
    gather.write_text(gather.read_text().replace(goal, f'{goal}, params={{"n": 7}}'))
    reached = {"halved": [{"of": "speedup", "value": 2.5, "low": 2.4, "high": 2.6}]}
    store(package, "nvidia-h200-x1", {"halved": (8.0, 7.9, 8.1)}, goals=reached)
    (line,) = read().goals
    assert (line.reached, line.outcome) == ("", "")
    assert "Not measured." in checked(read())


@pytest.mark.usefixtures("made_up_figures")
def test_the_readers_own_run_stands_before_stored_figures(package, read, tmp_path):
    store(package, "nvidia-h200-x1", {"ordered": (4.0, 3.9, 4.1)})
    made = Bundle(measured(tmp_path / "run5", "acme.gather"))
    page = read(runs=[(made, made.outline("acme.gather"))])
    assert [ladder.drawing.title.endswith(", run run5") for ladder in page.ladders] == [True, False]
    assert "Not in the bundle." in checked(read("copy", runs=[(made, None)]))


@pytest.mark.usefixtures("made_up_figures", "package")
def test_the_readers_own_sweep_is_drawn(read, tmp_path):
    points = [f"acme.gather@n={n}" for n in (4, 8, 16)]
    made = Bundle(measured(tmp_path / "run6", *points))
    page = read(runs=[(made, made.outline(points[0]))])
    assert page.sweeps[0].title.startswith("acme.gather: time of a call against n")
    assert len(page.sweeps[0].series[0].points) == 3
    assert "sweep of acme.gather over n" in checked(page)
    figures = []
    list(lesson(page, lambda name, drawing: figures.append(name) or name))
    assert figures[-1] == f"acme.gather-sweep-{len(page.sweeps) - 1}"
    distrusted = {"verdict": Verdict.INVALID, "speedup": None, "step_speedup": None, "reason": "wrong"}
    invalid = dict.fromkeys(("shuffled", "ordered", "halved"), distrusted)
    made = Bundle(measured(tmp_path / "run7", *points, verdicts=invalid))
    assert read(runs=[(made, made.outline(points[0]))]).sweeps == []


LONG_VARIANT = """
@bench.variant(device="cpu", why="step {number} <b>")
def step_{number}(a):
{body}
"""


def test_six_long_variants_fold_and_the_page_stays_small(site, read):
    site.declare("aiperf-learn", "0.1", "learn = aiperf_learn.plugin")
    site.install("aiperf-acme", PLUGIN)
    variants = [
        LONG_VARIANT.format(
            number=number, body="\n".join(f"    a = a * {line} + {number}  # comment" for line in range(300))
        )
        for number in range(6)
    ]
    site.write("aiperf_acme/copy.py", COPY + "".join(variants))
    page = read("copy")
    text = document("copy", [page])
    assert len(text.encode()) < 300_000
    assert "step 3 &lt;b&gt;" in text
    assert "<b>" not in text
    steps = re.findall(r'<details class="step"( open)?>\n<summary><code>(\w+)</code>', text)
    assert [name for is_open, name in steps if is_open] == ["shuffled", "ordered"]
    assert all(sum(map(len, step.changes.values())) > LONG for step in page.steps[2:])


def test_a_package_without_docstring_and_kernels_in_a_folder_of_its_own(site, read):
    site.declare("aiperf-learn", "0.1", "learn = aiperf_learn.plugin")
    site.install("aiperf-acme", PLUGIN)
    site.write("aiperf_acme/copy.py", COPY.partition('"""\n')[2].replace("`", "") or COPY)
    (site.folder / "aiperf_acme/notes.py").write_bytes(b"\xff\xfe")
    page = read("copy")
    text = checked(page)
    assert page.paragraphs == []
    assert "A copy" in text
    assert "def shuffled(a): ..." in text
    assert "Write a version that beats ordered" in text
    assert "When it turns round" not in text


def test_a_page_of_several_targets_links_to_each(read, package):
    text = document("acme", [read(), read("copy")], ["quick run, not for citation: run5"])
    Checked().feed(text)
    for name in ("acmegather", "acmecopy"):
        assert f'<a href="#{name}">' in text
        assert f'<section id="{name}">' in text
    assert "<p><strong>quick run, not for citation: run5</strong></p>" in text
    assert not re.search(r"https?:(?!//www\.w3\.org/2000/svg)", text)


@pytest.mark.parametrize("name", ["ch07.transpose", "ch09.tensor_core_gemm", "ch19.dynamic_precision_decode"])
def test_the_page_of_a_lesson_is_small(name):
    page = page_of(name)
    text = document(name, [page])
    Checked().feed(text)
    assert len(text.encode()) < 300_000
    assert all(step.files for step in page.steps)
