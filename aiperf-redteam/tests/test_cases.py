"""The cases that the core brings: each is there, on its device, and says whether it is honest."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from aiperf_core.described import TargetRef
from aiperf_core.loading import load_benchmark
from aiperf_core.selftest.trials import file_of
from aiperf_core.validity.registry import ISSUES
from aiperf_redteam import catalogue

CASES = catalogue.cases()
MODULES = sorted({one.module for one in CASES})


@pytest.mark.parametrize("module", MODULES)
def test_cases_name_what_there_is(module: str) -> None:
    benchmark = load_benchmark(TargetRef(module, module))
    for case in CASES:
        if case.module == module and not case.candidate:
            there = {one.name: one for one in benchmark.on(case.device) if one.role == "variant"}
            assert case.implementation in there, case
            assert there[case.implementation].why.startswith("honest: ") == case.honest, case


def test_candidates_are_files() -> None:
    candidates = [one for one in CASES if one.candidate]
    assert candidates
    assert [one for one in candidates if not file_of(one).is_file()] == []


def test_each_issue_has_an_attack_or_recorded_evidence_or_is_excluded() -> None:
    proven = {one.issue for one in catalogue.recorded()} | {one.id for one in ISSUES if one.excluded}
    for honest in (False, True):
        assert {one.issue for one in CASES if one.honest == honest} | proven == {one.id for one in ISSUES}


def test_cases_are_listed_without_torch(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise BaseException('torch was imported')")
    folders = [str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(folders)}
    line = [sys.executable, "-P", "-c", f"import {catalogue.__name__}"]
    subprocess.run(line, check=True, env=environment, cwd=tmp_path)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_100"])
def test_kernels_compile_without_a_gpu(arch: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("cuda.bindings.nvrtc")
    monkeypatch.setenv("AIPERF_CACHE_DIR", str(tmp_path))
    from aiperf_redteam import child_grids, cuda

    assert set(cuda.source.names()) == {"relax", "linger", "rows"}
    assert cuda.source.compile(arch)
    assert child_grids.relocatable(arch)
