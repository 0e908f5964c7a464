import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from aiperf_core.errors import CompileError, KernelError, SkipError, UsageError
from aiperf_core.kernels import CudaSource, cuda, grid_that_fills, headers, nvrtc
from aiperf_core.kernels.cuda import RecordedKernel

MakeCuda = Callable[..., CudaSource]

pytest.importorskip("cuda.bindings.nvrtc", reason="needs cuda-bindings")

WIDE = """
extern "C" __global__ void wide(const float* __restrict__ a, float* __restrict__ b, long long n) {
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i < n) b[i] = 2 * a[i] + 1;
}
"""


@pytest.fixture
def compilations(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The architectures that NVRTC was really asked for."""
    asked: list[str] = []

    def counted(path: Path, text: str, arch: str, *more: tuple[str, ...]) -> nvrtc.Compiled:
        asked.append(arch)
        return nvrtc.compile_cubin(path, text, arch, *more)

    monkeypatch.setattr(cuda, "compile_cubin", counted)
    return asked


def test_naming_a_file_imports_and_compiles_nothing(tmp_path: Path) -> None:
    (tmp_path / "bench.cu").write_text("this is no CUDA")
    (tmp_path / "bench.c").write_text("this is no C")
    (tmp_path / "bench_triton.py").write_text("raise RuntimeError('imported')")
    (tmp_path / "bench.py").write_text(
        "from aiperf_core.kernels import cuda_source, host_source, triton_source, triton_ahead\n"
        "device, host = cuda_source('bench.cu'), host_source('bench.c')\n"
        "ahead = triton_ahead('scale', signature={'a_ptr': '*fp32'}, constants={'BLOCK': 1})\n"
        "blocks = triton_source('bench_triton.py', ahead)\n"
    )
    heavy = "import sys, bench; print([m for m in ('torch', 'triton', 'cuda', 'numpy') if m in sys.modules])"
    run = subprocess.run([sys.executable, "-c", heavy], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert run.stdout == "[]\n"


def test_a_file_is_found_beside_its_module_or_in_its_kernels_folder(tmp_path: Path) -> None:
    caller = {"__file__": str(tmp_path / "bench.py"), "cuda_source": cuda.cuda_source}
    (tmp_path / "kernels").mkdir()
    (tmp_path / "kernels/lesson.cu").write_text(WIDE)
    assert eval("cuda_source('lesson.cu')", caller).path == tmp_path / "kernels/lesson.cu"
    (tmp_path / "lesson.cu").write_text(WIDE)
    assert eval("cuda_source('lesson.cu')", caller).path == tmp_path / "lesson.cu"
    assert eval("cuda_source('kernels/lesson.cu')", caller).path == tmp_path / "kernels/lesson.cu"


def test_a_missing_file_names_itself_and_the_module(tmp_path: Path) -> None:
    caller = {"__file__": str(tmp_path / "bench.py"), "cuda_source": cuda.cuda_source}
    with pytest.raises(KernelError) as error:
        eval("cuda_source('missing.cu')", caller)
    assert str(error.value) == (
        f"no file '{tmp_path}/missing.cu', which {tmp_path}/bench.py names as the source of its kernels; "
        f"nor is it in the folder '{tmp_path}/kernels'"
    )


def test_archs_must_be_a_tuple_of_architectures(make_cuda: MakeCuda) -> None:
    with pytest.raises(UsageError, match="archs and options take tuples"):
        make_cuda(WIDE, archs="sm_80")
    with pytest.raises(UsageError, match="'sm80' is not an architecture"):
        make_cuda(WIDE, archs=("sm80",))
    with pytest.raises(UsageError, match="archs and options take tuples"):
        make_cuda(WIDE, archs=())


@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_90a", "sm_100a"])
def test_it_compiles_without_a_gpu(make_cuda: MakeCuda, arch: str) -> None:
    cubin = make_cuda(WIDE, archs=("sm_80", "sm_90a", "sm_100a")).compile(arch)
    assert cubin.startswith(b"\x7fELF")
    assert b"wide" in cubin


def test_an_exact_architecture_has_its_instructions_and_a_plain_one_has_not(make_cuda: MakeCuda) -> None:
    text = 'extern "C" __global__ void only() { asm volatile("wgmma.fence.sync.aligned;"); }'
    source = make_cuda(text, archs=("sm_90a",))
    assert source.compile("sm_90a").startswith(b"\x7fELF")
    with pytest.raises(SkipError, match=r"^lesson.cu needs sm_90a; it is not for sm_90$"):
        source.compile("sm_90")
    with pytest.raises(KernelError, match=r"does not compile: lesson.cu for sm_90\n"):
        make_cuda(text, archs=("sm_80",)).compile("sm_90")


def test_an_older_architecture_than_declared_is_skipped(make_cuda: MakeCuda) -> None:
    with pytest.raises(SkipError, match=r"^lesson.cu needs sm_90 or sm_100a; it is not for sm_80$"):
        make_cuda(WIDE, archs=("sm_90", "sm_100a")).compile("sm_80")


def test_an_architecture_that_nvrtc_does_not_know_is_skipped(make_cuda: MakeCuda) -> None:
    with pytest.raises(SkipError, match=r"^NVRTC \d+\.\d+ does not know sm_999; it knows sm_\d+ to sm_\d+[af]?$"):
        make_cuda(WIDE).compile("sm_999")


def test_an_error_has_its_file_and_line(make_cuda: MakeCuda) -> None:
    source = make_cuda('\n\nextern "C" __global__ void wide(float* a) {\n    a[0] = b;\n}\n')
    with pytest.raises(CompileError) as error:
        source.compile("sm_90a")
    first, *others = str(error.value).splitlines()
    assert first == f'{source.path}:4: error: identifier "b" is undefined'
    assert others[0] == "  does not compile: lesson.cu for sm_90a"
    assert others[1].startswith(
        "  command: nvrtc --gpu-architecture=sm_90a --ptxas-options=-v --std=c++17 --include-path="
    )
    assert "a[0] = b;" in Path(others[2].partition("whole log: ")[2]).read_text()


def test_an_error_in_a_header_has_the_headers_line(make_cuda: MakeCuda, tmp_path: Path) -> None:
    (tmp_path / "part.cuh").write_text("\n__device__ int half_of(int x) { return x / two; }\n")
    with pytest.raises(KernelError) as error:
        make_cuda('#include "part.cuh"\n').compile("sm_80")
    first = str(error.value).partition("\n")[0]
    assert first == f'{tmp_path}/part.cuh:2: error: identifier "two" is undefined'


def test_only_the_first_errors_are_shown(make_cuda: MakeCuda) -> None:
    text = "\n".join(f"__device__ int f{at}() {{ return missing{at}; }}" for at in range(5))
    with pytest.raises(KernelError) as error:
        make_cuda(text).compile("sm_80")
    lines = str(error.value).splitlines()
    assert [line.rpartition(":")[2] for line in lines[:3]] == [
        f' identifier "missing{at}" is undefined' for at in range(3)
    ]
    assert lines[3] == "  and 2 more lines of errors"


def test_options_reach_the_compiler(make_cuda: MakeCuda) -> None:
    text = "#if TILE != 32 || !defined(FLAG)\n#error no\n#endif\n" + WIDE
    make_cuda(text, options=("-DTILE=32", "-DFLAG", "--use_fast_math", "-lineinfo", "--maxrregcount=32")).compile(
        "sm_80"
    )
    make_cuda("#if __cplusplus < 202002L\n#error no\n#endif\n" + WIDE, options=("--std=c++20",)).compile("sm_80")
    with pytest.raises(KernelError, match=r":2: error: "):
        make_cuda(text, options=("-DTILE=64",)).compile("sm_80")


TEMPLATE = """
enum Order { UP, DOWN };
template <typename Key, Order ORDER, bool WIDE = false>
__global__ void __launch_bounds__(256) counted(const Key* __restrict__ keys, int* out, long long n) {
    if (n) out[0] = keys[ORDER == UP ? 0 : n - 1];
}
extern "C" __global__ void plain(int* out) { out[0] = 1; }
"""
INSTANCE = "counted<unsigned char, DOWN>"


def test_an_instance_of_a_template_is_compiled_under_its_name(make_cuda: MakeCuda, compilations: list[str]) -> None:
    source = make_cuda(TEMPLATE)
    kernel = source.kernel(INSTANCE)
    assert str(kernel.signature) == "(const unsigned char* keys, int* out, long long n)"
    assert source.kernel(INSTANCE) is kernel
    assert source.names() == ("plain",)
    compiled = source.compile_instances("sm_80", (INSTANCE, "counted<short, UP, true>"))
    symbols = compiled.symbols
    assert list(symbols) == [INSTANCE, "counted<short, UP, true>"]
    assert all(symbol.startswith("_Z7counted") and symbol.encode() in compiled.code for symbol in symbols.values())
    # The cache keeps what each set of instances is compiled to.
    assert source.compile_instances("sm_80", (INSTANCE, "counted<short, UP, true>")).symbols == symbols
    assert source.compile_instances("sm_80", (INSTANCE,)).symbols == {INSTANCE: symbols[INSTANCE]}
    assert symbols[INSTANCE].encode() not in source.compile("sm_80")
    assert len(compilations) == 3


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("counted", "kernel 'counted' in lesson.cu is a template of <Key, ORDER, WIDE>; it was asked for as 'counted'"),
        ("plain<int>", "kernel 'plain' in lesson.cu is no template; it was asked for as 'plain<int>'"),
        ("count<int>", "no kernel 'count<int>' in lesson.cu; it defines: 'counted', 'plain'"),
    ],
)
def test_a_name_that_is_no_instance_is_refused(make_cuda: MakeCuda, name: str, message: str) -> None:
    with pytest.raises(KernelError) as caught:
        make_cuda(TEMPLATE).kernel(name)
    assert str(caught.value) == message


def test_an_instance_that_does_not_compile_is_a_sentence(make_cuda: MakeCuda) -> None:
    with pytest.raises(KernelError) as caught:
        make_cuda(TEMPLATE).compile_instances("sm_80", ("counted<unsigned chr, UP>",))
    assert str(caught.value) == (
        "kernel 'counted<unsigned chr, UP>' in lesson.cu cannot be made for sm_80: expected a \">\""
    )


def test_an_unknown_option_is_refused(make_cuda: MakeCuda) -> None:
    with pytest.raises(KernelError, match=r"(?s)^.*lesson.cu: .*--nonsense.*does not compile: lesson.cu for sm_80"):
        make_cuda(WIDE, options=("--nonsense",)).compile("sm_80")


class TestCache:
    def test_the_second_call_does_not_compile(self, make_cuda: MakeCuda, compilations: list[str]) -> None:
        first = make_cuda(WIDE).compile("sm_80")
        assert make_cuda(WIDE).compile("sm_80") == first
        assert compilations == ["sm_80"]

    def test_another_architecture_option_or_text_does(self, make_cuda: MakeCuda, compilations: list[str]) -> None:
        make_cuda(WIDE).compile("sm_80")
        make_cuda(WIDE).compile("sm_90")
        make_cuda(WIDE, options=("-DX",)).compile("sm_80")
        make_cuda(WIDE + "\n").compile("sm_80")
        assert len(compilations) == 4

    def test_a_changed_header_does(self, make_cuda: MakeCuda, tmp_path: Path, compilations: list[str]) -> None:
        (tmp_path / "inner").mkdir()
        (tmp_path / "outer.cuh").write_text('#pragma once\n# include "inner/deep.cuh"\n')
        (tmp_path / "inner/deep.cuh").write_text("#define ONE 1\n")
        source = make_cuda('#include "outer.cuh"\nextern "C" __global__ void f(int* a) { a[0] = ONE; }')
        first = source.compile("sm_80")
        source.compile("sm_80")
        (tmp_path / "inner/deep.cuh").write_text("#define ONE 10\n")
        assert source.compile("sm_80") != first
        assert compilations == ["sm_80", "sm_80"]

    def test_another_nvrtc_does(
        self, make_cuda: MakeCuda, compilations: list[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        make_cuda(WIDE).compile("sm_80")
        monkeypatch.setattr(cuda, "nvrtc_version", lambda: (99, 0))
        make_cuda(WIDE).compile("sm_80")
        assert len(compilations) == 2

    def test_a_truncated_entry_is_compiled_again(
        self, make_cuda: MakeCuda, cache_dir: Path, compilations: list[str]
    ) -> None:
        first = make_cuda(WIDE).compile("sm_80")
        (entry,) = cache_dir.iterdir()
        entry.write_bytes(entry.read_bytes()[:-100])
        assert make_cuda(WIDE).compile("sm_80") == first
        assert len(compilations) == 2
        make_cuda(WIDE).compile("sm_80")
        assert len(compilations) == 2, "the entry was mended"

    def test_an_unwritable_cache_only_costs_time(
        self, make_cuda: MakeCuda, compilations: list[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("AIPERF_CACHE_DIR", "/dev/null/nowhere")
        assert make_cuda(WIDE).compile("sm_80") == make_cuda(WIDE).compile("sm_80")
        assert len(compilations) == 2


class TestHeaders:
    @pytest.mark.parametrize(
        "header",
        ["cuda_fp16.h", "cuda_bf16.h", "cuda_fp8.h", "cuda_pipeline.h", "mma.h", "cuda.h", "stdint.h", "cstdint"],
    )
    def test_cudas_own_are_found(self, make_cuda: MakeCuda, header: str) -> None:
        folders = headers.cuda_include_folders(nvrtc.nvrtc_version()[0])
        if not any((folder / header).is_file() for folder in folders):
            pytest.skip(f"no CUDA headers are installed here: {header}")
        text = f'#include <{header}>\nextern "C" __global__ void f() {{}}'
        assert make_cuda(text).compile("sm_90").startswith(b"\x7fELF")

    def test_our_stand_ins_agree_with_libcudacxx(self, make_cuda: MakeCuda) -> None:
        folders = headers.cuda_include_folders(nvrtc.nvrtc_version()[0])
        if not any((folder / "cuda/std/cstdint").is_file() for folder in folders):
            pytest.skip("libcu++ is not installed here")
        text = "#include <stdint.h>\n#include <stddef.h>\n#include <cuda/std/cstdint>\n#include <cuda/std/cstddef>\n"
        make_cuda(text + "__device__ int64_t f(uint8_t a, ptrdiff_t b) { return a + b; }").compile("sm_80")

    def test_a_tensor_map_can_be_a_parameter(self, make_cuda: MakeCuda) -> None:
        text = (
            '#include <cuda.h>\nextern "C" __global__ void f(const __grid_constant__ CUtensorMap m, int* a) {}\n'
            "static_assert(sizeof(CUtensorMap) == 128 && alignof(CUtensorMap) == 64);"
        )
        source = make_cuda(text, archs=("sm_90",))
        assert source.compile("sm_90").startswith(b"\x7fELF")

    def test_the_header_of_copies_is_found_and_counts_for_the_cache(self, make_cuda: MakeCuda, tmp_path: Path) -> None:
        source = make_cuda(
            '#include "aiperf/bulk.cuh"\nextern "C" __global__ void f(const int* a) { __shared__ int s[4]; '
            "async_copy16(s, a); async_commit(); async_wait<0>(); }"
        )
        for arch in ("sm_80", "sm_90"):
            assert source.compile(arch).startswith(b"\x7fELF")
        (found,) = headers.local_headers(source.path, nvrtc.header_folders(source.path))
        assert found.relative_to(Path(headers.__file__).parent) == Path("include/aiperf/bulk.cuh")

    def test_folders_of_options_are_searched_from_the_source(self, make_cuda: MakeCuda, tmp_path: Path) -> None:
        (tmp_path / "shared").mkdir()
        (tmp_path / "shared/part.cuh").write_text("#define ONE 1\n")
        source = make_cuda('#include "part.cuh"\n__device__ int one() { return ONE; }', options=("-Ishared",))
        source.compile("sm_80")

    def test_headers_that_include_each_other_end(self, tmp_path: Path) -> None:
        (tmp_path / "a.cuh").write_text('#include "b.cuh"\n#include "missing.cuh"\n')
        (tmp_path / "b.cuh").write_text('#include "a.cuh"\n')
        (tmp_path / "x.cu").write_text('  #  include "a.cuh" // why\n#include <b.cuh>\n')
        assert headers.local_headers(tmp_path / "x.cu") == [tmp_path / "a.cuh", tmp_path / "b.cuh"]

    def test_wheels_come_before_the_machines_cuda(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        for folder in ("site/nvidia/cu13/include/cccl", "home/include", "site/nvidia/cuda_runtime/include"):
            (tmp_path / folder).mkdir(parents=True)
        monkeypatch.setattr(sys, "path", [str(tmp_path / "site"), ""])
        monkeypatch.setenv("CUDA_HOME", str(tmp_path / "home"))
        find = headers.cuda_include_folders.__wrapped__
        assert find(13)[1:4] == (
            tmp_path / "site/nvidia/cu13/include",
            tmp_path / "site/nvidia/cu13/include/cccl",
            tmp_path / "home/include",
        )
        assert find(12)[1:3] == (tmp_path / "site/nvidia/cuda_runtime/include", tmp_path / "home/include")


class TestLaunchHere:
    """What a launch says where there is no GPU, or before one is needed."""

    def test_the_count_is_checked_first(self, make_cuda: MakeCuda) -> None:
        with pytest.raises(KernelError) as error:
            make_cuda(WIDE).launch("wide", None, None, grid=1, block=1)
        assert str(error.value) == (
            "kernel 'wide' in lesson.cu takes 3 arguments (const float* a, float* b, long long n); got 2"
        )

    def test_a_host_tensor_is_refused(self, make_cuda: MakeCuda) -> None:
        a = torch.zeros(3)
        with pytest.raises(KernelError, match="takes a CUDA tensor of float32; got a tensor of float32 on cpu"):
            make_cuda(WIDE).launch("wide", a, a, 3, grid=1, block=1)

    def test_an_unknown_kernel_names_the_known(self, make_cuda: MakeCuda) -> None:
        with pytest.raises(KernelError) as error:
            make_cuda(WIDE).kernel("wider")
        assert str(error.value) == "no kernel 'wider' in lesson.cu; it defines: 'wide'"
        with pytest.raises(KernelError, match=r"it defines: none$"):
            make_cuda("").kernel("wider")

    def test_a_mangled_kernel_says_what_it_lacks(self, make_cuda: MakeCuda) -> None:
        source = make_cuda("__global__ void wide(int n) {}")
        with pytest.raises(KernelError) as error:
            source.kernel("wide")
        assert str(error.value) == "kernel 'wide' in lesson.cu must be declared extern \"C\" to be launched by name"
        assert source.names() == ()

    @pytest.mark.parametrize(
        ("shape", "message"),
        [
            ({"grid": 0, "block": 1}, "grid takes an int or a tuple of up to 3, each at least 1; got 0"),
            ({"grid": (1, 1, 1, 1), "block": 1}, "grid takes .*; got .1, 1, 1, 1."),
            ({"grid": (), "block": 1}, r"grid takes .*; got \(\)"),
            ({"grid": 1, "block": 2.5}, "block takes an int or a tuple of up to 3, each at least 1; got 2.5"),
            ({"grid": 1, "block": [32, -1]}, r"block takes .*; got \(32, -1\)"),
            ({"grid": 1, "block": 1, "shared_bytes": -1}, "shared_bytes takes a number of bytes from 0 on; got -1"),
            ({"grid": 1, "block": 1, "cluster": "2"}, "cluster takes .*; got '2'"),
        ],
    )
    def test_a_shape_that_is_none(self, make_cuda: MakeCuda, shape: dict[str, object], message: str) -> None:
        with pytest.raises(KernelError, match=message):
            make_cuda(WIDE).launch("wide", None, None, 3, **shape)  # type: ignore[arg-type]

    @pytest.mark.skipif(torch.cuda.is_available(), reason="is about machines without a GPU")
    def test_no_gpu_is_a_reason_to_skip(self, make_cuda: MakeCuda) -> None:
        kernel = make_cuda(WIDE).kernel("wide")
        with pytest.raises(SkipError, match="^needs a CUDA (driver|GPU)"):
            kernel(None, None, 3, grid=1, block=1)


class TestMissingPackages:
    @pytest.fixture(autouse=True)
    def forget(self) -> None:
        nvrtc.nvrtc_version.cache_clear()

    def test_cuda_bindings(self, make_cuda: MakeCuda, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "cuda.bindings.nvrtc", None)
        with pytest.raises(SkipError) as error:
            make_cuda(WIDE).compile("sm_80")
        assert str(error.value).startswith("needs the package 'cuda-bindings' (")
        assert str(error.value).endswith("; install it with: pip install 'aiperf-core[cuda]'")

    def test_nvrtc(self, make_cuda: MakeCuda, monkeypatch: pytest.MonkeyPatch) -> None:
        def missing() -> None:
            raise RuntimeError("libnvrtc.so: not found\nand much more")

        monkeypatch.setattr("cuda.bindings.nvrtc.nvrtcVersion", missing)
        with pytest.raises(SkipError) as error:
            make_cuda(WIDE).compile("sm_80")
        assert str(error.value) == (
            "needs NVRTC, the package 'nvidia-cuda-nvrtc' (libnvrtc.so: not found); "
            "install it with: pip install 'aiperf-core[cuda]'"
        )


def test_launches_are_recorded_and_not_made(make_cuda: MakeCuda, compilations: list[str]) -> None:
    source = make_cuda(
        'extern "C" __global__ void scale(float* a, int n) {}\ntemplate <typename T> __global__ void copy(T* a) {}\n'
    )
    asked = []

    def held(kernel: str, threads: int, shared_bytes: int) -> tuple[int, int]:
        asked.append((kernel, threads, shared_bytes))
        return 3, 132

    with source.recording(held) as launches:
        grid = grid_that_fills(source.kernel("copy<float>"), (32, 4), 1024, per_multiprocessor=2)
        source.kernel("copy<float>")(None, grid=grid, block=(32, 4), shared_bytes=1024)
        source.kernel("scale")("any tensor", 7, grid=(2, 3), block=64, cluster=2)
        with pytest.raises(KernelError, match="takes 2 arguments; got 1"):
            source.kernel("scale")(7, grid=1, block=64)
    assert asked == [("copy<float>", 128, 1024)]
    assert [(each.kernel, each.arguments, str(each.shape)) for each in launches] == [
        ("copy<float>", {"a": None}, "grid=(264, 1, 1), block=(32, 4, 1), shared_bytes=1024"),
        ("scale", {"a": "any tensor", "n": 7}, "grid=(2, 3, 1), block=(64, 1, 1), shared_bytes=0, cluster=(2, 1, 1)"),
    ]
    assert compilations == []
    assert not isinstance(source.kernel("scale"), RecordedKernel)
