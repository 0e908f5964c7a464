import re
import shutil
import sys
from html.parser import HTMLParser

import attrs
import pytest
from click.testing import CliRunner

from aiperf_core.cli.main import Shell
from aiperf_core.measurements import Energy, Estimate, Samples, Spread
from aiperf_core.plugins import load_plugins
from aiperf_core.results import example, listing, seal_check
from aiperf_core.results.bundle import Bundle
from aiperf_core.results.models import (
    BundleRef,
    Conditions,
    Confined,
    Finding,
    Quality,
    SkippedTarget,
    SpeedOfLight,
    Stretch,
    Verdict,
)

HOSTILE = (
    "<script>alert(1)</script> \x1b[2J \u202e | `x` \" onclick='y' ]] https://evil.example/a {{ 7*7 }} <!-- \nnext"
)
VOID = {"meta", "circle", "line", "path", "br"}
TAGS = (
    "html head title style body header main section h1 h2 h3 p a b code pre ul li dl dt dd div span table caption thead "
    "tbody tr th td figure figcaption svg g text desc details summary"
)
ATTRIBUTES = (
    "aria-label aria-labelledby charset class content cx cy d data-label height href http-equiv id lang name r role scope tabindex "
    "text-anchor transform viewbox width x x1 x2 xmlns y y1 y2"
)


def many_samples(time_s, blocks=30):
    count = 4 * blocks
    return Samples(
        round=[2 * index // count for index in range(count)],
        block=[7 * (index // 4) for index in range(count)],
        step=list(range(count)),
        device_s=[time_s * (1 + 0.001 * (index * 7 % 11)) for index in range(count)],
        wall_s=[None] * count,
        cpu_s=[None] * count,
        bracket_s=[time_s + 3e-5] * count,
        hidden=[True] * count,
        judged=[False] * count,
        calls=[1] * count,
        voluntary_switches=[0] * count,
        involuntary_switches=[0] * count,
        throttled=[index // 4 == 3 for index in range(count)],
        answered_s=[None] * count,
        **example.of_trusted_code(count),
    )


def sampled(result):
    rows = [attrs.evolve(row, samples=many_samples(row.time_s.value)) if row.time_s else row for row in result.rows]
    conditions = Conditions(
        readings=30,
        sm_clock_hz=Spread(1.2e9, 1.9e9, 1.98e9),
        temperature_max_c=61.0,
        power_median_w=412.0,
        throttled={"sw_power_cap": 0.1},
        throttled_share=0.1,
    )
    energy = Energy(1.25, 1.0, 80.0, 0.01, 0.01, 100, 1.0, 20, 0.05, "energy counter")
    rows[1] = attrs.evolve(rows[1], conditions=conditions, energy=energy)
    return attrs.evolve(result, rows=rows)


@pytest.fixture
def bundle(tmp_path):
    made = Bundle.create_at(tmp_path / "run")
    made.write_target(sampled(example.result()))
    made.write_target(attrs.evolve(sampled(example.result()), target="ch07.again"))
    made.write_manifest(example.manifest())
    return made


@pytest.fixture
def hostile(tmp_path):
    """A bundle with markup in every field that is text."""
    made = Bundle.create_at(tmp_path / "hostile")
    seen = [Finding("no.such_issue", "warning", HOSTILE), Finding("output.stale_cache", "invalid", HOSTILE)]
    rows = [
        attrs.evolve(row, name=f"{HOSTILE} {index}", why=HOSTILE, findings=seen, reason=HOSTILE, log=[HOSTILE])
        for index, row in enumerate(sampled(example.result()).rows)
    ]
    rows[1] = attrs.evolve(
        rows[1],
        builds_on=HOSTILE,
        step_speedup=example.estimate(1.1),
        no_energy=HOSTILE,
        quality=Quality(HOSTILE, 0.5, 1.0),
        confined=Confined([HOSTILE], {HOSTILE: HOSTILE}),
        conditions=attrs.evolve(rows[1].conditions, throttled={HOSTILE: 0.5}),
    )
    made.write_target(
        attrs.evolve(
            example.result(),
            target=HOSTILE,
            summary=HOSTILE,
            stopped=HOSTILE,
            order=[HOSTILE],
            problem=attrs.evolve(example.result().problem, params={HOSTILE: 1.0}, tolerance=HOSTILE, precision=HOSTILE),
            rows=rows,
        )
    )
    manifest = example.manifest()
    ceilings = attrs.evolve(manifest.ceilings["cuda"], device=HOSTILE, measured=HOSTILE, flop_per_s={HOSTILE: 5e13})
    machine = attrs.evolve(
        manifest.machine,
        hostname=HOSTILE,
        system=HOSTILE,
        cpu=HOSTILE,
        python=HOSTILE,
        hypervisor=HOSTILE,
        driver=HOSTILE,
        gpus=[{"name": HOSTILE, "memory_bytes": HOSTILE, "capability": HOSTILE}],
    )
    made.write_manifest(
        attrs.evolve(
            manifest,
            aiperf=HOSTILE,
            command=[HOSTILE],
            created=HOSTILE,
            machine=machine,
            packages={HOSTILE: HOSTILE},
            plugins=[{"distribution": HOSTILE, "version": HOSTILE, "set_aside": HOSTILE}],
            ceilings={"cuda": ceilings},
            files={HOSTILE: HOSTILE},
            skipped=[SkippedTarget(HOSTILE, Verdict.SKIPPED, HOSTILE)],
            git=HOSTILE,
            sources={HOSTILE: "0" * 64},
            reproduces=BundleRef(HOSTILE, None),
            stretches=[Stretch(HOSTILE, HOSTILE, None, [HOSTILE], {})] * 2,
            complete=False,
        )
    )
    return made


def report(*arguments):
    """Print a page, or write it where the arguments say so."""
    given = [*map(str, arguments)]
    return CliRunner().invoke(
        Shell(load_plugins([])), ["report", *given, *([] if "--out" in given else ["--out", "-"])]
    )


class Page(HTMLParser):
    """Collects what a browser would make of a page, and what is not closed."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.links, self.ids, self.images = set(), set(), set(), [], []
        self.open, self.text, self.style, self.policy = [], [], "", ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.tags.add(tag)
        self.attributes |= found.keys()
        self.ids += [found["id"]] if "id" in found else []
        self.links |= {found["href"]} if "href" in found else set()
        self.images += [["", ""]] if tag == "svg" and found.get("role") == "img" else []
        assert tag != "svg" or found.get("role") == "img"
        self.policy = found["content"] if "http-equiv" in found else self.policy
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, f"{tag} ends in {self.open}"

    def handle_data(self, data):
        if self.open and self.open[-1] == "style":
            self.style += data
        elif self.open[-2:] in (["svg", "title"], ["svg", "desc"]):
            self.images[-1][self.open[-1] == "desc"] += data
        else:
            self.text.append(" ".join(data.split()))


def checked(text):
    """The page, after what holds for every one of them."""
    page = Page(text)
    assert text.startswith("<!doctype html>\n")
    assert page.tags <= VOID | {*TAGS.split()}
    assert page.attributes <= {*ATTRIBUTES.split()}
    assert page.links == {link for link in page.links if link.startswith("#")}
    assert {link[1:] for link in page.links} <= set(page.ids)
    assert len(page.ids) == len(set(page.ids))
    assert all(title and message for title, message in page.images)
    assert not re.search(r"url\(|@import|expression", page.style)
    assert "\x1b" not in text
    assert "\u202e" not in text
    return page


def test_html(bundle):
    found = report(bundle.path)
    assert (found.exit_code, found.stderr) == (0, "")
    page = checked(found.stdout)
    for row in example.rows():
        assert page.text.count(row.name) >= 2  # in the table of either target
    for text in ("Problems", "8.67x", "[8.64, 8.70]", "82 %", "1 GiB", "1.25 J", "The output of earlier inputs"):
        assert text in page.text
    assert any(text.startswith("a result computed once is kept") for text in map(str.lower, page.text))
    assert "strided takes 5.213 ms, wide 601.3 µs: 8.67x [8.64, 8.70]." in page.text
    assert "1,900 MHz (1,200 to 1,980)" in page.text
    assert bundle.manifest.hashes["manifest.json"] in page.text
    # All speedups and a roofline, each in two widths, and four pictures a target.
    assert len(page.images) == 2 + 2 + 2 * 4
    assert page.images[0][1] == "2 FASTER; farthest from 1x: ch07.again, 8.67x [8.64, 8.70]"
    assert any("throttled in" in message for _, message in page.images)


def test_the_picture_at_a_glance_is_grouped_by_chapter(bundle):
    assert ">ch07</text>" not in report(bundle.path).stdout
    bundle.write_target(attrs.evolve(example.result(), target="labs.ladder"))
    text = report(bundle.path, "--plots", "0").stdout
    picture = text[text.index("At a glance") :]
    groups = (">ch07</text>", ">again</text>", ">labs</text>", ">ladder</text>")
    places = [picture.index(one) for one in groups]
    assert places == sorted(places)


def test_a_browser_is_told_to_load_and_run_nothing(bundle):
    import base64
    import hashlib

    page = checked(report(bundle.path).stdout)
    digest = base64.b64encode(hashlib.sha256(page.style.encode()).digest()).decode()
    assert page.policy == f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"


def rules(style, media):
    """The rules of a style sheet within a media query, by selector."""
    found = "".join(style.split(f"@media {media} {{")[1:])
    depth, end = 1, 0
    while depth:
        depth += {"{": 1, "}": -1}.get(found[end], 0)
        end += 1
    body = re.sub(r"/\*.*?\*/", "", found[: end - 1])
    made = {}
    for selectors, properties in re.findall(r"([^{}]+){([^{}]*)}", body):
        for selector in selectors.split(","):
            made[selector.strip()] = made.get(selector.strip(), "") + properties
    return made


def test_a_telephone_keeps_speedup_and_verdict_in_view(bundle):
    """At 400 pixels each row of results is a block, whose first line ends with the speedup and the verdict."""
    text = report(bundle.path).stdout
    narrow = rules(checked(text).style, "(max-width: 34rem)")
    assert "display: flex" in narrow["table.stack tr"]
    orders = [re.search(r"order: (\d)", narrow[f"table.stack td.{name}"])[1] for name in ("speedup", "judged")]
    assert orders == ["1", "2"]
    assert "flex: 1 1 0" in narrow["table.stack tbody th"], "a long name breaks, and pushes nothing into the next line"
    assert "attr(data-label)" in narrow["table.stack td[data-label]::before"]
    assert "position: sticky" in narrow[".wide tbody th"]
    for table in re.findall(r"<table.*?</table>", text, re.DOTALL):
        if "verdict</th>" in table:
            assert table.startswith('<table class="stack')
            for row in re.findall(r"<tr.*?</tr>", table.partition("<tbody")[2], re.DOTALL):
                assert re.search(r'<td class="n speedup">.*<td class="judged">', row, re.DOTALL)


def test_a_dark_page_has_dark_pictures(bundle):
    style = checked(report(bundle.path).stdout).style
    dark = rules(style, "screen and (prefers-color-scheme: dark)")[":root"]
    for name in ("page", "ink", "good", "s0"):
        assert re.search(rf"--{name}: #\w+", dark)
        assert f"var(--{name}" in style


def test_hostile_text_is_only_text_in_html(hostile):
    found = report(hostile.path)
    assert (found.exit_code, found.stderr) == (0, "")
    page = checked(found.stdout)
    assert "49" not in page.text
    # Every field reached the page.
    told = sum(text.count("<script>alert(1)</script>") for text in page.text)
    assert told > 60
    assert all("<script" not in one or "alert(1)" in one for image in page.images for one in image)


def test_hostile_text_is_only_text_in_markdown(hostile):
    text = report(hostile.path, "--format", "markdown").stdout
    assert "\x1b" not in text
    assert "\u202e" not in text
    outside = re.sub(r"(?<!`)(`+)(?!`).*?(?<!`)\1(?!`)", "", text)
    assert "script" in outside
    for raw in (r"(?<!\\)<", r"(?<!\\)`", r"(?<!\\):(?=//)", r"\[\w+\]\(", r"(?<!\\)@"):
        assert not re.search(raw, outside), raw
    for line in tables(text):
        assert all(len(cells) == len(line[0]) for cells in line)


def tables(text):
    """The tables of a page, as rows of cells: a pipe that is not escaped ends a cell, within code too."""
    for block in re.findall(r"(?:^\|.*\n?)+", text, re.MULTILINE):
        yield [re.split(r"(?<!\\)\|", line)[1:-1] for line in block.splitlines()]


def test_markdown(bundle):
    found = report(bundle.path, "--format", "markdown")
    assert (found.exit_code, found.stderr) == (0, "")
    glance, first, _, second, _ = tables(found.stdout)
    assert [cell.strip() for cell in glance[2]] == [
        "`ch07.again`",
        "`wide`",
        r"8.67x \[8.64, 8.70\]",
        "FASTER, also 1 INVALID, 1 FAILED",
    ]
    for table in (first, second):
        assert len(table) == 2 + len(example.rows())
        assert {len(cells) for cells in table} == {9}
    assert [cell.strip() for cell in first[4]][:5] == [
        "**`wide`**",
        "",
        r"601.3 µs \[599.5, 603.1\]",
        r"8.67x \[8.64, 8.70\]",
        "FASTER",
    ]
    assert "<" not in found.stdout


def test_what_is_not_believed_has_no_figures(bundle):
    rows = [
        example.rows()[0],
        attrs.evolve(example.rows()[1], verdict=Verdict.UNTRUSTED, reason="clocks", speedup=None),
    ]
    bundle.write_target(attrs.evolve(example.result(), rows=rows))
    text = report(f"{bundle.path}:ch07.memory_access", "--format", "markdown").stdout
    (_, _, _, row) = next(tables(text))
    assert [cell.strip() for cell in row] == [
        "`coalesced`",
        "",
        r"652.3 µs \[650.3, 654.3\]",
        "",
        "UNTRUSTED",
        "",
        "",
        "1 GiB",
    ]
    assert "7.99x" not in text


@pytest.mark.parametrize("kind", ["html", "markdown"])
def test_the_same_bundle_makes_the_same_bytes(bundle, kind):
    assert report(bundle.path, "--format", kind).stdout == report(bundle.path, "--format", kind).stdout


@pytest.mark.parametrize(("plots", "pictures"), [("none", 2), ("0", 2), ("1", 8), ("all", 12)])
def test_how_many_targets_have_pictures(bundle, plots, pictures):
    assert len(checked(report(bundle.path, "--plots", plots).stdout).images) == pictures


def test_a_target_of_a_bundle(bundle):
    page = checked(report(f"{bundle.path}:ch07.again").stdout)
    assert "ch07.again" in page.text
    assert not any(
        "ch07.memory_access" in text for text in page.text if "targets/" not in text and "aiperf" not in text
    )
    assert "At a glance" not in page.text


def test_three_samples_make_pictures_and_none_make_none(tmp_path):
    made = Bundle.create_at(tmp_path / "few")
    made.write_target(example.result())
    made.write_manifest(attrs.evolve(example.manifest(), ceilings={}))
    assert len(checked(report(made.path).stdout).images) == 4
    rows = [attrs.evolve(row, samples=Samples()) for row in example.rows()]
    made.write_target(attrs.evolve(example.result(), rows=rows))
    made.write_manifest(attrs.evolve(example.manifest(), ceilings={}))
    assert checked(report(made.path).stdout).images == []


def test_no_baseline_and_no_rows(tmp_path):
    made = Bundle.create_at(tmp_path / "none")
    made.write_target(attrs.evolve(example.result(), rows=[]))
    made.write_manifest(attrs.evolve(example.manifest(), complete=False, exit_code=None))
    page = checked(report(made.path).stdout)
    assert "There is no baseline to compare with." in page.text
    assert "None: the run has not ended." in page.text
    assert any(text.startswith("This run was interrupted") for text in page.text)


def test_a_target_that_cannot_be_read(bundle):
    (bundle.path / "targets/ch07.again.json").write_text("{")
    found = report(bundle.path)
    assert found.exit_code == 3
    assert found.stderr.startswith(f"aiperf: '{bundle.path}/targets/ch07.again.json' is not a target file of format")
    page = checked(found.stdout)
    assert "Could not be read" in page.text
    assert "8.67x" in " ".join(page.text)


def test_a_file(bundle, tmp_path):
    file = tmp_path / "page.html"
    short = bundle.path, "--plots", "none"
    for _ in range(2):  # the second replaces the first
        found = report(*short, "--out", file)
        assert found.exit_code == 0
        assert re.fullmatch(rf"{file}: 2 targets, [\d.]+ KiB\n", found.stdout)
    assert file.read_text() == report(*short).stdout == report(*short, "--out", "-").stdout
    wrong = report(bundle.path, "--out", tmp_path)
    assert (wrong.exit_code, wrong.stderr) == (2, f"aiperf: --out '{tmp_path}' is a folder; name a file.\n")
    wrong = report(bundle.path, "--out", tmp_path / "no/page.html")
    assert (wrong.exit_code, wrong.stderr) == (
        1,
        f"aiperf: cannot write '{tmp_path}/no/page.html': No such file or directory.\n",
    )


@pytest.mark.parametrize(("kind", "ending"), [("html", "html"), ("markdown", "md")])
def test_without_a_file_the_page_lies_in_the_bundle(bundle, kind, ending):
    for what, name in ((bundle.path, "run"), (f"{bundle.path}:ch07.again", "ch07.again")):
        arguments = ["report", str(what), "--format", kind, "--plots", "none"]
        found = CliRunner().invoke(Shell(load_plugins([])), arguments)
        file = bundle.path / "reports" / f"{name}.{ending}"
        assert (found.exit_code, found.stderr) == (0, "")
        assert re.fullmatch(rf"{file}: [12] targets?, [\d.]+ KiB\n", found.stdout)
        assert file.read_text() == report(what, "--format", kind, "--plots", "none").stdout
    assert seal_check.check(bundle).holds
    shutil.rmtree(bundle.path / "reports")
    (bundle.path / "reports").write_text("a file")
    wrong = CliRunner().invoke(Shell(load_plugins([])), ["report", str(bundle.path), "--plots", "none"])
    assert (wrong.exit_code, wrong.stderr) == (
        1,
        f"aiperf: cannot write '{bundle.path}/reports/run.html': File exists. Name another file: --out FILE\n",
    )
    assert listing.removable(bundle.path) == bundle.path


def test_wrong_use(bundle):
    wrong = report(bundle.path, "--plots", "-1")
    assert (wrong.exit_code, wrong.stderr) == (
        2,
        "aiperf: --plots '-1' is not a number of targets; accepted: all, none, or a number.\n",
    )
    wrong = report(f"{bundle.path}:ch07.agian")
    assert wrong.exit_code == 2
    assert wrong.stderr.startswith(f"aiperf: '{bundle.path}' has no result of 'ch07.agian'. Did you mean 'ch07.again'")


@pytest.mark.usefixtures("weasyprint")
def test_pdf(bundle, tmp_path):
    file = tmp_path / "page.pdf"
    found = report(f"{bundle.path}:ch07.again", "--format", "pdf", "--plots", "none", "--out", file)
    assert (found.exit_code, found.stderr) == (0, "")
    assert file.read_bytes().startswith(b"%PDF-")
    wrong = report(bundle.path, "--format", "pdf")
    assert (wrong.exit_code, wrong.stderr) == (2, "aiperf: --format pdf is not text; give it a file with --out FILE.\n")


def test_pdf_without_weasyprint(bundle, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "weasyprint", None)
    wrong = report(bundle.path, "--format", "pdf", "--out", tmp_path / "page.pdf")
    assert (wrong.exit_code, wrong.stderr) == (
        1,
        "aiperf: --format pdf needs the package 'weasyprint': pip install 'aiperf-core[report]'. "
        "Without it, print the page of --format html from a browser.\n",
    )
    assert not (tmp_path / "page.pdf").exists()


@pytest.mark.parametrize("size", [1e-30, 1e-12, 1e12, 1e30])
def test_figures_of_any_size(tmp_path, size):
    """A bundle may come from anybody, and its figures be absurd; a page is made of all that a bundle may hold."""
    made = Bundle.create_at(tmp_path / "absurd")
    wide = Estimate(size, size, size)
    rows = [
        attrs.evolve(
            row,
            time_s=wide,
            speedup=row.speedup and wide,
            samples=many_samples(size),
            bytes_per_s=size,
            flop_per_s=size,
            speed_of_light=SpeedOfLight("memory", size, size),
        )
        for row in sampled(example.result()).rows
        if row.time_s
    ]
    problem = attrs.evolve(example.result().problem, bytes_read=size, bytes_written=size, flops=size)
    made.write_target(attrs.evolve(example.result(), rows=rows, problem=problem))
    made.write_target(attrs.evolve(sampled(example.result()), target="usual"))
    ceilings = attrs.evolve(
        example.manifest().ceilings["cuda"], copy_bytes_per_s=size, cache_bytes_per_s=size, flop_per_s={"fp32": size}
    )
    made.write_manifest(attrs.evolve(example.manifest(), ceilings={"cuda": ceilings}))
    for kind in ("html", "markdown"):
        found = report(made.path, "--format", kind)
        assert (found.exit_code, found.stderr) == (0, "")
        assert not re.search(r'"(nan|-?inf)"', found.stdout)
