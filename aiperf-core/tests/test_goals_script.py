"""The page of goals is made of results alone, and says what is missing and what is not met."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import attrs
import pytest

from aiperf_core.results.bundle import Bundle
from aiperf_core.results.models import TargetResult, Verdict

FOLDER = Path(__file__).parents[2] / "benchmarks"
pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason="needs the repository's folder `benchmarks`")


def loaded(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # attrs looks its classes' modules up
    spec.loader.exec_module(module)
    return module


measured = loaded(Path(__file__).parent / "results" / "measured.py")


def result_at(fraction: float) -> TargetResult:
    """A result whose variant reaches so much of light."""
    half = measured.result(1, {"strided": 1.0, "coalesced": 0.5})
    (light,) = [row.light for row in half.rows if row.name == "coalesced"]
    assert light is not None
    found: TargetResult = measured.result(1, {"strided": 1.0, "coalesced": 0.5 * light.fraction / fraction})
    return attrs.evolve(found, target="ch07.memory_access", device="cuda")


def page(bundle: Bundle) -> tuple[str, list[str]]:
    """The line of the target, and the page; the script says that other results are missing."""
    command = [sys.executable, str(FOLDER / "goals.py"), str(bundle.path)]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    assert made.returncode == 1, made.stderr
    assert "no result has: ch07.gather" in made.stderr
    assert "| `ch07.gather` | at least 85 % of the rate of its reads and writes | not measured | |" in made.stdout
    (line,) = [line for line in made.stdout.splitlines() if line.startswith("| `ch07.memory_access`")]
    return line, made.stdout.splitlines()


@pytest.mark.parametrize(("fraction", "met"), [(0.96, "met"), (0.88, "**not met**")])
def test_a_page_is_made_of_results(tmp_path: Path, fraction: float, met: str) -> None:
    bundle = measured.bundle(tmp_path / "run")
    bundle.write_target(result_at(fraction))
    line, lines = page(bundle)
    assert re.search(r"`coalesced` (8[78]|9[567]) % ", line)
    assert line.endswith(f"| {met} |")
    assert ("## What holds the others back" in lines) == (met != "met")


def test_what_is_not_believed_is_no_figure(tmp_path: Path) -> None:
    bundle = measured.bundle(tmp_path / "run")
    result = result_at(0.96)
    rows = [attrs.evolve(row, verdict=Verdict.INVALID, reason="wrong", speedup=None, light=None) for row in result.rows]
    bundle.write_target(attrs.evolve(result, rows=rows))
    assert page(bundle)[0].endswith("| not measured | |")
