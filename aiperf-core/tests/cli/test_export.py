import csv
import io
import json
import re
import sys
from html.parser import HTMLParser

import attrs
import pytest
from click.testing import CliRunner

from aiperf_core.cli.export import FORMATS
from aiperf_core.cli.main import Shell
from aiperf_core.plugins import load_plugins
from aiperf_core.report.text import COLUMNS
from aiperf_core.results import example
from aiperf_core.results.bundle import Bundle

HOSTILE = "=cmd|' /C calc'!A0 <script>alert(1)</script> \x1b[2J \u202e | `x` \" onclick='y'\nnext"


@pytest.fixture
def hostile(tmp_path):
    made = Bundle.create_at(tmp_path / "hostile")
    row = attrs.evolve(example.rows()[1], name=HOSTILE, why=HOSTILE)
    made.write_target(attrs.evolve(example.result(), rows=[row], target=HOSTILE))
    made.write_manifest(attrs.evolve(example.manifest(), command=[HOSTILE], created=HOSTILE, git=HOSTILE))
    return made


def export(*arguments):
    return CliRunner().invoke(Shell(load_plugins([])), ["export", *map(str, arguments)])


def rows_of(text):
    return list(csv.DictReader(io.StringIO(text)))


def test_csv(bundle):
    found = export(bundle.path, "--format", "csv")
    assert (found.exit_code, found.stderr) == (0, "")
    rows = rows_of(found.stdout)
    assert len(rows) == 8
    assert tuple(rows[0]) == COLUMNS
    wide = rows[2]
    assert (wide["target"], wide["implementation"], wide["verdict"]) == ("ch07.memory_access", "wide", "FASTER")
    assert (float(wide["time_s"]), float(wide["speedup"]), int(wide["peak_bytes"])) == (0.6013e-3, 8.671, 1 << 30)
    assert json.loads(wide["sizes"]) == {"n": 268435456}
    assert (wide["input_bytes"], wide["output_bytes"]) == (str(1 << 30), str(1 << 30))
    manifest = bundle.manifest
    assert (wide["run"], wide["commit"], wide["machine"], wide["created"]) == (
        "run",
        manifest.git,
        "nvidia-h200-x1",
        manifest.created,
    )
    invalid = rows[4]
    assert (invalid["verdict"], invalid["time_s"], invalid["findings"]) == ("INVALID", "", "output.stale_cache")


@pytest.mark.parametrize(("name", "kind"), [("rows.csv", "csv"), ("rows.MD", "markdown"), ("rows.json", "json")])
def test_the_name_of_the_file_tells_the_format(bundle, tmp_path, name, kind):
    assert export(bundle.path, "--out", tmp_path / name).exit_code == 0
    assert (tmp_path / name).read_text() == export(bundle.path, "--format", kind).stdout
    assert export(bundle.path, "--format", "csv", "--out", tmp_path / "rows.json").exit_code == 0
    assert (tmp_path / "rows.json").read_text() == export(bundle.path, "--format", "csv").stdout


def test_what_is_not_believed_has_no_figures(bundle):
    untrusted = attrs.evolve(example.rows()[1], verdict="UNTRUSTED", reason="clocks", speedup=None)
    bundle.write_target(attrs.evolve(example.result(), rows=[untrusted]))
    (row,) = rows_of(export(bundle.path, "--format", "csv").stdout)
    assert [row[name] for name in ("time_s", "speedup", "bytes_per_s", "flop_per_s", "speed_of_light_fraction")] == [
        ""
    ] * 5


def test_a_part_of_a_bundle(bundle):
    (row,) = rows_of(export(f"{bundle.path}:ch07.memory_access:wide", "--format", "csv").stdout)
    assert row["implementation"] == "wide"


def test_json(bundle):
    found = json.loads(export(bundle.path, "--format", "json").stdout)
    assert (found["bundle"], found["run"]["GPU"]) == ("run", "NVIDIA H200, driver 570.86.15")
    assert found["run"]["seal"] == bundle.manifest.hashes["manifest.json"]
    assert tuple(found["rows"][0]) == COLUMNS
    assert found["rows"][1]["speedup_low"] == 7.992 * 0.997
    assert found["rows"][1]["sizes"] == {"n": 268435456}


def test_markdown(bundle):
    lines = export(bundle.path, "--format", "markdown").stdout.splitlines()
    assert lines[0] == "# run"
    table = [line for line in lines if line.startswith("|")]
    assert len(table) == 10
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in table} == {9}
    assert "n=268,435,456 \\(1 GiB in, 1 GiB out\\)" in table[4]
    assert "| 8.67x \\[8.64, 8.70\\] | FASTER |" in table[4]


class Page(HTMLParser):
    """Collects what a browser would make of a page."""

    def __init__(self):
        super().__init__()
        self.tags, self.attributes, self.text = set(), set(), []

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data):
        self.text.append(data)


def test_html(bundle):
    text = export(bundle.path, "--format", "html").stdout
    page = Page()
    page.feed(text)
    assert text.startswith("<!doctype html>\n")
    assert text.count("<tr>") == 10 + 8
    assert "default-src 'none'" in text
    assert not {"script", "link", "img", "iframe"} & page.tags
    assert "8.67x" in page.text


@pytest.mark.parametrize("kind", ["csv", "markdown", "html"])
def test_hostile_text_is_only_text(hostile, kind):
    text = export(hostile.path, "--format", kind).stdout
    assert "\x1b" not in text
    assert "\u202e" not in text
    if kind == "csv":
        (row,) = rows_of(text)
        assert row["implementation"].startswith("'=cmd")
        assert row["why"].startswith("'=cmd")
    if kind == "markdown":
        assert "<script" not in text.replace("\\<", "")
        assert len([line for line in text.splitlines() if line.startswith("|")]) == 3
    if kind == "html":
        page = Page()
        page.feed(text)
        assert "script" not in page.tags
        assert page.attributes <= {"class", "charset", "content", "http-equiv", "lang"}
        assert any("<script>alert(1)</script>" in one for one in page.text)


def test_a_file(bundle, tmp_path):
    file = tmp_path / "table.csv"
    found = export(bundle.path, "--format", "csv", "--out", file)
    assert (found.exit_code, found.stdout) == (0, "")
    assert file.read_text() == export(bundle.path, "--format", "csv").stdout
    wrong = export(bundle.path, "--format", "csv", "--out", tmp_path)
    assert (wrong.exit_code, wrong.stderr) == (2, f"aiperf: --out '{tmp_path}' is a folder; name a file.\n")
    missing = tmp_path / "no/table.csv"
    wrong = export(bundle.path, "--format", "csv", "--out", missing)
    assert (wrong.exit_code, wrong.stderr) == (1, f"aiperf: cannot write '{missing}': No such file or directory.\n")


def test_a_link_is_replaced_and_not_followed(bundle, tmp_path):
    (tmp_path / "kept").write_text("x")
    (tmp_path / "link").symlink_to(tmp_path / "kept")
    assert export(bundle.path, "--format", "json", "--out", tmp_path / "link").exit_code == 0
    assert (tmp_path / "kept").read_text() == "x"


def test_parquet_without_pyarrow(bundle, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    found = export(bundle.path, "--format", "parquet", "--out", tmp_path / "x.parquet")
    assert (found.exit_code, found.stderr) == (
        2,
        "aiperf: Arrow tables and --format parquet need PyArrow, which is not installed. "
        "Install it: pip install 'aiperf-core[arrow]'\n",
    )
    found = export(bundle.path, "--format", "parquet")
    assert (found.exit_code, found.stderr) == (
        2,
        "aiperf: --format parquet is binary and needs a file: --out FILE.\n",
    )


def test_parquet(bundle, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    assert export(bundle.path, "--format", "parquet", "--out", tmp_path / "x.parquet").exit_code == 0
    found = parquet.read_table(tmp_path / "x.parquet").to_pylist()
    assert [row["implementation"] for row in found][:2] == ["strided", "coalesced"]
    assert found[2]["speedup"] == 8.671


SAMPLES = dict.fromkeys(("target", "implementation", "verdict")) | attrs.asdict(example.rows()[0].samples)


def test_samples(bundle):
    found = export(bundle.path, "--format", "csv", "--samples")
    assert (found.exit_code, found.stderr) == (0, "")
    rows = rows_of(found.stdout)
    assert len(rows) == 6 * 3
    assert list(rows[0]) == list(SAMPLES)
    assert list(rows[5].values())[1:7] == ["coalesced", "FASTER", "0", "1", "2", ""]
    assert (rows[5]["wall_s"], rows[5]["hidden"], rows[5]["throttled"]) == ("0.0006563", "false", "true")
    (first, *_) = json.loads(export(f"{bundle.path}:ch07.memory_access:wide", "--format", "json", "--samples").stdout)[
        "rows"
    ]
    assert (first["implementation"], first["device_s"], first["wall_s"]) == ("wide", 0.6013e-3, None)


def test_samples_are_no_page(bundle):
    found = export(bundle.path, "--format", "html", "--samples")
    assert (found.exit_code, found.stdout, found.stderr) == (
        2,
        "",
        "aiperf: --samples takes --format csv, json, parquet; got html.\n",
    )


def test_samples_as_parquet(bundle, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    assert export(bundle.path, "--format", "parquet", "--samples", "--out", tmp_path / "x.parquet").exit_code == 0
    found = parquet.read_table(tmp_path / "x.parquet").to_pylist()
    assert (len(found), found[5]["device_s"], found[5]["step"], found[5]["throttled"]) == (18, None, 2, True)


def test_a_truncated_target_is_one_clear_error(bundle):
    file = bundle.path / "targets/ch07.memory_access.json"
    file.write_bytes(file.read_bytes()[:-100])
    found = export(bundle.path, "--format", "csv")
    assert (found.exit_code, found.stdout) == (3, "")
    assert found.stderr.count("\n") == 1
    assert found.stderr.startswith(f"aiperf: '{file}' is not a target file of format 5")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            (),
            "the format is missing; accepted: --format csv, markdown, html, json, parquet, or --out with a name that "
            "ends in .csv, .md, .html, .json, .parquet. See: aiperf export --help",
        ),
        (
            ("--format", "xlsx"),
            "Invalid value for '--format': 'xlsx' is not one of 'csv', 'markdown', 'html', 'json', 'parquet'. "
            "See: aiperf export --help",
        ),
    ],
)
def test_a_format_that_is_missing_or_unknown(bundle, arguments, message):
    found = export(bundle.path, *arguments)
    assert (found.exit_code, found.stdout, found.stderr) == (2, "", f"aiperf: {message}\n")


def test_the_help_says_what_each_format_is_for():
    text = " ".join(CliRunner().invoke(Shell(load_plugins([])), ["export", "--help"]).stdout.split())
    for name, use in FORMATS.items():
        assert f"{name}: {use}" in text
