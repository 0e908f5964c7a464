"""The cases of this package: each is there, on its device, and says whether it is honest; and the proof behind each issue."""

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from aiperf_core.candidate_format import AIPERF
from aiperf_core.described import TargetRef
from aiperf_core.formats.candidate import check_candidate
from aiperf_core.loading import load_benchmark
from aiperf_core.proofs import recording
from aiperf_core.proofs.support import Kind, name_of, support
from aiperf_core.validity.assess import built_in
from aiperf_core.validity.cases import Recorded
from aiperf_core.validity.issues import Issue
from aiperf_core.validity.registry import issues
from aiperf_redteam import catalogue
from aiperf_redteam.selftest.trials import file_of

CASES, RECORDED = catalogue.cases(), catalogue.recorded()
MODULES = sorted({one.module for one in CASES})


@pytest.mark.parametrize("module", MODULES)
def test_cases_name_what_there_is(module: str) -> None:
    benchmark = load_benchmark(TargetRef(module, module))
    for case in CASES:
        if case.module == module and not case.candidate:
            there = {one.name: one for one in benchmark.implementations_on(case.device) if one.role == "variant"}
            assert case.implementation in there, case
            assert there[case.implementation].why.startswith("honest: ") == case.honest, case


def test_candidates_are_files() -> None:
    candidates = [one for one in CASES if one.candidate]
    assert candidates
    for one in candidates:
        assert check_candidate(file_of(one), AIPERF).text


def test_every_case_is_of_an_issue_and_a_module_that_are_there() -> None:
    assert {one.issue for one in (*CASES, *RECORDED)} <= {one.id for one in issues()}
    for one in CASES:
        assert find_spec(one.module) is not None, one
        assert one.device in ("cpu", "cuda"), one
        assert one.gains in ("verdict", "silence", "word"), one
        assert one.tier in ("quick", "standard"), one
        assert not one.held_by or one.candidate, one


def test_no_case_ships_twice() -> None:
    keys = [(one.issue, name_of(one), one.device) for one in CASES]
    assert len(keys) == len(set(keys))


# --- the kinds of proof


@pytest.mark.parametrize("one", issues(), ids=lambda one: one.id)
def test_every_issue_has_one_of_the_three_kinds_of_proof_or_says_what_is_owed(one: Issue) -> None:
    behind = support(one, CASES, RECORDED)
    assert behind.kind is not Kind.NONE
    # What is proven owes nothing.
    assert sum(map(bool, (behind.kind is Kind.RECORDED, one.excluded, one.owed))) <= 1


def test_every_attack_has_a_look_alike() -> None:
    attacked, honest = ({one.issue for one in CASES if one.honest == kind} for kind in (False, True))
    # On a machine that is busy without the attack, honest code would rightly be flagged.
    assert attacked - honest == {"environment.background_load"}


@pytest.mark.parametrize("one", RECORDED, ids=lambda one: one.file)
def test_a_recording_says_where_it_was_made_and_is_seen_by_its_guard(one: Recorded) -> None:
    kept = recording.read(one.file)
    assert kept.command.startswith("aiperf selftest --record ")
    assert kept.machine["cpu"]
    assert kept.versions["aiperf-core"]
    assert kept.commit
    assert re.fullmatch(r"20\d\d-\d\d-\d\d", kept.date)
    guard = next(issue.guard for issue in issues() if issue.id == one.issue)
    told = {seen.issue for seen in recording.look_at(kept, guard, built_in()).seen}
    assert (one.issue in told) is not one.honest


# --- what loading costs, and kernels


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

    assert set(cuda.source.names()) == {"relax", "linger", "rows", "running_sums"}
    assert cuda.source.compile(arch)
    assert child_grids.relocatable(arch)


def test_the_host_and_the_kernel_walk_the_same_chain() -> None:
    """The kernel `running_sums`, step by step as its one thread walks it."""
    import torch

    from aiperf_redteam import spillover

    x = torch.randint(spillover.MASK, (997,), generator=torch.Generator().manual_seed(5))
    values = x.tolist()
    for _ in range(7):
        total = 0
        for index, value in enumerate(values):
            total += value
            values[index] = total & spillover.MASK
    assert spillover.running_sums(x, 7).tolist() == values
