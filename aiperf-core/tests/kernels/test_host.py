import math
import stat
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from aiperf_core.errors import CompileError, KernelError, SkipError, UsageError
from aiperf_core.kernels import HostSource, cache, host_compiler
from aiperf_core.kernels.headers import OWN_HEADERS

MakeHost = Callable[..., HostSource]

LESSON = """
#include <stdint.h>
#include <stdbool.h>
void scale(const float* restrict a, float* restrict b, int64_t n, float by) {
#pragma omp parallel for
    for (int64_t i = 0; i < n; i++) b[i] = by * a[i] + 1;
}
double total(const double* a, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += a[i];
    return sum;
}
float half_of(float x) { return x / 2; }
int32_t less_one(int32_t x) { return x - 1; }
int64_t square(int64_t x) { return x * x; }
uint8_t low_byte(unsigned x) { return (uint8_t)x; }
bool is_null(const void* p) { return p == 0; }
void* itself(void* p) { return p; }
"""


@pytest.fixture
def builds(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files that a compiler was really run on."""
    built: list[str] = []
    build = host_compiler.Compiler.build

    def counted(self: host_compiler.Compiler, path: Path, options: list[str], folder: Path) -> bytes:
        built.append(path.name)
        return build(self, path, options, folder)

    monkeypatch.setattr(host_compiler.Compiler, "build", counted)
    return built


def test_it_works_on_tensors_of_a_prime_length(make_host: MakeHost) -> None:
    source = make_host(LESSON)
    a = torch.randn(100_003)
    b = torch.full_like(a, float("nan"))
    assert source.call("scale", a, b, a.numel(), 2.0) is None
    torch.testing.assert_close(b, 2 * a + 1, rtol=1e-6, atol=1e-6)  # the compiler may fuse multiply and add
    numbers = torch.randn(10_007, dtype=torch.float64)
    assert source.call("total", numbers, 10_007) == pytest.approx(numbers.sum().item())


def test_every_kind_of_result_comes_back(make_host: MakeHost) -> None:
    source = make_host(LESSON)
    assert source.call("half_of", 3) == 1.5
    assert source.call("less_one", -(1 << 31) + 1) == -(1 << 31)
    assert source.call("square", 1 << 31) == 1 << 62
    assert source.call("low_byte", 0x1FF) == 0xFF
    assert source.call("is_null", None) is True
    assert source.call("is_null", torch.zeros(1)) is False
    assert source.names()[:3] == ("scale", "total", "half_of")


def test_what_does_not_fit_is_refused(make_host: MakeHost) -> None:
    scale = make_host(LESSON).function("scale")
    a = torch.zeros(3)
    with pytest.raises(KernelError) as error:
        scale(a, a.double(), 3, 1.0)
    assert str(error.value) == (
        "function 'scale' in lesson.c: 'float* restrict b' takes a CPU tensor of float32; got a tensor of float64 on cpu"
    )
    with pytest.raises(KernelError, match=r"takes 4 arguments \(const float\* restrict a, .*, float by\); got 3$"):
        scale(a, a, 3)
    with pytest.raises(KernelError, match="'int64_t n' holds -9223372036854775808 to 9223372036854775807; got"):
        scale(a, a, 1 << 63, 1.0)
    with pytest.raises(KernelError, match="'int32_t x' holds -2147483648 to 2147483647; got 2147483648"):
        make_host(LESSON).call("less_one", 1 << 31)


def test_unknown_and_unfit_functions(make_host: MakeHost) -> None:
    with pytest.raises(KernelError, match=r"^no function 'scales' in lesson.c; it defines: 'scale', 'total', "):
        make_host(LESSON).call("scales")
    with pytest.raises(KernelError, match=r"^function 'itself' in lesson.c returns a pointer; void and numbers can be"):
        make_host(LESSON).call("itself", None)
    with pytest.raises(UsageError, match="options takes a tuple"):
        make_host(LESSON, options="-O0")


def test_an_error_has_its_file_and_line(make_host: MakeHost) -> None:
    source = make_host("void f(float* a) {\n    a[0] = b;\n}\n")
    with pytest.raises(CompileError) as error:
        source.compile()
    first, *others = str(error.value).splitlines()
    assert first.startswith(f"{source.path}:2: error: ")
    assert "undeclared" in first
    assert others[0] == "  does not compile: lesson.c"
    assert "-march=native" in others[1]
    assert str(source.path) in others[1]
    assert "undeclared" in Path(others[2].partition("whole log: ")[2]).read_text()


def test_an_unresolved_symbol_says_so(make_host: MakeHost) -> None:
    with pytest.raises(
        KernelError, match=r"(?s)lesson.c was compiled, but could not be loaded.*nowhere|nowhere.*does not compile"
    ):
        make_host("void nowhere(void);\nvoid f(void) { nowhere(); }", options=("-Wl,-z,now",)).call("f")


def test_options_come_after_ours(make_host: MakeHost, tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared/part.h").write_text("#define HALF 21\n")
    text = '#include "part.h"\nint answer(void) { return HALF * FACTOR; }'
    assert make_host(text, options=("-DFACTOR=2", "-Ishared", "-O0")).call("answer") == 42


class TestCache:
    def test_the_second_call_does_not_compile(self, make_host: MakeHost, builds: list[str]) -> None:
        assert make_host(LESSON).call("square", 3) == make_host(LESSON).call("square", -3) == 9
        assert builds == ["lesson.c"]

    def test_a_changed_header_or_option_does(self, make_host: MakeHost, tmp_path: Path, builds: list[str]) -> None:
        text = '#include "part.h"\nint answer(void) { return ANSWER; }'
        for answer in (1, 2):
            (tmp_path / "part.h").write_text(f"#define ANSWER {answer}\n")
            assert make_host(text).call("answer") == answer
        make_host(text, options=("-O0",)).call("answer")
        assert len(builds) == 3

    def test_a_header_of_aiperf_is_found_and_counts(
        self, make_host: MakeHost, builds: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        text = (
            '#include <stdint.h>\n#include "aiperf/row_products.h"\n'
            "void f(const float* a, const float* b, float* c, int64_t m, int64_t n, int64_t k) { product(a, b, c, m, n, k); }\n"
            "float e(float x) { return exponential(x); }"
        )
        a, b, c = torch.randn(12, 5), torch.randn(5, 37), torch.full((12, 37), torch.nan)
        source = make_host(text)
        source.call("f", a, b, c, 11, 37, 5)  # 12 rows of memory, a multiple of PRODUCT_ROWS
        torch.testing.assert_close(c[:11], (a @ b)[:11])
        assert source.call("e", -3.5) == pytest.approx(math.exp(-3.5), rel=1e-6)
        assert source.call("e", 12.25) == pytest.approx(math.exp(12.25), rel=1e-6)
        own = tmp_path / "own" / "aiperf"
        own.mkdir(parents=True)
        (own / "row_products.h").write_text((OWN_HEADERS / "aiperf" / "row_products.h").read_text() + "// changed\n")
        monkeypatch.setattr("aiperf_core.kernels.host.OWN_HEADERS", own.parent)
        make_host(text).compile()
        assert len(builds) == 2

    def test_another_processor_does(
        self, make_host: MakeHost, builds: list[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        make_host(LESSON).compile()
        monkeypatch.setattr("aiperf_core.kernels.host.cpu_model", lambda: "x86_64 with other instructions")
        make_host(LESSON).compile()
        assert len(builds) == 2

    def test_a_damaged_entry_is_compiled_again(self, make_host: MakeHost, cache_dir: Path, builds: list[str]) -> None:
        make_host(LESSON).compile()
        (entry,) = cache_dir.iterdir()
        entry.write_bytes(entry.read_bytes()[:200])
        assert make_host(LESSON).call("square", 3) == 9
        assert len(builds) == 2

    def test_an_unwritable_cache_only_costs_time(self, make_host: MakeHost, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("AIPERF_CACHE_DIR", "/dev/null/nowhere")
        source = make_host(LESSON)
        assert cache.kernels_folder() == Path("/dev/null/nowhere/kernels")
        assert source.call("square", 3) == 9


class TestCompiler:
    def test_none_on_the_path(self, make_host: MakeHost, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PATH", "")
        monkeypatch.delenv("CC", raising=False)
        with pytest.raises(SkipError, match=r"^needs a C compiler \(looked for \$CC, cc, gcc, clang\)$"):
            make_host(LESSON).call("square", 3)

    def test_cc_comes_first_and_may_have_flags(
        self, make_host: MakeHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        compiler = host_compiler.find_compiler().command[0]
        wrapper = tmp_path / "my cc"
        wrapper.write_text(f'#!/bin/sh\nexec {compiler} "$@"\n')
        wrapper.chmod(wrapper.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("CC", f"'{wrapper}' -DWRAPPED=7")
        assert make_host("int seven(void) { return WRAPPED; }").call("seven") == 7

    def test_one_without_openmp_still_compiles(
        self, make_host: MakeHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        compiler = host_compiler.find_compiler().command[0]
        wrapper = tmp_path / "cc-without-openmp"
        wrapper.write_text(
            f'#!/bin/sh\nfor one in "$@"; do [ "$one" = -fopenmp ] && exit 1; done\nexec {compiler} "$@"\n'
        )
        wrapper.chmod(0o755)
        monkeypatch.setenv("CC", str(wrapper))
        source = make_host("int threads(void) {\n#ifdef _OPENMP\nreturn 1;\n#else\nreturn 0;\n#endif\n}")
        assert source.call("threads") == 0
        assert source.threads is None
        source.set_threads(3)

    def test_one_that_cannot_be_run(self, make_host: MakeHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "cc").write_bytes(b"\x7fELF but not really")
        (tmp_path / "cc").chmod(0o755)
        monkeypatch.setenv("CC", str(tmp_path / "cc"))
        with pytest.raises(KernelError, match="could not run the C compiler"):
            make_host(LESSON).compile()


needs_openmp = pytest.mark.skipif(
    not host_compiler.find_compiler().openmp, reason="the C compiler of this machine has no OpenMP"
)


@needs_openmp
def test_openmp_follows_torchs_threads(make_host: MakeHost, monkeypatch: pytest.MonkeyPatch) -> None:
    text = """
    #include <omp.h>
    int used(void) {
        int count = 0;
    #pragma omp parallel
    #pragma omp single
        count = omp_get_num_threads();
        return count;
    }"""
    source = make_host(text)
    before = torch.get_num_threads()
    try:
        for count in (3, 1, 2):
            torch.set_num_threads(count)
            assert source.function("used")() == source.threads == count
        source.set_threads(5)
        assert source.call("used") == 5
        # Where both share one runtime, torch's count has followed; where not, it has stayed.
        monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
        assert source.function("used")() == 3
    finally:
        torch.set_num_threads(before)


def test_a_call_lets_go_of_pythons_lock(make_host: MakeHost) -> None:
    source = make_host("#define _GNU_SOURCE\n#include <unistd.h>\nvoid wait_us(unsigned us) { usleep(us); }")
    wait = source.function("wait_us")
    waiting = threading.Thread(target=wait, args=(500_000,))
    started = time.monotonic()
    waiting.start()
    turns = 0
    while waiting.is_alive():
        turns += 1
        time.sleep(0.01)
    assert turns > 5
    assert time.monotonic() - started >= 0.5


def test_the_key_knows_the_compiler(make_host: MakeHost, monkeypatch: pytest.MonkeyPatch, cache_dir: Path) -> None:
    make_host(LESSON).compile()
    monkeypatch.setenv("CC", f"{host_compiler.find_compiler().command[0]} -DOTHER")
    make_host(LESSON).compile()
    assert len(list(cache_dir.rglob("*.so"))) == 2


@pytest.mark.parametrize(("links", "probes"), [(True, 1), (False, 2)])
def test_a_compiler_with_openmp_is_probed_once_for_a_cache(
    cache_dir: Path, monkeypatch: pytest.MonkeyPatch, links: bool, probes: int
) -> None:
    probed = []
    monkeypatch.setattr(host_compiler, "_links_openmp", lambda compiler: [probed.append(compiler), links][1])
    monkeypatch.setattr(host_compiler, "_has_openmp", host_compiler._has_openmp.__wrapped__)  # as another process
    for _ in range(2):
        assert host_compiler.find_compiler().openmp == (("-fopenmp",) if links else ())
    assert len(probed) == probes
