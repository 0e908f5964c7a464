import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from aiperf_core.errors import CompileError, KernelError, SkipError, UsageError
from aiperf_core.kernels import TritonSource, triton_ahead
from aiperf_core.kernels.triton import _compiled, triton_compile_error

MakeTriton = Callable[..., TritonSource]

pytest.importorskip("triton", reason="needs triton")

LESSON = """
import triton
import triton.language as tl


@triton.jit
def scale(a_ptr, b_ptr, n, by, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(b_ptr + at, by * tl.load(a_ptr + at, mask=at < n) + 1, mask=at < n)


@triton.autotune(configs=[triton.Config({"BLOCK": 256})], key=["n"])
@triton.jit
def tuned(a_ptr, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(a_ptr + at, at, mask=at < n)


@triton.jit
def broken(a_ptr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(b_ptr + at, at)


def no_kernel():
    pass
"""

CALL = "tl.store(a_ptr + at, inner(at))"
CALLED = f"""
import triton
import triton.language as tl


@triton.jit
def inner(at):
    return at + missing


@triton.jit
def calls(a_ptr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    {CALL}
"""
SCALE = triton_ahead(
    "scale",
    signature={"a_ptr": "*fp32:16", "b_ptr": "*fp32", "n": "i32", "by": "fp32"},
    constants={"BLOCK": 128},
)


@pytest.fixture(autouse=True)
def triton_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "triton"))


@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_90a", "sm_100a"])
def test_it_compiles_without_a_gpu(make_triton: MakeTriton, arch: str) -> None:
    code = make_triton(LESSON, SCALE).compile(SCALE, arch)
    assert code.startswith(b"\x7fELF")
    assert b"scale" in code


def test_types_constants_and_warps_reach_the_compiler(make_triton: MakeTriton) -> None:
    source, types = make_triton(LESSON), dict(SCALE.signature)
    variants = [
        SCALE,
        triton_ahead("scale", signature=types, constants={"BLOCK": 1024}),
        triton_ahead("scale", signature=types | {"a_ptr": "*fp32", "b_ptr": "*bf16"}, constants={"BLOCK": 128}),
        triton_ahead("scale", signature=types, constants={"BLOCK": 128}, num_warps=1),
    ]
    assert len({source.compile(ahead, "sm_90") for ahead in variants}) == 4


def test_a_tuned_kernel_is_compiled_for_the_constants_given(make_triton: MakeTriton) -> None:
    tuned = triton_ahead("tuned", signature={"a_ptr": "*i32", "n": "i32"}, constants={"BLOCK": 256})
    assert b"tuned" in make_triton(LESSON).compile(tuned, "sm_90")


def test_an_error_has_its_file_and_line(make_triton: MakeTriton) -> None:
    source = make_triton(LESSON)
    with pytest.raises(CompileError) as error:
        source.compile(triton_ahead("broken", signature={"a_ptr": "*i32"}, constants={"BLOCK": 64}), "sm_90")
    line = LESSON.splitlines().index("    tl.store(b_ptr + at, at)") + 1
    first, *others = str(error.value).splitlines()
    assert first.startswith(f"{source.path}:{line}: error: ")
    assert "b_ptr is not defined" in first
    assert others[0] == "  does not compile: kernel 'broken' in lesson_triton.py for sm_90"
    assert others[1].endswith(" sm_90 'a_ptr=*i32' BLOCK=64 num_warps=4 num_stages=3")
    assert "b_ptr + at" in Path(others[2].partition("whole log: ")[2]).read_text()


def test_an_error_in_a_called_function_has_the_line_of_that_function(make_triton: MakeTriton) -> None:
    source = make_triton(CALLED)
    with pytest.raises(CompileError) as error:
        source.compile(triton_ahead("calls", signature={"a_ptr": "*i32"}, constants={"BLOCK": 64}), "sm_90")
    inner, outer = (CALLED.splitlines().index(line) + 1 for line in ("    return at + missing", f"    {CALL}"))
    first, second = str(error.value).splitlines()[:2]
    assert first.startswith(f"{source.path}:{inner}: error: ")
    assert "missing is not defined" in first
    assert second == f"  {source.path}:{outer}: called from here"


def test_an_error_of_a_launch_is_read_as_one_of_compilation(make_triton: MakeTriton) -> None:
    source = make_triton(CALLED)
    ahead = triton_ahead("calls", signature={"a_ptr": "*i32"}, constants={"BLOCK": 64})
    with pytest.raises(Exception) as raised:  # noqa: PT011  # Triton's own, whose type is not imported here
        _compiled(source.kernel("calls"), ahead, 90)
    error = triton_compile_error(raised.value)
    assert error is not None
    inner = CALLED.splitlines().index("    return at + missing") + 1
    assert str(error).startswith(f"{source.path}:{inner}: error: ")
    assert "does not compile: kernel 'calls' in lesson_triton.py\n" in str(error)
    assert triton_compile_error(ValueError("at 3:4:")) is None


def test_names_must_be_the_kernels(make_triton: MakeTriton) -> None:
    with pytest.raises(KernelError) as error:
        make_triton(LESSON).compile(triton_ahead("scale", signature={"a": "*fp32"}, constants={"BLOCK": 64}), "sm_90")
    assert str(error.value) == (
        "kernel 'scale' in lesson_triton.py takes (a_ptr, b_ptr, n, by, BLOCK); triton_ahead gives (a, BLOCK)"
    )


def test_a_kernel_is_imported_when_asked_for(make_triton: MakeTriton) -> None:
    source = make_triton(LESSON)
    assert source._module_name not in sys.modules
    scale = source.kernel("scale")
    assert scale.arg_names == ["a_ptr", "b_ptr", "n", "by", "BLOCK"]
    assert source.kernel("scale") is scale
    with pytest.raises(KernelError) as error:
        source.kernel("no_kernel")
    assert str(error.value) == (
        "no Triton kernel 'no_kernel' in lesson_triton.py; it defines: 'scale', 'tuned', 'broken'"
    )


def test_a_module_that_cannot_be_imported_says_why(make_triton: MakeTriton) -> None:
    source = make_triton("import triton\nraise ValueError('no such luck')")
    with pytest.raises(KernelError, match=r"lesson_triton.py could not be imported: ValueError: no such luck$"):
        source.kernel("scale")
    source.path.write_text(LESSON)
    assert source.kernel("scale"), "a second try is a real one"


def test_archs(make_triton: MakeTriton) -> None:
    with pytest.raises(SkipError, match=r"^lesson_triton.py needs sm_90; it is not for sm_80$"):
        make_triton(LESSON, archs=("sm_90",)).compile(SCALE, "sm_80")
    with pytest.raises(UsageError, match="archs takes a tuple"):
        make_triton(LESSON, archs="sm_90")


def test_without_triton_it_is_skipped(make_triton: MakeTriton, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "triton", None)
    with pytest.raises(SkipError) as error:
        make_triton(LESSON).kernel("scale")
    assert str(error.value).startswith("needs the package 'triton' (")
    assert str(error.value).endswith("; install it with: pip install 'aiperf-core[triton]'")


def test_a_benchmark_with_triton_variants_imports_without_triton(tmp_path: Path) -> None:
    (tmp_path / "acme").mkdir()
    (tmp_path / "acme/__init__.py").write_text("")
    (tmp_path / "acme/lesson_triton.py").write_text("from acme import bench\n" + LESSON)
    (tmp_path / "acme/bench.py").write_text(
        "from aiperf_core.kernels import triton_source\nblocks = triton_source('lesson_triton.py')\n"
    )
    without = (
        "import sys; sys.modules['triton'] = None\n"
        "from acme import bench\n"
        "from aiperf_core.errors import SkipError\n"
        "try: bench.blocks.kernel('scale')\n"
        "except SkipError: print('skipped')\n"
        "del sys.modules['triton']\n"
        "print(bench.blocks.kernel('scale').__module__)\n"
    )
    run = subprocess.run([sys.executable, "-c", without], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert run.stdout == "skipped\nacme.lesson_triton\n"
