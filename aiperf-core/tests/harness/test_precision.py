"""The precision of float32 products: full in every process, whatever the machine's image asks for."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from aiperf_core import float32_precision
from aiperf_core.harness.run.from_python import Silent
from aiperf_core.harness.run.options import Options
from aiperf_core.harness.run.planner import Planner
from aiperf_core.results.models import TargetResult
from aiperf_core.targets import InstalledTarget, Selection

TARGETS = Path(__file__).parent / "targets"


@pytest.fixture(autouse=True)
def _precision_as_before() -> Iterator[None]:
    with float32_precision("highest"):
        yield


def test_worker_and_judge_compute_in_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Planner, "ceilings", lambda *_, **__: None)
    monkeypatch.setenv("PYTHONPATH", str(TARGETS), prepend=os.pathsep)
    monkeypatch.setenv("AIPERF_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("TORCH_ALLOW_TF32_CUBLAS_OVERRIDE", "1")  # as in the images of some clouds
    with Planner(Options(device="cpu", budget_s=0.05), tmp_path) as planner:
        planner._probed["cuda"] = "the tests hide it"
        (plan,), _ = planner.plan([Selection(InstalledTarget("tests.full_precision", "full_precision"))])
        result = planner.run(plan, lambda _, name: tmp_path / f"{name}.log", Silent())
    assert isinstance(result, TargetResult)
    (row,) = result.rows
    assert (row.verdict, row.reason) == ("MEASURED", None)


@pytest.mark.parametrize(("precision", "convolutions"), [("high", True), ("medium", True), ("highest", False)])
def test_a_lower_precision_for_the_time_of_a_call(precision: str, convolutions: bool) -> None:
    def call() -> None:
        with float32_precision(precision):
            seen.append((torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32))
            raise ZeroDivisionError

    seen: list[tuple[str, bool]] = []
    with pytest.raises(ZeroDivisionError):
        call()
    assert seen == [(precision, convolutions)]
    assert torch.get_float32_matmul_precision() == "highest"
    assert not torch.backends.cudnn.allow_tf32
