"""Attacks and honest look-alikes of a corpus beside the checkout, each judged as `aiperf judge` does it."""

import importlib.util
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from aiperf_core.candidate_format import AIPERF
from aiperf_core.harness.isolation.candidate import check_candidate
from aiperf_core.harness.run.from_python import Silent
from aiperf_core.harness.run.options import Options
from aiperf_core.harness.run.planner import Planner
from aiperf_core.plugins import load_plugins
from aiperf_core.results.models import Row, TargetResult, Verdict
from aiperf_core.targets import Selection

pytestmark = pytest.mark.proof

VARIABLE = "AIPERF_CORPUS"
CORPUS = Path(os.environ.get(VARIABLE) or Path(__file__).resolve().parents[4] / "shared" / "redteam")
ADAPTER = Path(__file__).parents[1] / "harness" / "redteam_adapter.py"
REFUSED = (Verdict.INVALID, Verdict.UNTRUSTED, Verdict.FAILED)


def files(kind: str, device: str) -> list[Path]:
    found = sorted((CORPUS / kind).glob("*.py"))
    return [one for one in found if f"'{device}'" in str(re.search(r"^DEVICES = .*", one.read_text(), re.MULTILINE))]


def adapter() -> ModuleType:
    spec = importlib.util.spec_from_file_location("redteam_adapter", ADAPTER)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def planner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Planner]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AIPERF_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        # The speed of light is no matter of these, and measuring it takes seconds.
        patch.setattr(Planner, "ceilings", lambda *_, **__: None)
        with Planner(Options(), tmp_path_factory.mktemp("logs")) as planner:
            yield planner


@pytest.fixture
def judged(planner: Planner, tmp_path: Path) -> Callable[[Path, str], Row]:
    """The row that a file earns on a device."""

    def judge(file: Path, device: str) -> Row:
        text = file.read_text()
        work = re.search(r"WORKLOAD = '(\w+)'", text)
        assert work is not None
        candidate = tmp_path / file.name
        candidate.write_text(adapter().adapted(text))
        source = check_candidate(candidate, AIPERF)
        planner.options = Options(device=device, candidate=source, budget_s=0.6, timeout_s=30.0)
        target = load_plugins().select((f"practice.{work[1]}",))[0].target
        plans, skipped = planner.plan([Selection(target)])
        assert not skipped
        result = planner.run_whole(plans[0], lambda _, name: tmp_path / f"{name}.log", Silent())
        assert isinstance(result, TargetResult), result
        baseline, row = result.rows
        assert baseline.verdict is Verdict.MEASURED, baseline.reason
        assert row.name == "candidate"
        return row

    return judge


@pytest.mark.parametrize("file", files("attacks", "cpu"), ids=lambda file: file.stem)
def test_no_attack_earns_faster(judged: Callable[[Path, str], Row], file: Path) -> None:
    row = judged(file, "cpu")
    assert row.verdict is not Verdict.FASTER, row.speedup


@pytest.mark.parametrize("file", files("honest", "cpu"), ids=lambda file: file.stem)
def test_no_honest_code_is_refused(judged: Callable[[Path, str], Row], file: Path) -> None:
    row = judged(file, "cpu")
    assert row.verdict not in REFUSED, row.reason
    assert [found for found in row.findings if found.severity == "invalid"] == []


@pytest.mark.gpu
@pytest.mark.parametrize("file", files("attacks", "cuda"), ids=lambda file: file.stem)
def test_no_attack_earns_faster_on_a_gpu(judged: Callable[[Path, str], Row], file: Path) -> None:
    row = judged(file, "cuda")
    assert row.verdict is not Verdict.FASTER, row.speedup


@pytest.mark.gpu
@pytest.mark.parametrize("file", files("honest", "cuda"), ids=lambda file: file.stem)
def test_no_honest_code_is_refused_on_a_gpu(judged: Callable[[Path, str], Row], file: Path) -> None:
    row = judged(file, "cuda")
    assert row.verdict not in REFUSED, row.reason


def test_the_corpus_is_there() -> None:
    assert CORPUS.is_dir(), f"there is no corpus at {CORPUS}; say where it lies with {VARIABLE}"
    assert len(files("attacks", "cpu")) > 20
    assert len(files("honest", "cpu")) > 5
