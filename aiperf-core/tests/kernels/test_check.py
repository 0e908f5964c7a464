import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from aiperf_core.errors import UsageError
from aiperf_core.kernels import CudaSource
from aiperf_core.kernels.archs import Arch
from aiperf_core.kernels.check import Outcome, compile_all, sources_in
from aiperf_core.kernels.resources import resources_of

pytest.importorskip("cuda.bindings.nvrtc", reason="needs cuda-bindings")
pytest.importorskip("triton", reason="needs triton")


CUDA = 'extern "C" __global__ void wide(float* a) { a[threadIdx.x] = 1; }\n'
TRITON = """
import triton
import triton.language as tl

@triton.jit
def fill(a_ptr, BLOCK: tl.constexpr):
    tl.store(a_ptr + tl.arange(0, BLOCK), 1.0)
"""
BENCH = """
from aiperf_core.kernels import cuda_source, host_source, triton_ahead, triton_source

device = cuda_source("lesson.cu", archs=("sm_80", "sm_90a"))
again = device
host = host_source("lesson.c")
fill = triton_ahead("fill", signature={"a_ptr": "*fp32"}, constants={"BLOCK": 64})
blocks = triton_source("lesson_triton.py", fill, archs=("sm_90",))
"""


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    folder = tmp_path / "acme_kernels"
    folder.mkdir()
    for name, text in (("__init__.py", ""), ("bench.py", BENCH), ("lesson.cu", CUDA), ("lesson_triton.py", TRITON)):
        (folder / name).write_text(text)
    (folder / "lesson.c").write_text("int one(void) { return 1; }\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "triton"))
    yield folder
    for name in [name for name in sys.modules if name.startswith("acme_kernels")]:
        del sys.modules[name]


MODULES = [("acme.bench", "acme_kernels.bench")]


def rows(outcomes: list[Outcome]) -> list[tuple[str, str, str, str]]:
    return [(outcome.file, outcome.arch, outcome.kernel, outcome.status) for outcome in outcomes]


def test_sources_are_found_once(bench: Path) -> None:
    assert [source.kind for source in sources_in("acme_kernels.bench")] == ["cuda", "host", "triton"]


TEMPLATES = """
template <int N> __global__ void rows(float* a) { a[N] = 1; }
template <typename T> __global__ void rest(T* a) { a[0] = 1; }
"""
LAUNCHES = """
from aiperf_core import Benchmark, Cost, exact
from aiperf_core.kernels import cuda_source
from aiperf_core.launches import launch

bench = Benchmark(goal="speed")
device = cuda_source("lesson.cu", instances=("rest<float>",))
kernel = launch(device, kernel="{name}<{words}>", make={"words": lambda n: n // 2, "later": lambda a: a}, grid=1)

@bench.workload(smoke={"n": 3}, cuda={"n": 64})
def inputs(n): ...

bench.awkward(n=(2, 3))
bench.sass("rows", has="STG")
bench.variant(device="cuda", why="less")(kernel("rows"))
bench.variant(device="cuda", why="less")(kernel("unknown", kernel="{name}<{later}>"))
"""


def test_instances_of_templates_are_compiled_at_all_sizes(bench: Path) -> None:
    (bench / "lesson.cu").write_text(TEMPLATES)
    (bench / "bench.py").write_text(LAUNCHES)
    (outcome,) = compile_all(MODULES, ["sm_80"])
    assert (outcome.status, outcome.reason) == ("ok", "")
    assert sorted(outcome.resources) == ["rest<float>", "rows<1>", "rows<32>"]
    assert outcome.claims == ["rows"]


def test_an_instance_that_does_not_compile_fails(bench: Path) -> None:
    (bench / "lesson.cu").write_text(TEMPLATES)
    (bench / "bench.py").write_text(LAUNCHES.replace("rest<float>", "rest<flaot>"))
    (outcome,) = compile_all(MODULES, ["sm_80"])
    assert (outcome.status, outcome.reason) == (
        "failed",
        "kernel 'rest<flaot>' in lesson.cu cannot be made for sm_80: identifier \"flaot\" is undefined",
    )


def test_everything_is_compiled_for_what_it_is_for(bench: Path) -> None:
    outcomes = list(compile_all(MODULES))
    assert rows(outcomes) == [
        ("lesson.cu", "sm_80", "", "ok"),
        ("lesson.cu", "sm_90a", "", "ok"),
        ("lesson.cu", "sm_100", "", "ok"),
        ("lesson.c", "native", "", "ok"),
        ("lesson_triton.py", "sm_90", "fill", "ok"),
        ("lesson_triton.py", "sm_100", "fill", "ok"),
    ]
    assert all(outcome.target == "acme.bench" and outcome.size_bytes > 0 for outcome in outcomes)


def test_what_is_asked_for_and_does_not_fit_is_skipped_with_its_reason(bench: Path) -> None:
    outcomes = list(compile_all(MODULES, ["sm_80", "sm_75"]))
    assert rows(outcomes) == [
        ("lesson.cu", "sm_80", "", "ok"),
        ("lesson.cu", "sm_75", "", "skipped"),
        ("lesson.c", "native", "", "ok"),
        ("lesson_triton.py", "sm_80", "fill", "skipped"),
        ("lesson_triton.py", "sm_75", "fill", "skipped"),
    ]
    assert [outcome.reason for outcome in outcomes if outcome.status == "skipped"] == [
        "needs sm_80 or sm_90a",
        "needs sm_90",
        "needs sm_90",
    ]


def test_a_failure_leaves_the_rest(bench: Path) -> None:
    (bench / "lesson.cu").write_text(CUDA + "broken\n")
    (bench / "lesson.c").write_text("broken\n")
    outcomes = list(compile_all(MODULES, ["sm_90"]))
    assert rows(outcomes) == [
        ("lesson.cu", "sm_90", "", "failed"),
        ("lesson.c", "native", "", "failed"),
        ("lesson_triton.py", "sm_90", "fill", "ok"),
    ]
    assert (
        f"{bench}/lesson.cu:3: error: " in outcomes[0].reason or f"{bench}/lesson.cu:2: error: " in outcomes[0].reason
    )


def test_a_module_that_cannot_be_imported_is_a_failure_of_its_own(bench: Path) -> None:
    (bench / "broken.py").write_text("import no_such_module\n")
    (bench / "missing.py").write_text("from aiperf_core.kernels import cuda_source\ncuda_source('no.cu')\n")
    (bench / "skipping.py").write_text("from aiperf_core.errors import SkipError\nraise SkipError('needs a moon')\n")
    names = ("broken", "missing", "skipping")
    outcomes = list(compile_all([*((f"acme.{name}", f"acme_kernels.{name}") for name in names), *MODULES], ["sm_90"]))
    assert [(outcome.target, outcome.status) for outcome in outcomes[:3]] == [
        ("acme.broken", "failed"),
        ("acme.missing", "failed"),
        ("acme.skipping", "skipped"),
    ]
    assert outcomes[0].reason == ("could not be imported: ModuleNotFoundError: No module named 'no_such_module'")
    assert outcomes[1].reason.startswith(f"could not be imported: no file '{bench}/no.cu'")
    assert outcomes[2].reason == "needs a moon"
    assert [outcome.status for outcome in outcomes[3:]] == ["ok", "ok", "ok"]


def test_machine_code_is_kept(bench: Path, tmp_path: Path) -> None:
    list(compile_all(MODULES, ["sm_90"], tmp_path / "kept/here"))
    assert sorted(path.name for path in (tmp_path / "kept/here").iterdir()) == [
        "acme.bench.lesson.sm_90.cubin",
        "acme.bench.lesson_triton.fill.sm_90.cubin",
    ]


def test_an_architecture_that_is_none(bench: Path) -> None:
    with pytest.raises(UsageError, match="--arch 'hopper' is not an architecture of this NVRTC; accepted: sm_"):
        list(compile_all(MODULES, ["hopper"]))


def test_a_missing_compiler_is_skipped(bench: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CC", raising=False)
    outcomes = list(compile_all(MODULES, ["sm_90"]))
    assert [outcome.reason for outcome in outcomes if outcome.kind == "host"] == [
        "needs a C compiler (looked for $CC, cc, gcc, clang)"
    ]


def test_resources_of_kernels_are_reported(bench: Path) -> None:
    cuda, _, triton = compile_all(MODULES, ["sm_90a"])
    assert list(cuda.resources) == ["wide"]
    assert 0 < cuda.resources["wide"].registers < 256
    assert list(triton.resources) == ["fill"]
    assert 0 < triton.resources["fill"].registers < 256


REDUCE = """
import triton
import triton.language as tl

@triton.jit
def fill(a_ptr, BLOCK: tl.constexpr):
    a = tl.load(a_ptr + tl.arange(0, BLOCK))
    tl.store(a_ptr + tl.arange(0, BLOCK), tl.sort(a) + tl.sum(a))
"""


def test_the_shared_memory_of_a_triton_kernel_comes_from_its_metadata(bench: Path) -> None:
    (bench / "lesson_triton.py").write_text(REDUCE.replace("64", "1024"))
    (bench / "bench.py").write_text(BENCH.replace('"BLOCK": 64', '"BLOCK": 1024'))
    *_, triton = compile_all(MODULES, ["sm_90"])
    assert triton.resources["fill"].shared_bytes > 0


@pytest.mark.parametrize("length", [0, 40, 300, 1500])
def test_damaged_machine_code_has_no_resources(bench: Path, length: int) -> None:
    source, *_ = sources_in("acme_kernels.bench")
    assert isinstance(source, CudaSource)
    assert resources_of(source.compile("sm_90a")[:length], Arch(9, 0, "a"), {}) == {}
