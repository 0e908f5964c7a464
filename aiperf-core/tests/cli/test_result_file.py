"""Commands that show results write them to `--out FILE`, in each format, whole or not at all."""

import csv
import io
import json

import attrs
import pytest
import swept
from click.testing import CliRunner

from aiperf_core.cli import doctor
from aiperf_core.cli.main import Shell
from aiperf_core.errors import ExitCode
from aiperf_core.plugins import load_plugins
from aiperf_core.report import files
from aiperf_core.results import example
from aiperf_core.results.bundle import Bundle
from aiperf_core.stats import expectations
from aiperf_core.targets import InstalledTarget

HOSTILE = "=1+1\x1b[2J<b>|"
EXPECTED = ("--file", "EXPECTED", "--hardware", "nvidia-h200-x1")
COMMANDS = {
    "show": ("show", "BUNDLE", "--no-verify"),
    "results-show": ("results", "show", "BUNDLE", "--no-verify"),
    "results-list": ("results", "list", "--in", "FOLDER"),
    "compare": ("compare", "BUNDLE", "BUNDLE"),
    "sweep": ("sweep", "SWEPT"),
    "expectations-check": ("expectations", "check", "BUNDLE", *EXPECTED, "--no-verify"),
    "expectations-report": ("expectations", "report", "BUNDLE", *EXPECTED, "--no-verify"),
    "recheck": ("recheck", "BUNDLE"),
    "validity": ("validity",),
    "validity-issue": ("validity", "timing.not_audited"),
    "list": ("list",),
    "doctor": ("doctor",),
}
PICTURES = {"show", "results-show", "compare", "sweep"}
# The figures of the made-up bundle do not follow from its few samples.
CODES = {"recheck": ExitCode.INVALID}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a bundle in which a name of an implementation is hostile, and one with a sweep."""
    made = tmp_path_factory.mktemp("bundles")
    expectations.write(made / "expected.json", expectations.Page("nvidia-h200-x1"))
    swept.bundle(made / "swept", [swept.point(n=10), swept.point(1, n=100), swept.failed("ran out of memory", n=1000)])
    believed = [example.rows()[0], example.rows()[1], example.rows()[-1]]
    rows = [believed[0], attrs.evolve(believed[1], name=HOSTILE), believed[2]]
    bundle = Bundle.create_at(made / "run")
    bundle.write_target(attrs.evolve(example.result(), rows=rows))
    bundle.write_manifest(example.manifest())
    return made


def ask(folder, command, out):
    names = {"BUNDLE": "run", "FOLDER": "", "SWEPT": "swept", "EXPECTED": "expected.json"}
    words = [str(folder / names[part]) if part in names else part for part in COMMANDS[command]]
    plugins = attrs.evolve(load_plugins([]), targets=(InstalledTarget("acme.gather", "acme", HOSTILE),))
    return CliRunner().invoke(Shell(plugins), [*words, "--out", str(out)])


@pytest.fixture(autouse=True)
def torch(monkeypatch):
    """No other process is asked for torch."""
    monkeypatch.setattr(doctor, "_ask_torch", lambda: {"version": "2.13.0+cpu", "built_for": None, "sees": 0})


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("ending", files.TEXTS)
def test_every_command_writes_every_table_format(folder, tmp_path, command, ending):
    if ending == ".parquet":
        pytest.importorskip("pyarrow")
    out = tmp_path / f"result{ending}"
    result = ask(folder, command, out)
    assert result.exit_code == CODES.get(command, 0), result.stderr
    assert result.stdout
    data = out.read_bytes()
    assert ending == ".parquet" or b"\x1b" not in data
    if ending == ".json":
        assert json.loads(data)["tables"][0]["records"]
    elif ending == ".csv":
        cells = [cell for row in csv.reader(io.StringIO(data.decode())) for cell in row]
        assert not any(cell.startswith("=") for cell in cells)
    elif ending == ".html":
        assert b"<b>" not in data
    elif ending == ".md":
        assert b"| --- |" in data
        assert b" <b>" not in data
    else:
        import pyarrow.parquet

        names = pyarrow.parquet.read_table(out).column_names
        assert len(set(names)) == len(names)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_with_a_picture_writes_it(folder, tmp_path, command):
    out = tmp_path / "result.svg"
    result = ask(folder, command, out)
    if command in PICTURES:
        assert result.exit_code == 0, result.stderr
        assert out.read_text().startswith("<svg")
    else:
        assert result.exit_code == 1
        assert result.stdout == ""
        assert "made no picture here; choose .json, .csv or .html.\n" in result.stderr
        assert not out.exists()


def test_the_rows_have_every_metric_that_is_measured_with_its_interval(folder, tmp_path):
    assert ask(folder, "show", tmp_path / "rows.csv").exit_code == 0
    rows = list(csv.DictReader(io.StringIO((tmp_path / "rows.csv").read_text())))
    assert [row["row"] for row in rows] == ["strided", "'=1+1<b>|", "memcpy"]
    assert float(rows[1]["time_s_low"]) < float(rows[1]["time_s"]) < float(rows[1]["time_s_high"])
    assert rows[0]["speedup_reason"] == "a baseline has none"
    assert {"bytes_per_s", "speed_of_light_fraction", "peak_bytes"} <= rows[0].keys()


@pytest.mark.parametrize("command", COMMANDS)
def test_a_name_that_cannot_be_written_is_refused_first(folder, tmp_path, command):
    accepted = ".json, .csv, .html, .md, .parquet, .svg, .png, .pdf"
    result = ask(folder, command, tmp_path / "result.xyz")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.endswith(f"has no known ending; --out takes a name that ends in {accepted}.\n")
    result = ask(folder, command, tmp_path / "none" / "result.csv")
    message = f"aiperf: the folder '{tmp_path / 'none'}' does not exist. Make it, or choose another --out.\n"
    assert (result.exit_code, result.stdout, result.stderr) == (2, "", message)
    (tmp_path / "folder.csv").mkdir()
    result = ask(folder, command, tmp_path / "folder.csv")
    assert (result.exit_code, result.stdout) == (2, "")
    message = f"aiperf: Invalid value for '-o' / '--out': File '{tmp_path / 'folder.csv'}' is a directory. See: aiperf "
    assert result.stderr.startswith(message)


@pytest.mark.parametrize(
    ("command", "name"),
    [*((command, "rows.csv") for command in COMMANDS), *((command, "rows.svg") for command in sorted(PICTURES))],
)
def test_a_full_disk_leaves_nothing(folder, tmp_path, monkeypatch, command, name):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("aiperf_core.atomic.write", full)
    result = ask(folder, command, tmp_path / name)
    assert (result.exit_code, result.stdout) == (1, "")
    assert (
        f"aiperf: cannot write '{tmp_path / name}': No space left on device. Choose another --out.\n" in result.stderr
    )
    assert list(tmp_path.iterdir()) == []
