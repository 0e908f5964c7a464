"""Claims about machine code: they hold, fail, or cannot be read, and each mistake is named."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from aiperf_core import Benchmark
from aiperf_core.claims import SassClaim
from aiperf_core.errors import BenchmarkError, SkipError
from aiperf_core.kernels import sass
from aiperf_core.kernels.check import Outcome, compile_all

pytest.importorskip("cuda.bindings.nvrtc", reason="needs cuda-bindings")
pytest.importorskip("triton", reason="needs triton")

CUDA = """
template <typename T>
__global__ void copy_all(const T* a_ptr, T* b_ptr) {
  T part[4];
#pragma unroll
  for (int k = 0; k < 4; k++) part[k] = a_ptr[threadIdx.x + 32 * k];
#pragma unroll
  for (int k = 0; k < 4; k++) b_ptr[threadIdx.x + 32 * k] = part[k];
}
template __global__ void copy_all<float4>(const float4*, float4*);
extern "C" __global__ void add(float* a_ptr) { a_ptr[threadIdx.x] += 1; }
"""
BENCH = """
from aiperf_core import Benchmark
from aiperf_core.kernels import cuda_source

bench = Benchmark(goal="speed")
device = cuda_source("lesson.cu", archs=("sm_80", "sm_90"))
CLAIM
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    made = tmp_path / "acme_claims"
    made.mkdir()
    (made / "__init__.py").write_text("")
    (made / "lesson.cu").write_text(CUDA)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield made
    for name in [name for name in sys.modules if name.startswith("acme_claims")]:
        del sys.modules[name]


def outcomes(folder: Path, claim: str, *archs: str) -> list[Outcome]:
    (folder / "bench.py").write_text(BENCH.replace("CLAIM", claim))
    return list(compile_all([("acme.bench", "acme_claims.bench")], archs or ("sm_90",)))


@pytest.mark.parametrize(
    "claim",
    [
        "'copy_all', has=('LDG.128', 'STG.128'), lacks='LDS', loads_before_first_store=4",
        "'add', has='LDG.32', lacks='LDG.128'",
        "'add', lacks='LDG', arch='sm_80'",
    ],
)
def test_a_claim_holds(folder: Path, claim: str) -> None:
    (outcome,) = outcomes(folder, f"bench.sass({claim})")
    assert (outcome.status, outcome.reason) == ("ok", "")
    assert outcome.claims == ([] if "sm_80" in claim else [claim.split("'")[1]])


@pytest.mark.parametrize(
    ("claim", "reason"),
    [
        ("'copy_all', has='LDG.64'", "has no LDG.64, but LDG.E.128"),
        ("'copy_all', lacks='STG.128'", "has STG.128, 4 times"),
        ("'copy_all', loads_before_first_store=5", "has 4 loads before its first store; claimed are 5"),
        ("'add', has='LDG.128'", "add has no LDG.128, but LDG.E"),
        ("'add', has='HMMA'", "add has no HMMA"),
    ],
)
def test_a_claim_that_the_code_refutes(folder: Path, claim: str, reason: str) -> None:
    (outcome,) = outcomes(folder, f"bench.sass({claim})")
    assert outcome.status == "failed"
    assert outcome.reason.startswith("the machine code is not as claimed: ")
    assert outcome.reason.endswith(reason)


def test_a_kernel_that_no_file_has(folder: Path) -> None:
    compiled, claimed = outcomes(folder, "bench.sass('copy', has='LDG')")
    assert compiled.status == "ok"
    assert (claimed.kind, claimed.status) == ("claim", "failed")
    assert claimed.reason.startswith("claims about kernel 'copy', and no file has it; there are _Z8copy_all")
    assert claimed.reason.endswith(", add")


@pytest.mark.parametrize("folders", ["nowhere", "broken"])
def test_without_a_disassembler_nothing_is_claimed(
    folder: Path, folders: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "bin"
    place.mkdir()
    if folders == "broken":
        (place / "nvdisasm").write_text("#!/bin/sh\necho 'nvdisasm fatal: unknown architecture' >&2\nexit 255\n")
        (place / "nvdisasm").chmod(0o755)
    monkeypatch.setattr(sass, "find_spec", lambda name: None)
    monkeypatch.setenv("PATH", f"{place}:{os.defpath}")
    sass.disassembler.cache_clear()
    try:
        (outcome,) = outcomes(folder, "bench.sass('add', has='LDG')")
    finally:
        sass.disassembler.cache_clear()
    found = {
        "nowhere": "needs nvdisasm, of the CUDA toolkit (in PATH) or of the package triton",
        "broken": "nvdisasm does not read this machine code: nvdisasm fatal: unknown architecture",
    }
    assert outcome.status == "skipped"
    assert outcome.reason == f"its machine code cannot be compared with claims: {found[folders]}"


def test_the_width_of_an_access() -> None:
    assert sass.matches("LDS.32", "LDS")
    assert sass.matches("LDS.32", "LDS.E")
    assert not sass.matches("LDS.32", "LDS.128")
    assert not sass.matches("LDS.32", "LDG")
    assert sass.matches("LDG.128", "LDG.E.128.CONSTANT")
    assert not sass.matches("LDG.128", "LDG.E.64")


@pytest.mark.parametrize(
    ("claim", "message"),
    [
        ({}, "claims nothing of kernel 'add'; give has=, lacks= or loads_before_first_store="),
        ({"has": ("lds",)}, "claims the instruction 'lds'; accepted are opcodes, such as 'LDS.128'"),
        (
            {"loads_before_first_store": 0},
            "claims loads_before_first_store=0; accepted are whole numbers from 1",
        ),
    ],
)
def test_mistakes(claim: dict[str, object], message: str) -> None:
    with pytest.raises(BenchmarkError) as caught:
        SassClaim(kernel="add", **claim)  # type: ignore[arg-type]
    assert str(caught.value) == message
    with pytest.raises(BenchmarkError) as declared:
        Benchmark(goal="speed").sass("add", **claim)  # type: ignore[arg-type]
    assert str(declared.value) == f"{__file__}: {message}."


def test_an_error_of_the_disassembler_is_a_reason_to_skip() -> None:
    with pytest.raises(SkipError, match="nvdisasm does not read this machine code"):
        sass.opcodes_of(b"no machine code")
