import json
from pathlib import Path
from typing import Any

import attrs
import pytest
from click.testing import CliRunner, Result

from aiperf_core.cli.main import Shell
from aiperf_core.errors import AiperfError
from aiperf_core.harness.run.options import Options
from aiperf_core.measurements import Ceilings
from aiperf_core.plugins import load_plugins

pytestmark = pytest.mark.quiet

FOUND = Ceilings(
    "A CPU, 2 threads", "2026-11-20T09:00:00+00:00", 4e10, 3e10, 2e10, {"fp32": 2e11},
    whole=True, took_s=3.0, how={"copy_bytes_per_s": "C loop, 128 MiB"}, state={"torch": "2.13.0"},
)  # fmt: skip


def run(*arguments: str) -> Result:
    return CliRunner().invoke(Shell(load_plugins()), ["ceilings", *arguments])


class FakePlanner:
    """Measures nothing: keeps what it is asked for, and answers what the test says."""

    kept = False
    error: Exception | None = None
    asked: list[tuple[str | None, bool]]
    closed = False

    def __init__(self, options: Options, log_folder: Path) -> None:
        assert log_folder.is_dir()

    def __enter__(self) -> "FakePlanner":
        return self

    def __exit__(self, *_: object) -> None:
        type(self).closed = True

    def all_ceilings(self, device: str | None, refresh: bool, tell: Any) -> tuple[Ceilings, bool]:
        self.asked.append((device, refresh))
        if self.error:
            raise self.error
        if not self.kept:
            tell("memory, copy")
            tell("memory, read")
        return FOUND, self.kept


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> type[FakePlanner]:
    fresh = type("Fresh", (FakePlanner,), {"asked": []})
    monkeypatch.setattr("aiperf_core.harness.run.planner.Planner", fresh)
    return fresh


def test_a_page(measured: type[FakePlanner]) -> None:
    result = run()
    assert (result.exit_code, result.stderr) == (0, "measuring the peak rates of this machine ...\n")
    assert result.stdout == (
        "A CPU, 2 threads\n"
        "measured 2026-11-20 09:00 UTC in 3.0 s, torch 2.13.0\n"
        "\n"
        "Peak rates\n"
        "of          ceiling                 measured  how\n"
        "memory      copy (read + write)    40.0 GB/s  C loop, 128 MiB\n"
        "memory      read                   30.0 GB/s  -\n"
        "memory      write                  20.0 GB/s  -\n"
        "arithmetic  fp32 matmul          200 GFLOP/s  -\n"
    )
    assert measured.asked == [(None, False)]
    assert measured.closed


def test_a_page_that_was_kept(measured: type[FakePlanner]) -> None:
    measured.kept = True
    result = run("--device", "cpu")
    assert result.exit_code == 0
    assert result.stderr == "These values were stored earlier. To measure again: aiperf ceilings --refresh\n"
    assert measured.asked == [("cpu", False)]


def test_json_has_everything(measured: type[FakePlanner]) -> None:
    result = run("--json", "--refresh")
    assert json.loads(result.stdout) == {"kept": False, "ceilings": attrs.asdict(FOUND), "of_datasheet": {}}
    assert measured.asked == [(None, True)]


def test_a_machine_that_cannot_be_measured(measured: type[FakePlanner]) -> None:
    measured.error = AiperfError("The ceilings of 'cpu' could not be measured: no memory")
    result = run()
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "aiperf: The ceilings of 'cpu' could not be measured: no memory\n"
    assert measured.closed


def test_a_device_that_is_none(measured: type[FakePlanner]) -> None:
    result = run("--device", "tpu")
    assert result.exit_code == 2
    assert result.stderr == (
        "aiperf: 'tpu' is not a device; known are cpu, cuda. See what provides them: aiperf plugins\n"
    )


def test_a_real_page_is_measured_once(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIPERF_CACHE_DIR", str(tmp_path))
    first = json.loads(run("--device", "cpu", "--json").stdout)
    assert first["kept"] is False
    found = first["ceilings"]
    assert found["missing"] == {}
    assert found["whole"] is True
    assert found["state"]["torch"]
    assert 1e8 < found["read_bytes_per_s"] < 1e13
    assert 1e8 < found["flop_per_s"]["fp32"] < 1e15
    second = json.loads(run("--device", "cpu", "--json").stdout)
    assert second == {**first, "kept": True}
