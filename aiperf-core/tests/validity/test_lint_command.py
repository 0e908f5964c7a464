"""`aiperf lint` as a user calls it: real processes, targets of an installed package."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from aiperf_core.cli.lint import Linted, _exit_code, _print, lint
from aiperf_core.cli.screen import Screen
from aiperf_core.errors import UsageError
from aiperf_core.harness.run import planner
from aiperf_core.harness.run.planner import Planner
from aiperf_core.stats.expectations import Expectation, MeasuredRun, Page, write

TARGETS = Path(__file__).parent / "targets"
PLUGIN = """
@hookimpl
def aiperf_targets():
    yield Target("sound", "As it should be", "speed", ("cpu",))
    yield Target("crooked", "Implementations that go wrong", "speed", ("cpu",))
    yield Target("broken", "Cannot be imported", "speed", ("cpu",))
    yield Target("elsewhere", "Is for GPUs", "speed", ("cuda",))
    yield Target("raising", "Its reference raises", "speed", ("cpu",))
"""


# Appended to `crooked`: a kernel in C that does not compile.
ROWS = """
from aiperf_core.kernels import host_source
from aiperf_core.launches import loop

bench.variant(device="cpu", why="-")(loop(host_source("rows.c"), out="a")("rows"))
"""


@pytest.fixture(scope="module")
def acme(make_site: Any, lend: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A package of targets, found by this process and by those of one fork server; no GPU."""
    site = make_site(tmp_path_factory.mktemp("site"))
    site.install("aiperf-acme", PLUGIN)
    sound, crooked = ((TARGETS / f"{name}.py").read_text() for name in ("sound", "crooked"))
    site.write("aiperf_acme/sound.py", sound)
    site.write("aiperf_acme/crooked.py", crooked + ROWS)
    site.write("aiperf_acme/rows.c", "\nvoid rows(float* out) { out[0] = missing; }\n")
    site.write("aiperf_acme/broken.py", "import no_such_module\n")
    elsewhere = sound.replace('device="cpu"', 'device="cuda"').replace("larger=", "cuda=")
    site.write("aiperf_acme/elsewhere.py", elsewhere)
    site.write(
        "aiperf_acme/raising.py", sound.replace("return a @ b\n\n\n@bench.cost", "return a @ a\n\n\n@bench.cost")
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(site.folder))
        patch.setenv("PYTHONPATH", str(site.folder), prepend=os.pathsep)
        patch.setenv("CUDA_VISIBLE_DEVICES", "")
        with lend() as server:
            patch.setattr(planner, "Planner", lambda *given: Planner(*given, server=server()))
            yield site
    for name in [one for one in sys.modules if one.partition(".")[0] == "aiperf_acme"]:
        del sys.modules[name]


def invoke(site: Any, *arguments: str) -> Result:
    return CliRunner().invoke(lint, list(arguments), obj=site.load(), standalone_mode=False)


def test_a_sound_target_in_a_line(acme: Any) -> None:
    result = invoke(acme, "acme.sound")
    assert result.stdout == "acme.sound on cpu at smoke (m=5, n=13, k=17): 42 ok, 2 not applicable\n"
    assert result.return_value == 0


def test_everything_of_everything_in_json(acme: Any) -> None:
    result = invoke(acme, "all", "--size", "smoke", "--json")
    assert result.return_value == 3
    targets = {one["target"]: one for one in json.loads(result.stdout)["targets"]}
    assert list(targets) == ["acme.sound", "acme.crooked", "acme.broken", "acme.elsewhere", "acme.raising"]
    assert "No module named 'no_such_module'" in targets["acme.broken"]["failed"]
    assert targets["acme.broken"]["skipped"] == ""
    assert targets["acme.elsewhere"]["skipped"] == "has no implementation for cpu; it runs on cuda"
    assert targets["acme.raising"]["failed"].startswith("'acme.raising' could not be linted: raised RuntimeError: ")
    assert (targets["acme.sound"]["device"], targets["acme.sound"]["size"]) == ("cpu", "smoke")
    assert targets["acme.sound"]["params"] == {"m": 5, "n": 13, "k": 17}
    sound = {one["test"]: one for one in targets["acme.sound"]["outcomes"]}
    assert sound["implementation.elsewhere"] == {
        "test": "implementation.elsewhere",
        "verdict": "not applicable",
        "found": "needs the package 'no_such_package' (pip install it)",
        "remedy": "",
    }
    crooked = {one["test"]: one for one in targets["acme.crooked"]["outcomes"]}
    verdicts = {
        name.removeprefix("implementation."): one["verdict"]
        for name, one in crooked.items()
        if name.startswith("implementation.")
    }
    assert verdicts == {
        "right": "ok",
        "ahead": "problem",
        "without_tail": "problem",
        "in_place": "problem",
        "as_list": "problem",
        "raises": "problem",
        "dies": "problem",
        "skips": "not applicable",
        "small_only": "ok",
        "rows": "problem",
    }
    found = {name: crooked[f"implementation.{name}"]["found"] for name in verdicts}
    assert found["dies"] == "at smoke: its process was killed by SIGSEGV during 'try'"
    assert found["raises"] == "at smoke: raised RuntimeError: no kernel for this size"
    assert found["skips"] == "needs a machine that nobody has"
    assert found["rows"].startswith(f"{acme.folder}/aiperf_acme/rows.c:2: error: 'missing' undeclared")
    assert "\n  does not compile: rows.c\n" in found["rows"]
    assert crooked["implementation.rows"]["remedy"] == ""
    remedy = crooked["implementation.raises"]["remedy"]
    assert remedy.startswith("Correct it, or the reference that disagrees with it: ")
    assert remedy.endswith("(raises)")


def test_one_implementation_at_two_sizes(acme: Any) -> None:
    result = invoke(acme, "acme.crooked:small_only", "--size", "large")
    lines = result.stdout.splitlines()
    assert lines[0].startswith("acme.crooked on cpu at large (n=41): 1 problem, ")
    assert lines[1].startswith("  problem  implementation.small_only: at large: gives a wrong answer on draw 1")
    assert not any("implementation.ahead" in line for line in lines)
    assert max(map(len, lines)) <= 100
    assert result.return_value == 3


def test_what_cannot_be_linted_ends_with_1(acme: Any) -> None:
    result = invoke(acme, "acme.broken", "acme.elsewhere")
    lines = result.stdout.splitlines()
    assert lines[0] == "acme.broken on cpu: failed"
    assert lines[-2:] == ["acme.elsewhere on cpu: skipped", "  has no implementation for cpu; it runs on cuda"]
    assert result.return_value == 1


def test_mistaken_options_are_usage_errors(acme: Any) -> None:
    size = invoke(acme, "acme.sound", "--size", "huge")
    assert isinstance(size.exception, UsageError)
    assert str(size.exception) == "'acme.sound' has no size 'huge'; it has smoke, larger."
    device = invoke(acme, "acme.sound", "--device", "cuda")
    assert isinstance(device.exception, UsageError)
    assert str(device.exception).startswith("The device 'cuda' was requested, but this machine has none: ")
    target = invoke(acme, "acme.sund")
    assert isinstance(target.exception, UsageError)


def outcome(verdict: str) -> dict[str, str]:
    return {"test": "judge.zeros", "verdict": verdict, "found": "it passes", "remedy": "Do\x1b[2J better."}


def test_exit_codes() -> None:
    fine, bad = (Linted("t", "cpu", outcomes=[outcome(verdict)]) for verdict in ("note", "problem"))
    failed, skipped = Linted("t", "cpu", failed="why"), Linted("t", "cuda", skipped="why")
    assert _exit_code([fine]) == 0
    assert _exit_code([fine, skipped]) == 0
    assert _exit_code([skipped]) == 1
    assert _exit_code([fine, failed]) == 1
    assert _exit_code([failed, bad]) == 3


def test_problems_and_notes_are_printed_whole(capsys: pytest.CaptureFixture[str]) -> None:
    outcomes = [*map(outcome, ("note", "problem", "ok", "ok", "note", "not applicable"))]
    _print(Screen(sys.stdout), Linted("acme.t", "cpu", "smoke", {}, outcomes=outcomes))
    assert capsys.readouterr().out == (
        "acme.t on cpu at smoke: 1 problem, 2 notes, 2 ok, 1 not applicable\n"
        "  problem  judge.zeros: it passes\n"
        "      Do better.\n"
        "  note  judge.zeros: it passes\n"
        "      Do better.\n"
        "  note  judge.zeros: it passes\n"
        "      Do better.\n"
    )


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys, aiperf_core.cli.lint\nprint([m for m in ('torch', 'triton', 'numpy', 'rich') if m in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "[]\n"


def test_claims_about_a_device_that_is_not_here(acme: Any) -> None:
    """Stored figures decide them, so that they are looked at on every machine."""
    sizes = {"m": 8.0, "n": 31.0, "k": 64.0}
    row = Expectation(metric="speedup", measured=0.9, low=0.89, high=0.91, sizes=sizes, run=0)
    run = MeasuredRun(bundle="acme", seal="0" * 64, date="2026-11-28", versions={}, git=None, sources={})
    file = acme.folder / "aiperf_acme" / "expectations" / "nvidia-h200-x1.json"
    file.parent.mkdir()
    try:
        write(file, Page("nvidia-h200-x1", [run], {"acme.elsewhere:by_columns": row}))
        result = invoke(acme, "acme.elsewhere", "acme.sound")
    finally:
        shutil.rmtree(file.parent)
    assert result.return_value == 3
    text = " ".join(result.stdout.split())
    assert "acme.elsewhere on cuda, by stored figures: 1 problem, 4 ok" in text
    assert "claims.title: the best variant gains nothing at the default sizes: 0.9x on nvidia-h200-x1" in text
    assert text.endswith("1 problem: claims.title 1")
    assert "stored" not in invoke(acme, "acme.elsewhere", "acme.sound", "--device", "cpu").stdout
