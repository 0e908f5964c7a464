"""The yardstick of `ch04.tensor_parallel_mlp`, as far as it goes without GPUs."""

import subprocess
import sys

import pytest
import torch

from aiperf_ch04 import tensor_parallel_mlp
from aiperf_core.errors import SkipError

PREPARED = """
import torch
from aiperf_ch04.tensor_parallel_mlp import FUSED, SymmMem
SymmMem().prepare(torch.zeros(8, 16), torch.zeros(16, 24))
print([hasattr(torch.ops.symm_mem, one) for one in FUSED])
"""


def test_preparing_registers_the_operations() -> None:
    """In a process of its own: whatever imports the module of symmetric memory registers them for all."""
    done = subprocess.run([sys.executable, "-c", PREPARED], capture_output=True, text=True, check=True)
    assert done.stdout == "[True, True]\n"


def test_a_torch_without_the_operations_is_a_reason_to_skip(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tensor_parallel_mlp, "FUSED", ("fused_all_gather_matmul", "fused_by_nobody"))
    with pytest.raises(SkipError) as caught:
        tensor_parallel_mlp.SymmMem().prepare(torch.zeros(8, 16), torch.zeros(16, 24))
    assert str(caught.value) == f"needs a torch with fused_by_nobody of symm_mem; this is {torch.__version__}"
