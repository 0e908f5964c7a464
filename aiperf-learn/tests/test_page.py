import re

import pytest
from acme_package import measured, store
from click.testing import CliRunner

from aiperf_core.cli.main import Shell
from aiperf_core.plugins import load_plugins
from aiperf_core.results.models import Verdict


@pytest.fixture
def written(site, package, tmp_path):
    def write(*arguments, name="page.md"):
        out = tmp_path / name
        found = CliRunner().invoke(Shell(site.load()), ["page", *(arguments or ("acme",)), "--out", str(out)])
        return found, out

    return write


def section(text, name):
    return next(part for part in text.split("\n## ") if part.startswith(f"`{name}`"))


def test_a_page(written, package):
    store(package, "nvidia-h200-x1", {"ordered": (4.0, 3.9, 4.1), "halved": (8.0, 7.9, 8.1)})
    found, out = written()
    assert (found.exit_code, found.output) == (0, f"{out}: 2 targets, 1 figure\n")
    text = out.read_text()
    assert text.startswith("# aiperf-acme\n\n| target | devices | goal | lesson |\n")
    assert "| [`acme.gather`](#acmegather) | cpu, cuda | speed | Sorted \\| indices |" in text
    gather = section(text, "acme.gather")
    assert "Sorted gather: neighbours in \\*memory\\*." in gather
    assert "- **Workload.** out\\[i\\] = a\\[index\\[i\\]\\] over `n_words` values.\n- **Breaks.** Arrays" in gather
    assert "| cuda | `shuffled` | naive baseline |  |" in gather
    half = "half (builds on `ordered`); lossy: rel_l2 at most 0.05"
    assert f"| cuda | `halved` | {half} | `sm_80` |" in gather
    assert "a line is fetched \\| once" in gather
    assert "- **Goal** on cuda: at least 2x the speed of the baseline, " in gather
    assert (
        "by the fastest variant. Not measured. Missed because it is \\*small\\* (shown by `variant:halved`)." in gather
    )
    assert "![speedup relative to the baseline: shuffled baseline, ordered 4.00x [3.90, 4.10], SOL 94 %, " in gather
    assert "](page-acme.gather.svg)" in gather
    assert (
        "Measured on `nvidia-h200-x1`, 2026-11-22 17:23 UTC, tier standard: n=33,554,432; aiperf 0.1.0, driver 580.1; "
        "git 3904a98e3b33; run `run7`."
    ) in gather
    assert "changed since" not in text
    assert "Not measured on" not in gather
    copy = section(text, "acme.copy")
    assert "*No stored measurement.*\n" in copy
    assert copy.endswith("To check it: `aiperf judge mine.py --target acme.copy --device cpu`\n")
    assert ">halved</text>" in out.with_name("page-acme.gather.svg").read_text()


def test_a_target_without_a_figure_of_a_gpu_says_so(written, package):
    assert "*Not measured on a GPU yet.*" in section(written("acme.gather")[1].read_text(), "acme.gather")
    store(package, "intel-r-xeon-r-processor-x16", {"ordered": (4.0, 3.9, 4.1)})
    gather = section(written("acme.gather")[1].read_text(), "acme.gather")
    assert "Measured on `intel-r-xeon-r-processor-x16`" in gather
    assert "halved" not in gather.partition("![")[2].partition("]")[0]
    assert "*Not measured on a GPU yet.*\n" in gather


def test_every_kind_of_machine_has_its_figures_gpus_first_and_then_the_newest(written, package):
    store(package, "nvidia-a100-x1", {"ordered": (4.0, 3.9, 4.1)}, date="2026-01-01T00:00:00+00:00")
    store(package, "nvidia-h200-x1", {"ordered": (4.0, 3.9, 4.1)})
    store(package, "xeon-x16", {"ordered": (4.0, 3.9, 4.1)}, date="2026-12-01T00:00:00+00:00")
    text = written("acme.gather")[1].read_text()
    machines = ["nvidia-h200-x1", "nvidia-a100-x1", "xeon-x16"]
    assert re.findall("Measured on `([^`]*)`", text) == machines
    assert re.findall(r"\]\((page-[^)]*)\)", text) == [f"page-acme.gather{end}.svg" for end in ("", "-1", "-2")]


def test_the_stored_figure_of_a_goal_stands_beside_it(written, package):
    reached = {"ordered": [{"of": "speedup", "value": 1.5, "low": 1.4, "high": 1.6}]}
    reached["halved"] = [{"of": "speedup", "value": 1.9, "low": 1.8, "high": 2.1}]
    store(package, "nvidia-h200-x1", {"ordered": (4.0, 3.9, 4.1), "halved": (8.0, 7.9, 8.1)}, goals=reached)
    assert (
        "Reached: 1.90x [1.80, 2.10] by `halved` on `nvidia-h200-x1`, not decided: the interval has the bar. Missed "
        "because" in written("acme.gather")[1].read_text()
    )


@pytest.mark.parametrize(
    ("value", "low", "high", "outcome"), [(1.5, 1.4, 1.6, "**missed**"), (2.5, 2.4, 2.6, "**met**")]
)
def test_a_goal_says_whether_it_is_met(written, package, value, low, high, outcome):
    reached = {"halved": [{"of": "speedup", "value": value, "low": low, "high": high}]}
    store(package, "nvidia-h200-x1", {"halved": (8.0, 7.9, 8.1)}, goals=reached)
    assert f" by `halved` on `nvidia-h200-x1`, {outcome}." in written("acme.gather")[1].read_text()


def test_a_source_that_changed_is_told(written, package):
    store(package, "nvidia-h200-x1", {"ordered": (4.0, 3.9, 4.1)}, source="another")
    text = written("acme.gather")[1].read_text()
    assert "*The source has changed since this measurement.*" in text


def test_files_that_cannot_be_written(written):
    found, out = written(name="page.pdf")
    assert found.exit_code == 2
    assert found.stderr == f"aiperf: '{out}' does not end in .md or .html; give --out a name such as page.md.\n"
    found, out = written("acme.copy", name="missing/page.md")
    assert found.exit_code == 1
    assert found.stderr == f"aiperf: cannot write '{out}': No such file or directory. Choose another --out.\n"


@pytest.mark.usefixtures("made_up_figures")
def test_a_page_from_a_bundle(written, package, tmp_path):
    invalid = {
        "halved": {"verdict": Verdict.INVALID, "speedup": None, "step_speedup": None, "reason": "wrong *values*"}
    }
    run = measured(tmp_path / "run8", "acme.gather", "acme.gather@n=7", verdicts=invalid)
    store(package, "nvidia-a100-x1", {"ordered": (4.0, 3.9, 4.1)})
    found, out = written("acme", "--from", str(run))
    assert (found.exit_code, found.output) == (0, f"{out}: 2 targets, 2 figures\n")
    text = out.read_text()
    assert text.startswith("# aiperf-acme\n\n> **quick run, not for citation**: `run8`, 20")
    gather = section(text, "acme.gather")
    assert "ordered 7.99x [" in gather
    assert "tier quick: " in gather
    assert "run `run8`." in gather
    assert gather.index("run `run8`.") < gather.index("Measured on `nvidia-a100-x1`")
    assert "- `halved`: **INVALID**, wrong \\*values\\*" in gather
    assert gather.count("*The source has changed since this measurement.*") == 1
    assert "*Not in the bundle.*\n" in section(text, "acme.copy")


@pytest.mark.usefixtures("made_up_figures")
def test_a_page_from_a_standard_run_may_be_cited(written, tmp_path):
    run = measured(tmp_path / "run9", "acme.gather", tier="standard")
    assert "> **tier standard**: `run9`" in written("acme", "--from", str(run))[1].read_text()


@pytest.mark.usefixtures("made_up_figures")
def test_bundles_are_refused_as_by_show(written, tmp_path):
    run = measured(tmp_path / "run", "acme.gather")
    file = run / "targets/acme.gather.json"
    file.write_text(f"{file.read_text()} ")
    found, out = written("acme", "--from", str(run))
    shown = CliRunner().invoke(Shell(load_plugins([])), ["show", str(run)])
    assert (found.exit_code, found.stderr) == (shown.exit_code, shown.stderr)
    assert found.exit_code == 3
    assert "\n> '" in out.read_text() or "\n>\n> " in out.read_text()
    other = measured(tmp_path / "other", "ch07.transpose")
    found, _ = written("acme", "--from", str(other), name="other.md")
    message = f"aiperf: '{other}' has no result of these targets. There are: ch07.transpose\n"
    assert (found.exit_code, found.stderr) == (2, message)
    assert not (tmp_path / "other.md").exists()
    assert written("acme", "--from", str(tmp_path / "none"))[0].exit_code != 0
